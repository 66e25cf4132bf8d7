"""Makes the facts of a group that has something of every kind again and again, for days."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.group_states import PREPARING_REBALANCE
from groupledger.schemas.words import HoleCause, LagStatus, OffsetEventKind
from groupledger.transforms.incidents.rules.facts import (
    CommitStep,
    HeldPartition,
    LagStretch,
    OffsetEvent,
    OffsetReturn,
    RebalanceStretch,
)
from groupledger.transforms.incidents.rules.group_facts import GroupFacts
from lab.truth.made import T, commit, event, generation, interval, rebalance, request, tenure

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR, PARTITIONS = 3_600, 4
LEFT = {"leave_cause": "left", "leave_cause_confidence": 0.95}
SILENT = {"leave_cause": "session_expired", "leave_cause_confidence": 0.85}


def group_with_a_past(hours: int) -> GroupFacts:
    """Returns a group that runs each hour for half an hour; each run has another trouble."""
    facts = GroupFacts("g", T + hours * HOUR * 1_000)
    for number in range(hours):
        begin, end = number * HOUR + 10, number * HOUR + 1_800
        _run(facts, number, begin, end)
        TROUBLES[number % len(TROUBLES)](facts, number, begin, end)
    for rows in (facts.generations, facts.rebalances):
        rows.sort(key=lambda row: row["kafka_offset"])
    facts.members.sort(key=lambda row: row["from_offset"])
    facts.assignments.sort(key=lambda row: row["from_offset"])
    facts.steps.sort(key=lambda step: step.commit.kafka_offset)
    facts.requests.sort(key=lambda each: each.happened_at_us)
    facts.events.sort(key=lambda each: each.logged_at_ms)
    return facts


def _run(facts: GroupFacts, number: int, begin: int, end: int) -> None:
    """Adds a run of a member, and the time without members after it, in which records wait."""
    facts.generations += [
        generation(20 * number + 1, begin, end),
        generation(20 * number + 19, end, begin + HOUR, member_count=0),
    ]
    facts.rebalances += [rebalance(20 * number + 1, begin), rebalance(20 * number + 19, end)]
    facts.members.append(tenure(f"m-{number}", begin, end, **(SILENT if number % 3 else LEFT)))
    for partition in range(PARTITIONS):
        facts.assignments.append(interval(f"m-{number}", partition, begin, end))
        last, following = end - 5 - partition, begin + HOUR + 5 + partition
        facts.steps.append(_step(number * 100, last, number * 100 + 100, following, partition))


def _step(before: int, begin: int, after: int, end: int, partition: int = 0) -> CommitStep:
    return CommitStep(
        commit=commit(before, T + begin * 1_000, begin, partition),
        next_commit=commit(after, T + end * 1_000, end, partition),
        interval_ms=5_000.0,
        high_watermark=max(before, after) + 50,
        waiting_from_ms=T + begin * 1_000 + 60_000,
    )


def _comes_back(facts: GroupFacts, number: int, begin: int, end: int) -> None:
    """A member drops out beside the other one, and comes back under another id."""
    gone, back = begin + 600, begin + 700
    facts.members.append(tenure(f"z-{number}", begin, gone, client_id="zombie", **SILENT))
    facts.members.append(tenure(f"zz-{number}", back, end, client_id="zombie", **LEFT))


def _storm(facts: GroupFacts, number: int, begin: int, end: int) -> None:
    turns = range(begin + 300, begin + 600, 30)
    facts.rebalances += [rebalance(20 * number + 2 + turn, at) for turn, at in enumerate(turns)]
    facts.members += [tenure(f"f-{number}-{at}", at, at + 20, client_id="flaps", **LEFT) for at in turns]


def _goes_back(facts: GroupFacts, number: int, begin: int, end: int) -> None:
    for at in (begin + 400, begin + 900):
        facts.steps.append(_step(number * 100 + 90, at, number * 100 + 20, at + 10, partition=1))
    facts.steps.append(_step(number * 100, begin + 1_000, number * 100 + 50, begin + 1_700))


def _stands_still(facts: GroupFacts, number: int, begin: int, end: int) -> None:
    from_ms, until_ms = T + (begin + 100) * 1_000, T + (begin + 1_500) * 1_000
    facts.steps.append(_step(number * 100, begin + 50, number * 100 + 50, begin + 1_700))
    facts.stretches.append(RebalanceStretch(from_ms, until_ms, PREPARING_REBALANCE))
    facts.held.append(
        HeldPartition(
            incarnation=1,
            member_id=f"w-{number}",
            from_offset=begin,
            held_by=f"m-{number}",
            topic="orders",
            partition=0,
            from_ms=from_ms,
            until_ms=until_ms,
        )
    )


def _refused(facts: GroupFacts, number: int, begin: int, end: int) -> None:
    at_ms = T + (begin + 900) * 1_000
    facts.requests += [
        request("JOIN_GROUP", 0, at_ms - 800_000, f"m-{number}", connection_id=f"c-{number}"),
        request("OFFSET_COMMIT", 22, at_ms, f"m-{number}", generation=20 * number, offsets=[(0, number * 100 + 60)]),
        request("HEARTBEAT", 25, at_ms + 1_000, f"x-{number}", generation=20 * number),
        request("LEAVE_GROUP", 0, at_ms + 500_000, f"m-{number}", reasons=["consumer poll timeout has expired."]),
    ]
    facts.commits.append(commit(number * 100 + 40, at_ms - 60_000, begin + 840))
    facts.rebalances.append(rebalance(20 * number + 2, begin + 700, hole_cause=HoleCause.NOT_SYNCED, generation_gap=1))


def _logged(facts: GroupFacts, number: int, begin: int, end: int) -> None:
    at_ms = T + begin * 1_000
    facts.events += [
        event("preparing_rebalance", at_ms + 10_000, generation=20 * number),
        event("stabilized", at_ms + 11_000, generation=20 * number + 1),
        event("assignment_received", at_ms + 12_000, generation=20 * number + 1),
        event("stabilized", at_ms + 21_000, generation=20 * number + 2),
        event("preparing_rebalance", at_ms + 30_000, generation=20 * number + 2),
        event("member_failed", T + end * 1_000, f"m-{number}"),
    ]


def _lost(facts: GroupFacts, number: int, begin: int, end: int) -> None:
    """Offsets are moved while nobody is there, lost to retention, expired and found again."""
    kinds = (OffsetEventKind.SKIPPED, OffsetEventKind.LOST_TO_RETENTION, OffsetEventKind.TOPIC_RECREATED)
    for partition, kind in enumerate(kinds):
        before, after = (700, 100) if kind == OffsetEventKind.TOPIC_RECREATED else (100, 700)
        facts.offset_events.append(
            OffsetEvent(
                kind=kind,
                topic="orders",
                partition=partition,
                at_ms=T + (end + 600) * 1_000,
                kafka_partition=7,
                kafka_offset=end + 600 + partition,
                offset_before=before,
                offset_after=after,
                row_key=f"g/orders/{partition}/{kind}/{number}",
            )
        )
    for lost_by in (OffsetEventKind.LOST_TO_RETENTION, OffsetEventKind.EXPIRED):
        values: dict[str, Any] = {"leader_epoch": None, "is_same_topic": False, "is_other_topic": False}
        facts.returns.append(
            OffsetReturn(
                kafka_partition=7,
                kafka_offset=end + 601,
                lost_by=lost_by,
                lost_at_ms=T + (end + 600) * 1_000,
                offset_before=1_000,
                commit=commit(9_000, T + (begin + HOUR + 100) * 1_000, begin + HOUR + 100, 1),
                began_at_ms=T + (begin + HOUR) * 1_000,
                high_watermark=8_000,
                log_start_offset=200,
                records_per_ms=0.001,
                row_key=f"g/orders/1/{lost_by}/{number}",
                **values,
            )
        )


def _waits(facts: GroupFacts, number: int, begin: int, end: int) -> None:
    for partition, status in enumerate((LagStatus.WAITING_FOR_TRANSACTION, LagStatus.AHEAD_OF_LOG)):
        facts.lag_stretches.append(
            LagStretch(
                status=status,
                topic="orders",
                partition=partition,
                committed_offset=number * 100 + partition * 1_000_000,
                last_stable_offset=number * 100,
                high_watermark=number * 100 + 300,
                from_ms=T + (begin + 200) * 1_000,
                until_ms=T + (begin + 900) * 1_000,
            )
        )


TROUBLES: tuple[Callable[[GroupFacts, int, int, int], None], ...] = (
    *(_comes_back, _storm, _goes_back, _stands_still, _refused, _logged, _lost, _waits),
)
