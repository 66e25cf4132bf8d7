"""Finds committed offsets that were lost or moved, or soon will be, so that records are read again or never read.

`offset_events` says what happened. An offset that an administrator deletes, or that nobody missed, is not an incident.
These are incidents:

- An offset was moved forward while the group had no members (`skipped`). Only where all such moves together left the
  offset counts, as one may take back another. An offset that moves again and again is not moved by an administrator: a
  consumer that assigns its partitions itself commits like this if it sends no leader epoch. Offsets that went back are
  found in `rewinds`.
- The start of the log passed a commit (`lost_to_retention`). A consumer with auto.offset.reset=latest then skips what
  is left of the log: its next commit lies at or above the end that a sample showed before. If the consumer can have
  read everything up to there (computed as for expired offsets), the skip is only possible, not certain.
- A topic was created again and has grown beyond a commit from the former topic (`topic_recreated`). A consumer that
  continues from that commit never reads the new topic's records before it. A consumer that then commits a lower offset
  has started over.
- An offset expired, and a consumer came back. No record says where it started: at the log's end of that time, at its
  start, or where it sought to. A sample of both ends from before the consumer came back distinguishes them. A first
  commit below the sampled end shows that the consumer did not begin at the end. With a first commit at or above it, the
  consumer began at the end, or it read everything in between, if there was time for that at PACES times the fastest
  pace at which the partition was ever read.
- An offset will expire (`expiries`, the rule of `groupledger idle`). It is not an event, since a new commit prevents
  it; it is reported as long as it lies ahead, as of the last instant that the ledger knows. It does harm if records
  wait that may then never be read. If only members prevent the expiry, it does harm if records would be read again once
  all members stop at the same time. If an offset is overdue, something that the records do not show prevents its
  expiry, or the expiry was not seen.

Transaction markers take offsets, too, so the loss of a single offset does not count. Nobody comes back to a group whose
name the console consumer generated, so it loses nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.kafka.names import is_made_for_one_use
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds.incidents import (
    LOST_TO_RETENTION,
    OFFSET_OF_FORMER_TOPIC,
    OFFSET_SKIP,
    OFFSETS_EXPIRE_SOON,
    OFFSETS_EXPIRED,
)
from groupledger.schemas.words import Evidence, ExpiryCause, OffsetEventKind, Severity
from groupledger.transforms.incidents.rules.facts import MARKER_OFFSETS, milliseconds
from groupledger.transforms.incidents.rules.inferred import row_proof
from groupledger.transforms.incidents.rules.sighting import Sighting
from groupledger.transforms.lookups import grouped
from groupledger.transforms.offsets.rules.expiring_offsets import Expiry, expiries
from groupledger.transforms.offsets.rules.offset_event import CLOCK_SKEW_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from groupledger.schemas.kinds.incidents import IncidentKind
    from groupledger.transforms.incidents.rules.facts import OffsetEvent, OffsetReturn, Rules
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts

    Row = Mapping[str, Any]

Thing = TypeVar("Thing")
TOGETHER_MS = 60_000  # events of a group's partitions this close together are one occurrence
MOVES_OF_A_READER = 3  # while a group has no members, an administrator moves an offset less often
PACES = 10  # a consumer that comes back reads at most so many times as fast as it ever did


def offset_losses(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    if is_made_for_one_use(facts.group_id):
        return
    yield from _skips(facts)
    yield from _passed_by_the_log(facts, rules)
    yield from _of_former_topics(facts)
    yield from _returns(facts)
    yield from _expiring(facts, rules)


def _together(things: Iterable[Thing], at_ms: Callable[[Thing], int], within_ms: int) -> Iterator[list[Thing]]:
    """Yields lists of things; each is at most so long after the one before."""
    together: list[Thing] = []
    for thing in sorted(things, key=at_ms):
        if together and at_ms(thing) - at_ms(together[-1]) > within_ms:
            yield together
            together = []
        together.append(thing)
    if together:
        yield together


def _sighting(
    kind: IncidentKind, first_ms: int, last_ms: int, offsets: Iterable[tuple[TopicPartition, int]], **fields: Any
) -> Sighting:
    return Sighting(
        kind=kind,
        evidence=Evidence.INFERRED,
        confidence=kind.confidence,
        first_ms=first_ms,
        last_ms=last_ms,
        offsets=tuple(sorted(offsets)),
        **{"severity": kind.severity, **fields},
    )


def _happening(things: Iterable[OffsetEvent | OffsetReturn]) -> str:
    first = min(things, key=lambda each: each.kafka_offset)
    return f"{first.kafka_partition}/{first.kafka_offset}"


# Moved on


def _skips(facts: GroupFacts) -> Iterator[Sighting]:
    moves: defaultdict[tuple[TopicPartition, int | None], list[OffsetEvent]] = defaultdict(list)
    for event in facts.offset_events:
        if event.kind in (OffsetEventKind.SKIPPED, OffsetEventKind.REWOUND):
            generation = facts.lookups.generation_at(event.kafka_offset)
            if generation is None or generation["member_count"] == 0:
                moves[event.place, None if generation is None else generation["kafka_offset"]].append(event)
    harmful = [line for line in moves.values() if _moved_on(line) > MARKER_OFFSETS and not _is_reading(line)]
    for lines in _together(harmful, lambda line: line[-1].at_ms, TOGETHER_MS):
        events = [event for line in lines for event in line]
        records = sum(map(_moved_on, lines))
        yield _sighting(
            OFFSET_SKIP,
            *(min(event.at_ms for event in events), max(event.at_ms for event in events)),
            ((line[0].place, line[0].offset_before) for line in lines),
            happening=_happening(events),
            proofs=tuple(event.proof for event in events),
            never_read=records,
            detail=f"{records:,}",
        )


def _moved_on(line: Sequence[OffsetEvent]) -> int:
    """Returns how far all moves of an offset, in the order of the log, left it from where it was."""
    return line[-1].offset_after - line[0].offset_before


def _is_reading(line: Sequence[OffsetEvent]) -> bool:
    return len(line) >= MOVES_OF_A_READER and all(event.kind == OffsetEventKind.SKIPPED for event in line)


# Passed by the start of the log


def _passed_by_the_log(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    """Yields one sighting for as long as the log goes on to pass the group's commits."""
    passed = [
        event
        for event in facts.offset_events
        if event.kind == OffsetEventKind.LOST_TO_RETENTION and event.offset_after - event.offset_before > MARKER_OFFSETS
    ]
    returns = grouped(facts.returns, lambda back: (back.commit.place, back.kafka_offset))
    for events in _together(passed, lambda event: event.at_ms, rules.open_ms):
        places = dict.fromkeys((event.place, event.kafka_offset) for event in events)
        later = [back for place in places for back in returns.get(place, ())]
        records, skipped = _covered(events), _skipped(facts, later)
        before: dict[TopicPartition, int] = {}
        for event in events:
            before.setdefault(event.place, event.offset_before)
        yield _sighting(
            LOST_TO_RETENTION,
            events[0].at_ms,
            max([events[-1].at_ms, *(back.commit.at_ms for back in skipped)]),
            before.items(),
            severity=Severity.ERROR if _had_members(facts, events[-1].at_ms) else LOST_TO_RETENTION.severity,
            happening=_happening(events),
            proofs=(*(event.proof for event in events), *(back.commit.proof for back in skipped)),
            never_read=records + sum(map(_since_start, skipped)),
            detail=f"{records:,} records were removed before it read them{_and_skipped(skipped)}",
        )


