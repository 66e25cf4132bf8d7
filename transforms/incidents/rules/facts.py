"""Defines the input of the rules for one group: rows of the ledger's tables, reduced to the columns that the rules
read.

Times are milliseconds since the epoch. Logs of different brokers and the topic can be ordered by time only; within one
of them the order of its lines or records holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.api_keys import EPOCH_HEARTBEATS, LEAVING_EPOCH
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.group_states import CLASSIC_REBALANCING
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds.triggers import trigger_of_departure
from groupledger.transforms.incidents.rules.proof import Proof
from groupledger.transforms.offsets.rules.offset_event import OffsetRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from groupledger.schemas.kinds.triggers import Trigger

    Row = dict[str, Any]

# The broker did nothing with a request that it refused so.
COORDINATOR_AWAY = (
    Error.COORDINATOR_LOAD_IN_PROGRESS.value,
    Error.COORDINATOR_NOT_AVAILABLE.value,
    Error.NOT_COORDINATOR.value,
)
EPOCH_HEARTBEAT_NAMES = tuple(api.name for api in EPOCH_HEARTBEATS)
INTERVAL_SAMPLE = 20  # commits before one, whose mean interval is its rhythm
NEW_PARTITION_MS = 6 * 3_600_000  # a consumer that lives learns of a new partition sooner, and commits it
SET_BACK_MS_MAX = 3_600_000  # a clock may be set back so far from one record to the next
MARKER_OFFSETS = 1  # what may lie after the last record: the marker of a transaction, which nobody reads


def milliseconds(instant_us: int | None) -> int:
    return (instant_us or 0) // 1_000


def identity(row: Row) -> tuple[str | None, ...]:
    """Returns the fields of a row of `members` that identify a process across a restart."""
    if row["group_instance_id"] is not None:
        return (row["group_instance_id"],)
    return row["client_id"], row["client_host"]


@dataclass(frozen=True, slots=True)
class RefusedOffset:
    topic: str
    partition: int
    offset: int
    error_code: int | None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    member_id: str
    group_instance_id: str | None
    reason: str | None
    error_code: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Holds a row of `requests`. `error_code` is None if the log has no response. `body` is filled only if the replay
    needs it, and `server_assignor` only if the broker refused that name."""

    source_file: str
    line_number: int
    happened_at_us: int
    logged_at_ms: int
    api: str
    api_version: int
    error_code: int | None
    member_id: str | None
    group_instance_id: str | None
    generation: int | None
    response_member_id: str | None
    response_generation: int | None
    client_id: str | None
    client_host: str | None
    connection_id: str | None
    offsets: tuple[RefusedOffset, ...]
    leaving: tuple[LeavingMember, ...]
    body: str | None = None
    server_assignor: str | None = None

    @property
    def happened_at_ms(self) -> int:
        return self.happened_at_us // 1_000

    @property
    def proof(self) -> Proof:
        return Proof("requests", f"{self.source_file}/{self.line_number}")


