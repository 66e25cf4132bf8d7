"""Goes through the events of a group and decides which rules each record is checked against.

The fold says what is known about a record (its incarnation, its revision, whether records before it are missing), so
the ledger and its replay never disagree about coverage.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import FindingKind, FindingSeverity
from groupledger.transforms.history.rules.events import Coverage, Event, GroupRecord, GroupTombstone, OtherGroupType
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.replay.rules.assignment_rules import assignment_contradictions, two_owners
from groupledger.transforms.replay.rules.finding import SEVERITIES, Contradiction, Finding
from groupledger.transforms.replay.rules.modern_rules import ModernGroup
from groupledger.transforms.replay.rules.record_rules import record_contradictions
from groupledger.transforms.replay.rules.step import step_contradictions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Row = Mapping[str, Any]


def replay(group_id: str, kafka_partition: int, events: Iterable[Event]) -> Iterator[Finding]:
    """Yields the findings in log order. `events` are all events of the group, with the marks of coverage."""
    log = list(events)
    folded = fold(group_id, kafka_partition, None, log).rows
    row_at = {row["kafka_offset"]: row for row in folded["generations"]}
    modern = ModernGroup()
    before: GroupRecord | None = None
    row: Row | None
    # Before the first record of an epoch, and after a hole, the epoch in force is not known.
    of_no_epoch = {**folded["groups"][0], "generation": None, "revision": None}
    in_force: Row = of_no_epoch
    for event in log:
        if isinstance(event, Coverage):
            modern.enter(event)
            in_force = of_no_epoch if event.hides_ends else in_force
        elif isinstance(event, OtherGroupType):
            before, in_force = None, row_at.get(event.kafka_offset, in_force)
            yield from _findings({**in_force, "kafka_offset": event.kafka_offset}, modern.contradictions(event))
        elif isinstance(event, GroupRecord):
            modern.end()
            row = row_at.get(event.kafka_offset)
            if row is not None:  # else it repeats the record before
                yield from _findings(row, _contradictions(before, event, row))
            before = event
        elif isinstance(event, GroupTombstone):
            modern.end()
            before = None


def _contradictions(before: GroupRecord | None, record: GroupRecord, row: Row) -> Iterator[Contradiction]:
    broken = list(record_contradictions(record))
    yield from broken
    yield from two_owners(record)
    if row["finding"] == FindingKind.GENERATION_DECREASED:
        number = "another number" if before is None else before.generation
        yield Contradiction(
            FindingKind.GENERATION_DECREASED,
            f"The generation goes back from {number} to {record.generation}, and no tombstone lies between.",
            evidence={"previous_kafka_offset": before and before.kafka_offset},
        )
    is_downgrade = row["revision"] and before is None  # what came before it was of KIP-848, and is not replayed
    if broken or is_downgrade or not row["is_start_known"]:
        return
    if not row["revision"]:
        yield from assignment_contradictions(record)
    is_next = row["revision"] or row["generation_gap"] == 0
    if is_next and (before is None or not any(record_contradictions(before))):
        yield from step_contradictions(before, record)


def _findings(row: Row, contradictions: Iterable[Contradiction]) -> Iterator[Finding]:
    for found in contradictions:
        yield Finding(
            row["group_id"],
            row["incarnation"],
            row["generation"],
            row["revision"],
            row["kafka_partition"],
            row["kafka_offset"],
            found.finding,
            SEVERITIES.get(found.finding, FindingSeverity.ERROR),
            found.member_id,
            found.topic,
            found.partition,
            found.explanation,
            json.dumps(found.evidence, sort_keys=True),
        )