def _covered(events: Sequence[OffsetEvent]) -> int:
    """Returns how many offsets lie between the commits and the logs' starts, each counted once."""
    total, reached = 0, dict.fromkeys((event.place for event in events), 0)
    for event in sorted(events, key=lambda each: (each.offset_before, each.offset_after)):
        total += max(event.offset_after - max(event.offset_before, reached[event.place]), 0)
        reached[event.place] = max(reached[event.place], event.offset_after)
    return total


def _skipped(facts: GroupFacts, returns: Iterable[OffsetReturn]) -> list[OffsetReturn]:
    """Returns those of the first commits after a loss that lie beyond all records which were left."""
    return [
        back
        for back in returns
        if back.lost_by == OffsetEventKind.LOST_TO_RETENTION
        and not back.is_other_topic
        and back.commit.offset >= (back.high_watermark or 0)
        and _left_of(back) > MARKER_OFFSETS
        and _is_of_a_reader(facts, back)
    ]


def _left_of(back: OffsetReturn) -> int:
    """Returns how many offsets the log had before the group came back; 0 if no sample shows it."""
    return 0 if back.high_watermark is None else back.high_watermark - (back.log_start_offset or 0)


def _since_start(back: OffsetReturn) -> int:
    return back.commit.offset - (back.log_start_offset or 0)


