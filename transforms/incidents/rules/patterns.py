"""Finds patterns over time: storms of rebalances, members that flap, rebalances and transactions that do not end.

All are inferred, not observed.

Storms and flapping follow the rules, and the parameters, of `transforms.history.rebalance_stats`; here each pattern
becomes a sighting with its beginning, its end and its rows. The statistics count runs of a job (`jobs`), too, but these
are not incidents. A stalled transaction is a partition of `__consumer_offsets` whose last stable offset stands still
below its high watermark. Readers of committed records wait at that offset, this ledger among them, and the offsets that
a group committed in that transaction are not valid yet. The samples do not show which group that was.

A rebalance waits for every member, for as long as the longest max.poll.interval.ms among them allows. It is stuck under
three conditions, for longer than `stuck_rebalance_ms`, which by default is twice Kafka's default of that setting: all
samples show the rebalance, no generation began, and records lay unread in partitions that nobody committed. The topic
itself does not show that a rebalance has begun. A group of KIP-848 has no such rebalance. There the topic shows which
member has a partition that another member waits for, and the reconciliation is stuck if records lay unread in such a
partition for longer than `stuck_reconciliation_ms`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import groupby
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.group_states import COMPLETING_REBALANCE, PREPARING_REBALANCE
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds.changes import GROUP_STARTED
from groupledger.schemas.kinds.clauses import Fact
from groupledger.schemas.kinds.incidents import (
    MEMBER_FLAPPING,
    REBALANCE_STORM,
    REBALANCE_STUCK,
    RECONCILIATION_STUCK,
    STALLED_TRANSACTION,
)
from groupledger.schemas.kinds.triggers import LEFT, SESSION_EXPIRED
from groupledger.schemas.words import Evidence
from groupledger.transforms.history.rules.departures import has_left_by
from groupledger.transforms.history.rules.follow_ups import is_price_of_another
from groupledger.transforms.incidents.rules.blameless import is_disturbed
from groupledger.transforms.incidents.rules.facts import RebalanceStretch, host, identity, milliseconds
from groupledger.transforms.incidents.rules.growth import Growth
from groupledger.transforms.incidents.rules.inferred import row_proof
from groupledger.transforms.incidents.rules.jobs import job_runs
from groupledger.transforms.incidents.rules.proof import Proof
from groupledger.transforms.incidents.rules.sighting import Sighting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from groupledger.transforms.incidents.rules.facts import CommitStep, EndSample, HeldPartition, Rules
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts
    from groupledger.transforms.incidents.rules.jobs import JobRuns

    Row = dict[str, Any]

FLAPPING_WINDOW_MS = 3_600_000
FACT_OF_STATE = {
    PREPARING_REBALANCE: (Fact.AWAITS_MEMBERS,),
    COMPLETING_REBALANCE: (Fact.AWAITS_ASSIGNMENT,),
}


def patterns(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    jobs = job_runs(facts)
    yield from _storms(facts, jobs, rules)
    undisturbed = [row for row in facts.members if row["left_at"] is None or not _dropped_out(row, facts)]
    yield from _flapping(undisturbed, jobs, rules)
    yield from _stuck(facts, rules)
    yield from _held_back(facts, rules)
    yield from _stalled(facts.samples, rules)


def _dropped_out(row: Row, facts: GroupFacts) -> bool:
    """Returns whether a fault of brokers may have ended a tenure."""
    is_expiry = row["leave_cause"] in (None, SESSION_EXPIRED.name)
    return is_disturbed(facts, row["left_at"], by_any=is_expiry)


def _storms(facts: GroupFacts, jobs: JobRuns, rules: Rules) -> Iterator[Sighting]:
    """Yields one storm for all rebalances in a row that each were part of a storm."""
    recent: deque[Row] = deque()
    growth = Growth(facts)
    storm: list[Row] = []
    for row in sorted(facts.rebalances, key=lambda row: (row["happened_at"], row["kafka_offset"])):
        if _is_birth(row) or is_price_of_another(row) or jobs.holds(row["kafka_offset"]):
            continue
        if growth.holds(row) or is_disturbed(facts, row["happened_at"], by_any=True):
            continue
        recent.append(row)
        while milliseconds(row["happened_at"]) - milliseconds(recent[0]["happened_at"]) >= rules.storm_window_ms:
            recent.popleft()
        members = max(each["member_count"] or 0 for each in recent)
        if len(recent) >= max(rules.storm_rebalances, rules.storm_rebalances_per_member * members):
            storm = storm or list(recent)[:-1]
            storm.append(row)
        elif storm:
            yield _storm(storm)
            storm = []
    if storm:
        yield _storm(storm)


def _is_birth(row: Row) -> bool:
    return any(change["kind"] == GROUP_STARTED.name for change in row["changes"] or ())


def _storm(rows: Sequence[Row]) -> Sighting:
    return Sighting(
        kind=REBALANCE_STORM,
        evidence=Evidence.INFERRED,
        severity=REBALANCE_STORM.severity,
        confidence=REBALANCE_STORM.confidence,
        first_ms=milliseconds(rows[0]["happened_at"]),
        last_ms=milliseconds(rows[-1]["happened_at"]),
        happening=f"{rows[0]['incarnation']}/{rows[0]['to_generation']}",
        proofs=tuple(row_proof("rebalances", row, "group_id", "incarnation", "to_generation") for row in rows),
        current_generation=rows[-1]["to_generation"],
        incarnation=rows[0]["incarnation"],
        detail=str(len(rows)),
    )


def _flapping(members: Iterable[Row], jobs: JobRuns, rules: Rules) -> Iterator[Sighting]:
    by_identity: dict[tuple[str | None, ...], list[Row]] = defaultdict(list)
    for row in members:
        is_known = row["left_at"] is not None and row["is_start_known"] and row["is_end_known"]
        if is_known and not jobs.holds(row["from_offset"]):
            tenure_ms = milliseconds(row["left_at"]) - milliseconds(row["joined_at"])
            if tenure_ms < rules.flapping_tenure_ms:
                by_identity[identity(row)].append(row)
    for rows in by_identity.values():
        rows.sort(key=lambda row: row["left_at"])
        run: list[Row] = []
        for row in rows:
            if run and milliseconds(row["left_at"]) - milliseconds(run[-1]["left_at"]) >= FLAPPING_WINDOW_MS:
                yield from _flaps(run, rules)
                run = []
            run.append(row)
        yield from _flaps(run, rules)


def _flaps(rows: Sequence[Row], rules: Rules) -> Iterator[Sighting]:
    """Yields the member if enough of its tenures ended within some hour."""
    reach = rules.flapping_tenures - 1
    ends_ms = [milliseconds(row["left_at"]) for row in rows]
    if not any(ends_ms[n + reach] - ends_ms[n] < FLAPPING_WINDOW_MS for n in range(len(rows) - reach)):
        return
    yield Sighting(
        kind=MEMBER_FLAPPING,
        evidence=Evidence.INFERRED,
        severity=MEMBER_FLAPPING.severity,
        confidence=MEMBER_FLAPPING.confidence,
        first_ms=milliseconds(rows[0]["joined_at"]),
        last_ms=ends_ms[-1],
        happening=rows[0]["member_id"],
        proofs=tuple(row_proof("members", row, "group_id", "incarnation", "member_id") for row in rows),
        group_instance_id=rows[0]["group_instance_id"],
        client_id=rows[0]["client_id"],
        client_host=host(rows[0]["client_host"]),
        current_generation=rows[-1]["to_generation"],
        incarnation=rows[0]["incarnation"],
        detail=str(len(rows)),
        known=(Fact.LEFT_IN_ORDER,) if 2 * sum(has_left_by(row, LEFT.name) for row in rows) > len(rows) else (),
    )


def _stuck(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    for stretch in facts.stretches:
        met = facts.lookups.steps_waiting(stretch.first_ms, stretch.last_ms)
        waiting = [step for step in met if _waited_ms(step, stretch) >= rules.stuck_rebalance_ms]
        if not waiting:
            continue
        states = (Proof("group_states", f"{at_ms}/{facts.group_id}") for at_ms in (stretch.first_ms, stretch.last_ms))
        yield Sighting(
            kind=REBALANCE_STUCK,
            evidence=Evidence.INFERRED,
            severity=REBALANCE_STUCK.severity,
            confidence=REBALANCE_STUCK.confidence,
            first_ms=stretch.first_ms,
            last_ms=stretch.last_ms,
            happening=str(stretch.first_ms),
            proofs=(*states, *(step.commit.proof for step in waiting)),
            offsets=tuple((step.commit.place, None) for step in waiting),
            detail=f"{sum(_unread(step) for step in waiting):,}",
            known=(*FACT_OF_STATE.get(stretch.state or "", ()), *_static(facts, stretch.first_ms)),
        )


def _static(facts: GroupFacts, at_ms: int) -> tuple[str, ...]:
    """Returns the fact that the group has static members, if one was there at the instant `at_ms`."""
    return (Fact.STATIC_MEMBER,) if facts.lookups.static_members.meeting(at_ms - 1, at_ms) else ()


def _held_back(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    """Yields each member that kept partitions of a target too long, where that did harm."""
    by_holder: dict[tuple[int, str, int], list[HeldPartition]] = defaultdict(list)
    for held in facts.held:
        by_holder[held.incarnation, held.held_by, held.from_ms].append(held)
    for (incarnation, holder, from_ms), parts in by_holder.items():
        until_ms: dict[TopicPartition, int] = {}
        for held in parts:
            until_ms[held.place] = max(held.until_ms, until_ms.get(held.place, 0))
        stretches = {place: RebalanceStretch(from_ms, end_ms) for place, end_ms in until_ms.items()}
        waiting = [
            step
            for step in facts.lookups.steps_waiting(from_ms, max(until_ms.values()))
            if step.commit.place in stretches
            and _waited_ms(step, stretches[step.commit.place]) >= rules.stuck_reconciliation_ms
        ]
        if not waiting:
            continue
        places = {step.commit.place for step in waiting}
        keys = [f"{facts.group_id}/{incarnation}/{each.member_id}/{each.from_offset}" for each in parts]
        yield Sighting(
            kind=RECONCILIATION_STUCK,
            evidence=Evidence.INFERRED,
            severity=RECONCILIATION_STUCK.severity,
            confidence=RECONCILIATION_STUCK.confidence,
            first_ms=from_ms,
            last_ms=max(stretches[place].last_ms for place in places),
            happening=f"{incarnation}/{holder}/{from_ms}",
            proofs=(
                *(Proof("member_epochs", key) for key in dict.fromkeys(keys)),
                *(step.commit.proof for step in waiting),
            ),
            member_id=holder,
            incarnation=incarnation,
            offsets=tuple((step.commit.place, None) for step in waiting),
            detail=f"{sum(_unread(step) for step in waiting):,}",
        )


def _unread(step: CommitStep) -> int:
    return (step.high_watermark or step.commit.offset) - step.commit.offset


def _waited_ms(step: CommitStep, stretch: RebalanceStretch) -> int:
    """Returns for how long of a stretch records are known to have waited after a commit; 0 or less if not at all."""
    if step.waiting_from_ms is None:
        return 0
    end_ms = stretch.last_ms if step.next_commit is None else min(step.next_commit.at_ms, stretch.last_ms)
    return end_ms - max(step.waiting_from_ms, stretch.first_ms)


def _stalled(samples: Sequence[EndSample], rules: Rules) -> Iterator[Sighting]:
    """Yields the times for which the last stable offset stood still; `samples` are of one partition, in order."""
    for stable, same in groupby(samples, key=lambda each: each.last_stable_offset):
        stalled = [each for each in same if stable is not None and stable < (each.high_watermark or 0)]
        if not stalled or stalled[-1].sampled_at_ms - stalled[0].sampled_at_ms < rules.stalled_transaction_ms:
            continue
        place = TopicPartition(OFFSETS_TOPIC, stalled[0].partition)
        yield Sighting(
            kind=STALLED_TRANSACTION,
            evidence=Evidence.INFERRED,
            severity=STALLED_TRANSACTION.severity,
            confidence=STALLED_TRANSACTION.confidence,
            first_ms=stalled[0].sampled_at_ms,
            last_ms=stalled[-1].sampled_at_ms,
            happening=f"{stalled[0].partition}/{stable}",
            proofs=tuple(Proof("watermarks", f"{each.sampled_at_ms}/{place[0]}/{place[1]}") for each in stalled),
            offsets=((place, stable),),
        )