@dataclass(frozen=True, kw_only=True, slots=True)
class CoordinatorEvent:
    """A row of `coordinator_events`."""

    source_file: str
    line_number: int
    logged_at_ms: int
    kind: str
    generation: int | None
    member_id: str | None
    client_reason: str | None
    trigger: str | None = None
    reason: str | None = None
    member_ids: Sequence[str] | None = None
    broker_id: int | None = None
    kafka_partition: int | None = None

    @property
    def departure(self) -> Trigger | None:
        """Returns the trigger that the line states for a member's departure; None for other lines."""
        return trigger_of_departure(self.kind, self.reason, self.client_reason)

    @property
    def departed(self) -> Sequence[str | None]:
        """Returns the ids of the members whose departure the line reports."""
        return self.member_ids if self.member_id is None and self.member_ids else [self.member_id]

    @property
    def proof(self) -> Proof:
        return Proof("coordinator_events", f"{self.source_file}/{self.line_number}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """An accepted commit of a partition that some rule asks about."""

    kafka_partition: int
    kafka_offset: int
    at_ms: int
    topic: str
    partition: int
    offset: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def proof(self) -> Proof:
        return Proof("coordinator_records", f"{self.kafka_partition}/{self.kafka_offset}")


@dataclass(frozen=True, slots=True)
class TopicEnd:
    """Holds a row of `watermarks` about a partition that the group reads. The last `unreadable` offsets before the end
    have no committed record."""

    sampled_at_ms: int
    high_watermark: int
    unreadable: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitStep:
    """Holds an accepted commit and the next one of its partition, if the next one went back or came late, or if the
    commit is the first one of a new partition.

    `next_commit` is None if there is no next one yet; `interval_ms` is the usual distance between the earlier commits.
    Samples of the partition's end between the two commits give `high_watermark` (the highest end), `idle_until_ms` (the
    last sample with nothing to read) and `waiting_from_ms` (the first one with records to read); each is None without
    such a sample. For the first commit of a new partition, `new_from_ms` and `unread_until_ms` are the first and the
    last sample before it, and `new_end` and `unread_end` the partition's ends in them.
    """

    commit: Commit
    next_commit: Commit | None
    interval_ms: float | None
    is_recreated_topic: bool = False
    high_watermark: int | None = None
    idle_until_ms: int | None = None
    waiting_from_ms: int | None = None
    new_from_ms: int | None = None
    new_end: int | None = None
    unread_until_ms: int | None = None
    unread_end: int | None = None


@dataclass(frozen=True, slots=True)
class RebalanceStretch:
    """A time in which every sample of a classic group's state showed a rebalance, and no generation began. `state` is
    that of the last sample."""

    first_ms: int
    last_ms: int
    state: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldPartition:
    """A partition that a member of a KIP-848 group waited for during one step, from the new target until the step
    ended, with the member that owned it then."""

    incarnation: int
    member_id: str
    from_offset: int
    held_by: str
    topic: str
    partition: int
    from_ms: int
    until_ms: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, kw_only=True, slots=True)
class LagStretch:
    """Holds consecutive rounds in which a commit had one of the statuses of `lag` that make an incident.

    `high_watermark` is that of the last of these rounds. `last_stable_offset` is the offset that did not move, if the
    status is about a transaction.
    """

    status: str
    topic: str
    partition: int
    committed_offset: int
    last_stable_offset: int | None
    high_watermark: int
    from_ms: int
    until_ms: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def length_ms(self) -> int:
        return self.until_ms - self.from_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class LagRound:
    """A row of `lag` of a commit that lies in the older half of its log (`transforms.incidents.lag_rounds`)."""

    topic: str
    partition: int
    sampled_at_ms: int
    committed_offset: int | None
    log_start_offset: int | None
    lag: int | None
    status: str | None

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, kw_only=True, slots=True)
class OffsetEvent:
    """A row of `offset_events` in which an offset was moved, or its records were lost. `row_key` identifies the row."""

    kind: str
    topic: str
    partition: int
    at_ms: int
    kafka_partition: int
    kafka_offset: int
    offset_before: int
    offset_after: int
    row_key: str

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def proof(self) -> Proof:
        return Proof("offset_events", self.row_key)


@dataclass(frozen=True, kw_only=True, slots=True)
class OffsetReturn:
    """Holds the first commit of a partition after its offset was lost, if the log has no hole between the two.
    `lost_by` is the kind of the event by which it was lost: the offset expired, or the log's start passed it.

    No consumer started from the lost offset before `began_at_ms`, which is the start of the first generation with
    members after the loss, or else the time of the loss. `high_watermark` and `log_start_offset` are those of the last
    sample up to then; None if there is none. `records_per_ms` is the fastest pace between two commits before the loss;
    None if there was only one commit. `is_same_topic` and `is_other_topic` come from the topic ids in the commits, and
    are both False if these are not known.
    """

    kafka_partition: int
    kafka_offset: int
    lost_by: str
    lost_at_ms: int
    offset_before: int
    commit: Commit
    leader_epoch: int | None
    is_same_topic: bool
    is_other_topic: bool
    began_at_ms: int
    high_watermark: int | None
    log_start_offset: int | None
    records_per_ms: float | None
    row_key: str

    @property
    def proof(self) -> Proof:
        return Proof("offset_events", self.row_key)


@dataclass(frozen=True, slots=True)
class GroupState:
    """A `group_metadata` record, for the replay; `record_json` is None for a tombstone."""

    kafka_offset: int
    at_ms: int
    record_json: str | None


@dataclass(frozen=True, slots=True)
class EndSample:
    """A row of `watermarks` about a partition of `__consumer_offsets`. Such facts belong to no group."""

    sampled_at_ms: int
    partition: int
    high_watermark: int | None
    last_stable_offset: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """The parameters of the rules, from the settings `incidents`, `history` and `offsets`."""

    open_ms: int = 600_000
    link_ms: int = 120_000
    commit_gap_ms: int = 120_000
    commit_gap_intervals: float = 10.0
    zombie_return_ms: int = 300_000
    stalled_transaction_ms: int = 300_000
    stuck_rebalance_ms: int = 600_000
    stuck_reconciliation_ms: int = 180_000
    storm_rebalances: int = 6
    storm_rebalances_per_member: float = 3.0
    storm_window_ms: int = 600_000
    flapping_tenures: int = 3
    flapping_tenure_ms: int = 600_000
    expires_soon_ms: int = 86_400_000
    final_after_ms: int = 1_209_600_000
    offsets: OffsetRules = field(default_factory=OffsetRules)


_TAKEN_OVER = (
    *("source_file", "line_number", "happened_at_us", "api", "api_version", "error_code", "member_id"),
    *("group_instance_id", "generation", "response_member_id", "response_generation", "client_id", "connection_id"),
)


def request_fact(row: Mapping[str, Any]) -> Request:
    """Returns the fact for a row of `requests` whose instants are `happened_at_us` and `logged_at_us`."""
    return Request(
        **{name: row[name] for name in _TAKEN_OVER},
        logged_at_ms=row["logged_at_us"] // 1_000,
        client_host=host(row["client_host"]),
        offsets=tuple(
            RefusedOffset(
                each["topic"] or each["topic_id"] or "", each["partition"], each["committed_offset"], each["error_code"]
            )
            for each in row["partitions"] or ()
            if each["committed_offset"] is not None
        ),
        leaving=tuple(_leaving(row)),
        body=row.get("request_json"),
        server_assignor=row.get("server_assignor"),
    )


def _leaving(row: Mapping[str, Any]) -> Iterator[LeavingMember]:
    for each in row["members"] or ():
        yield LeavingMember(each["member_id"], each["group_instance_id"], each["reason"], each["error_code"])
    if row["api"] in EPOCH_HEARTBEAT_NAMES and row["generation"] == LEAVING_EPOCH:
        yield LeavingMember(row["member_id"], row["group_instance_id"], None, row["error_code"])


def host(client_host: str | None) -> str | None:
    """Returns an address without the slash that Java writes before it, as the request log has it."""
    return None if client_host is None else client_host.removeprefix("/")


def commit_steps(
    commits: Iterable[Commit], gap_ms: int, ends: Mapping[TopicPartition, Sequence[TopicEnd]] | None = None
) -> list[CommitStep]:
    """Returns the steps between commits that rules look at, from commits in log order. `ends` are samples of the
    partitions' ends. Does for one group what `transforms.incidents.commit_steps` does with Spark windows."""
    by_place: dict[TopicPartition, list[Commit]] = {}
    for commit in commits:
        by_place.setdefault(commit.place, []).append(commit)
    steps = []
    ends = ends or {}
    for place, line in by_place.items():
        for number, commit in enumerate(line):
            following = line[number + 1] if number + 1 < len(line) else None
            is_late = following is None or following.at_ms - commit.at_ms >= gap_ms
            is_back = following is not None and following.offset < commit.offset
            new = _new_partition(commit, ends) if number == 0 else {}
            if is_late or is_back or new:
                first = line[max(number - INTERVAL_SAMPLE, 0)]
                count = min(number, INTERVAL_SAMPLE)
                interval_ms = (commit.at_ms - first.at_ms) / count if count else None
                step = CommitStep(commit=commit, next_commit=following, interval_ms=interval_ms, **new)
                steps.append(_with_ends(step, ends.get(place, ())))
    return steps


