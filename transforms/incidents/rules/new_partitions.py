"""Finds new partitions whose first records a group may never have read.

A consumer learns of a new partition only with its next metadata request, up to five minutes later, and producers may
write to it before. With auto.offset.reset=latest the consumer then starts after these records. Samples show that the
topic did not have the partition before, and where the partition ended while no member of the group owned it. The
assignments show when a member took it, and that the group had read the topic before.

A first commit below that end shows that the consumer started before the end. A first commit at or beyond that end was
made by a consumer that started at the end of the log, or by one that read everything in between. No record
distinguishes these two cases, so the incident says so and raises no alarm.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.incidents import PARTITION_NOT_READ
from groupledger.schemas.words import Evidence
from groupledger.transforms.incidents.rules.facts import MARKER_OFFSETS, milliseconds
from groupledger.transforms.incidents.rules.proof import Proof
from groupledger.transforms.incidents.rules.sighting import Sighting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from groupledger.transforms.incidents.rules.facts import CommitStep
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts

    Row = dict[str, Any]

TOGETHER_MS = 60_000  # first commits of a group so soon after one another are one thing


def new_partitions(facts: GroupFacts) -> Iterator[Sighting]:
    found = [step for step in facts.steps if _is_passed_over(facts, step)]
    together: list[CommitStep] = []
    for step in sorted(found, key=lambda each: each.commit.kafka_offset):
        if together and step.commit.at_ms - together[-1].commit.at_ms > TOGETHER_MS:
            yield _sighting(together)
            together = []
        together.append(step)
    if together:
        yield _sighting(together)


def _is_passed_over(facts: GroupFacts, step: CommitStep) -> bool:
    """Returns whether a first commit lies after records that were there before a member had the partition."""
    new_from_ms, unread_until_ms = step.new_from_ms, step.unread_until_ms
    if new_from_ms is None or unread_until_ms is None or step.commit.offset < (step.unread_end or 0):
        return False
    of_topic = [row for row in facts.assignments if row["topic"] == step.commit.topic]
    mine = [row for row in of_topic if row["partition"] == step.commit.partition]
    first = min(mine, key=itemgetter("from_offset"), default=None)
    if first is None or not first["is_start_known"] or first["from_offset"] > step.commit.kafka_offset:
        return False
    taken_ms = milliseconds(first["valid_from"])
    has_read_before = any(milliseconds(row["valid_from"]) < new_from_ms for row in of_topic)
    unowned_end = step.unread_end if unread_until_ms < taken_ms else step.new_end
    return new_from_ms < taken_ms and has_read_before and (unowned_end or 0) > MARKER_OFFSETS


def _sighting(steps: Sequence[CommitStep]) -> Sighting:
    first = steps[0].commit
    records = sum(step.unread_end or 0 for step in steps)
    keys = (f"{step.unread_until_ms}/{step.commit.topic}/{step.commit.partition}" for step in steps)
    return Sighting(
        kind=PARTITION_NOT_READ,
        evidence=Evidence.INFERRED,
        severity=PARTITION_NOT_READ.severity,
        confidence=PARTITION_NOT_READ.confidence,
        first_ms=min(step.new_from_ms or step.commit.at_ms for step in steps),
        last_ms=max(step.commit.at_ms for step in steps),
        happening=f"{first.kafka_partition}/{first.kafka_offset}",
        proofs=(*(Proof("watermarks", key) for key in keys), *(step.commit.proof for step in steps)),
        offsets=tuple((step.commit.place, step.commit.offset) for step in steps),
        never_read=records,
        detail=f"{records:,}",
    )
