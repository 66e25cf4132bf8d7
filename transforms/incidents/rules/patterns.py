"""Patterns over time: storms of rebalances, members that flap, transactions that never end. All are inferred.

Storms and flapping follow the rules, and the parameters, of `transforms.history.rebalance_stats`; here each gets its
beginning, its end and its rows. A stalled transaction is a partition of `__consumer_offsets` whose last stable offset
stands still below its high watermark: read_committed readers, this ledger among them, wait there, and so do the offsets
of whatever group committed in that transaction. Which one that was, the samples do not tell.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import groupby
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.incidents.rules.facts import Proof, host
from groupledger.transforms.incidents.rules.inferred import identity, milliseconds, row_proof
from groupledger.transforms.incidents.rules.sighting import (
    INFERRED,
    MEMBER_FLAPPING,
    REBALANCE_STORM,
    STALLED_TRANSACTION,
    WARNING,
    Sighting,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from groupledger.transforms.incidents.rules.facts import EndSample, GroupFacts, Rules

    Row = dict[str, Any]

CONFIDENCE = 0.95
FLAPPING_WINDOW_MS = 3_600_000


def patterns(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    yield from _storms(facts, rules)
    yield from _flapping(facts.members, rules)
    yield from _stalled(facts.samples, rules)


def _storms(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    """Rebalances in a row at each of which there was a storm are one."""
    recent: deque[Row] = deque()
    storm: list[Row] = []
    for row in sorted(facts.rebalances, key=lambda row: (row["happened_at"], row["kafka_offset"])):
        if _is_birth(row) or row["caused_by_generation"] is not None:
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
    return any(change["kind"] == "group_started" for change in row["changes"] or ())


def _storm(rows: Sequence[Row]) -> Sighting:
    return Sighting(
        REBALANCE_STORM,
        INFERRED,
        WARNING,
        CONFIDENCE,
        milliseconds(rows[0]["happened_at"]),
        milliseconds(rows[-1]["happened_at"]),
        f"{rows[0]['incarnation']}/{rows[0]['to_generation']}",
        tuple(row_proof("rebalances", row, "group_id", "incarnation", "to_generation") for row in rows),
        current_generation=rows[-1]["to_generation"],
        incarnation=rows[0]["incarnation"],
        detail=str(len(rows)),
    )


def _flapping(members: Iterable[Row], rules: Rules) -> Iterator[Sighting]:
    by_identity: dict[tuple[str | None, ...], list[Row]] = defaultdict(list)
    for row in members:
        if row["left_at"] is not None and row["is_start_known"] and row["is_end_known"]:
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
    """At least so many within some hour."""
    reach = rules.flapping_tenures - 1
    ends_ms = [milliseconds(row["left_at"]) for row in rows]
    if not any(ends_ms[n + reach] - ends_ms[n] < FLAPPING_WINDOW_MS for n in range(len(rows) - reach)):
        return
    yield Sighting(
        MEMBER_FLAPPING,
        INFERRED,
        WARNING,
        CONFIDENCE,
        milliseconds(rows[0]["joined_at"]),
        ends_ms[-1],
        rows[0]["member_id"],
        tuple(row_proof("members", row, "group_id", "incarnation", "member_id") for row in rows),
        group_instance_id=rows[0]["group_instance_id"],
        client_id=rows[0]["client_id"],
        client_host=host(rows[0]["client_host"]),
        current_generation=rows[-1]["to_generation"],
        incarnation=rows[0]["incarnation"],
        detail=str(len(rows)),
    )


def _stalled(samples: Sequence[EndSample], rules: Rules) -> Iterator[Sighting]:
    """`samples` are in order of time, of one partition."""
    for stable, same in groupby(samples, key=lambda each: each.last_stable_offset):
        stalled = [each for each in same if stable is not None and stable < (each.high_watermark or 0)]
        if not stalled or stalled[-1].sampled_at_ms - stalled[0].sampled_at_ms < rules.stalled_transaction_ms:
            continue
        place = (OFFSETS_TOPIC, stalled[0].partition)
        yield Sighting(
            STALLED_TRANSACTION,
            INFERRED,
            WARNING,
            CONFIDENCE,
            stalled[0].sampled_at_ms,
            stalled[-1].sampled_at_ms,
            f"{stalled[0].partition}/{stable}",
            tuple(Proof("watermarks", f"{each.sampled_at_ms}/{place[0]}/{place[1]}") for each in stalled),
            offsets=((place, stable),),
        )