def _new_partition(commit: Commit, ends: Mapping[TopicPartition, Sequence[TopicEnd]]) -> dict[str, Any]:
    """Returns what the samples before the first commit of a partition show, if the topic got the partition shortly
    before."""
    of_topic = [end.sampled_at_ms for place, line in ends.items() if place.topic == commit.topic for end in line]
    mine = ends.get(commit.place, ())
    before = sorted((end.sampled_at_ms, end.high_watermark) for end in mine if end.sampled_at_ms < commit.at_ms)
    if not before or before[0][0] == min(of_topic) or commit.at_ms - before[0][0] > NEW_PARTITION_MS:
        return {}
    (new_from_ms, new_end), (unread_until_ms, unread_end) = before[0], before[-1]
    return {
        "new_from_ms": new_from_ms,
        "new_end": new_end,
        "unread_until_ms": unread_until_ms,
        "unread_end": unread_end,
    }


def _with_ends(step: CommitStep, ends: Sequence[TopicEnd]) -> CommitStep:
    until_ms = None if step.next_commit is None else step.next_commit.at_ms
    between = [
        end
        for end in ends
        if step.commit.at_ms <= end.sampled_at_ms and (until_ms is None or end.sampled_at_ms < until_ms)
    ]
    idle, waiting = list[int](), list[int]()
    for end in between:
        left = end.high_watermark - step.commit.offset
        (idle if left <= max(MARKER_OFFSETS, end.unreadable) else waiting).append(end.sampled_at_ms)
    return replace(
        step,
        high_watermark=max((end.high_watermark for end in between), default=None),
        idle_until_ms=max(idle, default=None),
        waiting_from_ms=min(waiting, default=None),
    )


def rebalance_stretches(states: Iterable[tuple[int, str]], begun_ms: Iterable[int]) -> list[RebalanceStretch]:
    """Returns the stretches in which a group was in a rebalance. `states` are its sampled states with their instants,
    and `begun_ms` the instants at which its generations began. Does for one group what `long_stretches` does with Spark
    windows."""
    sampled = [(at_ms, state in CLASSIC_REBALANCING, state) for at_ms, state in states]
    ordered = sorted([*sampled, *((at_ms, False, "") for at_ms in begun_ms)])
    stretches = []
    for is_rebalancing, together in groupby(ordered, key=itemgetter(1)):
        seen = [*together]
        if is_rebalancing:
            stretches.append(RebalanceStretch(seen[0][0], seen[-1][0], seen[-1][2]))
    return stretches