def _and_skipped(skipped: Sequence[OffsetReturn]) -> str:
    surely = [back for back in skipped if not _can_have_read(back, _since_start(back))]
    perhaps = [back for back in skipped if back not in surely]
    parts = []
    if surely:
        parts.append(f", and at least {sum(map(_left_of, surely)):,} more were skipped, as it then started at the end")
    if perhaps:
        most = sum(map(_since_start, perhaps))
        parts.append(f", and at most {most:,} more were skipped, if it then started at the end")
    return "".join(parts)


def _had_members(facts: GroupFacts, at_ms: int) -> bool:
    """Returns whether the group had members then. Without members, nobody may ever come back to read what was lost."""
    last = facts.lookups.newest_generation(at_ms)
    return last is not None and bool(last["member_count"])


# Of a topic that is gone


def _of_former_topics(facts: GroupFacts) -> Iterator[Sighting]:
    begun_anew = {
        step.commit.kafka_offset
        for step in facts.steps
        if step.next_commit is not None and step.next_commit.offset < step.commit.offset
    }
    stale = [
        event
        for event in facts.offset_events
        if event.kind == OffsetEventKind.TOPIC_RECREATED
        and event.offset_before - event.offset_after > MARKER_OFFSETS
        and event.kafka_offset not in begun_anew
    ]
    for events in _together(stale, lambda event: event.at_ms, TOGETHER_MS):
        records = sum(event.offset_before - event.offset_after for event in events)
        yield _sighting(
            OFFSET_OF_FORMER_TOPIC,
            *(events[0].at_ms, events[-1].at_ms),
            ((event.place, event.offset_before) for event in events),
            happening=_happening(events),
            proofs=tuple(event.proof for event in events),
            never_read=records,
            detail=f"{records:,}",
        )


# Expired, and come back


def _returns(facts: GroupFacts) -> Iterator[Sighting]:
    expired = [each for each in facts.returns if each.lost_by == OffsetEventKind.EXPIRED]
    harmful = [(each, harm) for each in expired if (harm := _harm(facts, each)) is not None]
    for together in _together(harmful, lambda each: each[0].commit.at_ms, TOGETHER_MS):
        returns = [each for each, _ in together]
        low, high, never = (sum(column) for column in zip(*(harm for _, harm in together), strict=True))
        parts = [f"at most {high:,} records were read again"] if high else []
        parts += [f"at most {never:,} records were never read"] if never else []
        yield _sighting(
            OFFSETS_EXPIRED,
            *(min(each.lost_at_ms for each in returns), max(each.commit.at_ms for each in returns)),
            ((each.commit.place, each.offset_before) for each in returns),
            happening=_happening(returns),
            proofs=tuple(proof for each in returns for proof in (each.proof, each.commit.proof)),
            duplicates=(low, high) if high else (None, None),
            never_read=never or None,
            detail=", or ".join(parts),
        )


def _harm(facts: GroupFacts, back: OffsetReturn) -> tuple[int, int, int] | None:
    """Returns how many records were read again, at least and at most, and how many at most were never read; None if
    that may be none."""
    if back.is_other_topic or not _is_of_a_reader(facts, back):
        return None
    before, after, end = back.offset_before, back.commit.offset, back.high_watermark
    start = back.log_start_offset or 0
    if end is None:  # without a sample nothing shows where the log ended, or that it is the same one
        return (before - after, before, 0) if back.is_same_topic and after < before else None
    if not back.is_same_topic and end < before:
        return None
    again, waiting = max(before - start, 0), max(end - max(before, start), 0)
    can_have_read = _can_have_read(back, after - start)
    if after < max(end, before):  # it began below the end
        found = (max(before - after, 0), again, 0) if can_have_read or after < before else None
        return found if found is not None and found[1] > MARKER_OFFSETS else None
    if waiting <= MARKER_OFFSETS or (can_have_read and again <= MARKER_OFFSETS):
        return None
    return (0, again if can_have_read else 0, after - before)


