"""Compares the incidents of real groups with what the matrix did to them, and with the broker's request log.

In a case without static members the process of the consumer `v` is killed, and the poll loop of `c` is stopped. In a
case with static members the killed member is back within its session. There only `i1` is removed, because static
members don't leave when they are closed, so that its session expires. Everything else that happens is normal operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.kinds.incidents import POLL_TIMEOUT, REMOVALS, SESSION_EXPIRED
from groupledger.schemas.words import Completeness
from groupledger.transforms.history.rules.events import Coverage
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.incidents.rules import GroupFacts
from groupledger.transforms.incidents.rules.inferred import inferred
from groupledger.transforms.incidents.rules.observed import observed
from lab.kafka import matrix
from lab.kafka.incident_facts import events_of, requests_of
from lab.kafka.matrix_truth import decoded_rows
from lab.truth import simulated
from lab.truth.faults import only_topic
from lab.truth.from_logs import group_state, history_facts
from lab.truth.histories import position, summaries
from lab.truth.made import RULES
from lab.truth.scores import Judged, alarming, described

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from groupledger.transforms.incidents.rules import GroupState
    from groupledger.transforms.incidents.rules.sighting import Sighting
    from lab.kafka.local_broker import LocalBroker
    from lab.kafka.matrix import Case
    from lab.truth.histories import Entry

Removal = tuple[str | None, str]  # (client id, kind)


def facts_of(broker: LocalBroker, cases: Sequence[Case]) -> dict[str, GroupFacts]:
    """Returns the facts, by group, of a ledger that imported the request log and the server log and read the topic from
    its begin."""
    requests, events, now_ms = requests_of(broker), events_of(broker), matrix.now_ms()
    entries: dict[str, list[Entry]] = {case.group: [] for case in cases}
    states: dict[str, list[GroupState]] = {case.group: [] for case in cases}
    partitions: dict[str, int] = {}
    for row, at_ms in decoded_rows(broker):
        group = row["group_id"]
        if group not in entries:
            continue
        partitions[group] = row["kafka_partition"]
        entries[group].append(simulated._entry(row, at_ms))
        if row["record_type"] == "group_metadata":
            states[group].append(group_state(row, at_ms))
    found = {}
    for group, partition in partitions.items():
        log = sorted(entries[group], key=position)
        rows = fold(group, partition, None, summaries([Coverage(0, Completeness.COMPLETE), *log])).rows
        history = history_facts(partition, log, rows)
        found[group] = GroupFacts(group, now_ms, requests[group], events[group], **history, records=states[group])
    return found


def removals(case: Case) -> set[Removal]:
    """Returns the removals of members that the matrix caused in a case, by client id and kind of incident."""
    if case.is_static:
        return {(f"{case.group}-i1", SESSION_EXPIRED.name)}
    return {(f"{case.group}-v", SESSION_EXPIRED.name), (f"{case.group}-c", POLL_TIMEOUT.name)}


def observed_removals(facts: GroupFacts) -> set[Removal]:
    clients = {row["member_id"]: row["client_id"] for row in facts.members}
    return {
        (clients.get(each.member_id, each.member_id), each.kind.name)
        for each in observed(facts)
        if each.kind in REMOVALS
    }


def judged_removals(case: Case, facts: GroupFacts) -> Iterator[Judged]:
    """Yields a judgement for each removal that is true or that the rules infer from the topic alone."""
    true = removals(case)
    claims: dict[Removal, Sighting] = {
        (each.client_id, each.kind.name): each for each in inferred(only_topic(facts), RULES) if each.kind in REMOVALS
    }
    for removal in true | claims.keys():
        claim = claims.get(removal)
        yield Judged(removal[1], removal in true, claim is not None, claim.confidence if claim else 0.0)


def false_alarms(case: Case, facts: GroupFacts) -> list[str]:
    """Returns the incidents above severity info about clients that had no fault. Such clients may have been closed."""
    harmed = set() if case.is_static else {client_id for client_id, _ in removals(case)}
    return [
        described(row) for row in alarming(facts) if row["client_id"] is not None and row["client_id"] not in harmed
    ]
