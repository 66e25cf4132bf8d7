"""Defines the findings of a replay: one row for each kind of finding in a record.

If several members or partitions of a record have the same finding, the columns name the first of them, and the evidence
lists them all. So one wrong record about a large group gives one row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import FindingKind, FindingSeverity

if TYPE_CHECKING:
    from collections.abc import Mapping

SEVERITIES = {FindingKind.ASSIGNMENT_DIFFERS: FindingSeverity.WARNING}
"""The severities of findings that are no errors."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Says how a record breaks a rule: `explanation` is one sentence, `evidence` is written as JSON."""

    finding: str
    explanation: str
    member_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """Holds a row of `replay_findings`, without `cluster`. The finding is about the record at (kafka_partition,
    kafka_offset)."""

    group_id: str
    incarnation: int
    generation: int | None
    revision: int | None
    kafka_partition: int
    kafka_offset: int
    finding: str
    severity: str
    member_id: str | None
    topic: str | None
    partition: int | None
    explanation: str
    evidence: str