def _is_of_a_reader(facts: GroupFacts, back: OffsetReturn) -> bool:
    """Returns whether the first commit is one of a consumer that has read, and not of a reset."""
    generation = facts.lookups.generation_at(back.commit.kafka_offset)
    return back.leader_epoch is not None or (generation is not None and bool(generation["member_count"]))


def _can_have_read(back: OffsetReturn, records: int) -> bool:
    if back.records_per_ms is None:
        return True
    return records <= PACES * back.records_per_ms * max(back.commit.at_ms - back.began_at_ms, 1)


# About to expire


def _expiring(facts: GroupFacts, rules: Rules) -> Iterator[Sighting]:
    expiring = expiries(
        groups=facts.groups,
        committed=facts.committed,
        generations=[row for row in facts.generations if row["to_offset"] is None and row["member_count"] == 0],
        members=[row for row in facts.members if row["to_offset"] is None],
        records=facts.readers,
        retention=rules.offsets.retention_ms * 1_000,
    )
    costs = [(each, cost) for each in expiring if (cost := _cost(each, facts.silent_until_ms, rules)) > MARKER_OFFSETS]
    if not costs:
        return
    rows = [each.committed for each, _ in costs]
    expire_ms = min(milliseconds(each.expire_at) for each, _ in costs)
    records = sum(cost for _, cost in costs)
    is_kept = costs[0][0].cause == ExpiryCause.KEPT_BY_MEMBERS  # a group has members, or it has not
    first = min(rows, key=lambda row: row["commit_kafka_offset"])
    yield _sighting(
        OFFSETS_EXPIRE_SOON,
        *(min(expire_ms - _warned_before_ms(rules), facts.silent_until_ms), facts.silent_until_ms),
        ((_place(row), row["committed_offset"]) for row in rows),
        happening=f"{first['kafka_partition']}/{first['commit_kafka_offset']}",
        proofs=tuple(row_proof("committed_offsets", row, "group_id", "topic", "partition") for row in rows),
        never_read=None if is_kept else records,
        detail=_when(expire_ms, records, is_kept=is_kept),
    )


def _place(row: Row) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


def _cost(expiry: Expiry, as_of_ms: int, rules: Rules) -> int:
    """Returns how many records may never be read, or read again where a member keeps the offset; 0 if it does not
    expire soon, is overdue, or if nobody knows."""
    row, due_ms = expiry.committed, milliseconds(expiry.expire_at)
    is_kept = expiry.cause == ExpiryCause.KEPT_BY_MEMBERS
    late_ms = as_of_ms - due_ms - rules.offsets.retention_check_interval_ms - CLOCK_SKEW_MS
    is_due = due_ms - as_of_ms <= _warned_before_ms(rules) and (is_kept or late_ms <= 0)
    if not is_due or row["high_watermark"] is None or expiry.cause == ExpiryCause.NOT_SUBSCRIBED:
        return 0
    start: int = row["log_start_offset"] or 0
    committed: int = row["committed_offset"]
    end: int = row["high_watermark"]
    return max(min(committed, end) - start, 0) if is_kept else max(end - max(committed, start), 0)


def _warned_before_ms(rules: Rules) -> int:
    """Returns how long before its expiry an offset is warned of: at most for half of the time that it has."""
    return min(rules.expires_soon_ms, rules.offsets.retention_ms // 2)


def _when(expire_ms: int, records: int, *, is_kept: bool) -> str:
    at = f"{instant_of_ms(expire_ms):%Y-%m-%d %H:%M} UTC"
    if is_kept:
        return (
            f"at the first cleanup from {at} on that finds no member subscribed, since they age from the commit: at"
            f" most {records:,} records would be read again"
        )
    return f"from {at} on, and {records:,} records wait there"
