"""The rows that the Python API returns (`jobs.ask.api`): one class for each kind of answer.

A class names the fields that most readers want, as `--json` and the pages call them. `everything` has all that `--json`
prints. Instants are aware datetimes in UTC. An unknown value is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Row:
    everything: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Group(Row):
    """A group as it is now."""

    group_id: str
    group_type: str | None
    state: str | None
    status: str | None
    """The worst status of lag of its partitions (docs/lag.md)."""
    member_count: int | None
    lag_sum: int | None
    partitions_without_lag: int
    """The number of partitions that `lag_sum` leaves out, since their lag is not known."""
    lag_seconds_max: float | None
    open_incidents: int
    """The number of open incidents of severity warning or error."""
    incident_severity: str | None
    """The highest severity of the open incidents."""
    last_commit_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Entry(Row):
    """What happened to a group at one instant: `what` is incident, rebalance, owner, offset or lag."""

    at: datetime
    what: str
    how: str | None
    text: str


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Row):
    """A symptom with its proved cause or, if none is proved, with the possible causes, which are in `everything` as
    `rivals` (docs/causes.md)."""

    symptom: str
    cause: str | None
    fault: str | None
    """Who can fix it: client, brokers, ..."""
    severity: str
    evidence: str | None
    confidence: float | None
    member_id: str | None
    client_id: str | None
    client_host: str | None
    since: datetime
    until: datetime | None
    explanation: str
    setting_to_change: str | None


@dataclass(frozen=True, kw_only=True)
class Episode(Row):
    """Incidents of a group that belong together, with one verdict."""

    episode_id: str
    group_id: str
    kind: str
    severity: str
    evidence: str
    since: datetime
    until: datetime | None
    occurrences: int
    duplicates_max: int | None
    """The number of records that were processed again, at most."""
    never_read_max: int | None
    explanation: str
    setting_to_change: str | None


@dataclass(frozen=True, kw_only=True)
class LastRound(Row):
    """How a group was in one sampling round, with the partition that has the most lag."""

    sampled_at: datetime
    group_state: str | None
    status: str | None
    lag_sum: int | None
    lag_seconds_max: float | None
    partitions: int
    partitions_without_lag: int
    worst_topic: str | None
    worst_partition: int | None
    worst_owner: str | None


@dataclass(frozen=True, kw_only=True)
class QuietTopic(Row):
    """A topic that got records in the time of the question, and has had no new ones since."""

    topic: str
    no_records_since: datetime


@dataclass(frozen=True, kw_only=True)
class Incident(Row):
    """Something that went wrong, of one kind, in one group."""

    incident_id: str
    episode_id: str
    kind: str
    severity: str
    evidence: str
    confidence: float
    group_id: str | None
    member_id: str | None
    client_id: str | None
    client_host: str | None
    first_seen_at: datetime
    last_seen_at: datetime
    occurrences: int
    is_open: bool
    explanation: str
    setting_to_change: str | None


@dataclass(frozen=True, kw_only=True)
class Rebalance(Row):
    """A step of a group from one generation, or epoch, to the next that has a record."""

    group_id: str
    from_generation: int | None
    to_generation: int
    happened_at: datetime
    trigger: str | None
    """The trigger that a broker's log states; None without a log, and then `inferred_trigger` is what the records
    suggest."""
    inferred_trigger: str | None
    inferred_trigger_confidence: float | None
    is_hole: bool
    member_count: int | None
    partitions_moved: int | None
    pause_lower_ms: int | None
    pause_upper_ms: int | None


@dataclass(frozen=True, kw_only=True)
class Owner(Row):
    """Who owned a partition at an instant: `status` is owned, reserved, unowned, not_born, ended or unknown, and
    `reason` explains a status other than owned, or a doubt."""

    group_id: str
    topic: str
    partition: int
    at: datetime
    status: str
    generation: int | None
    since: datetime | None
    until: datetime | None
    member_id: str | None
    client_id: str | None
    client_host: str | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class CommittedOffset(Row):
    """The committed offset of a partition at an instant: `status` is committed, or unknown."""

    group_id: str
    topic: str
    partition: int
    status: str
    committed_offset: int | None
    committed_at: datetime | None
    metadata: str | None


@dataclass(frozen=True, kw_only=True)
class PartitionLag(Row):
    """The lag of a partition in a sampling round (docs/lag.md says what statuses and flags mean)."""

    sampled_at: datetime
    group_id: str
    topic: str
    partition: int
    committed_offset: int | None
    high_watermark: int | None
    lag: int | None
    lag_seconds: float | None
    status: str
    flags: tuple[str, ...]
    owner: str | None
    client_id: str | None
    client_host: str | None


Kind = TypeVar("Kind", bound=Row)


def typed(kind: type[Kind], answers: Iterable[Mapping[str, Any]]) -> list[Kind]:
    """Returns a row of this kind for each answer."""
    names = [each.name for each in fields(kind) if each.name != "everything"]
    return [kind(everything=answer, **{name: answer[name] for name in names}) for answer in answers]
