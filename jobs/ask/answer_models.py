"""Describes the rows of answers, with all the fields that `--json` and `serve` send.

The models only describe: no answer is validated while somebody waits for it. Instead, tests compare the answers of a
real warehouse with the models. The model of a table's rows takes its columns, types and comments from the table's
definition (`schemas.definitions`); fields that a question adds are declared here. An unknown value is null. Instants
are ISO 8601 in UTC.

A field is marked `x-untrusted` in the schema if somebody else can choose its text or a part of it, as clients choose
the names of groups, members and topics. Such a text is data, whatever it says.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, create_model

from groupledger.schemas.definitions import comments_of, key_of, schema_of
from groupledger.transforms.history.rules.group_timeline import REBALANCE_COLUMNS

Untrusted = Annotated[str, Field(json_schema_extra={"x-untrusted": True})]
Long = Annotated[int, Field(json_schema_extra={"format": "int64"})]

UNTRUSTED_COLUMNS = frozenset(
    {
        *("group_id", "topic", "topics_added", "topics_removed", "protocol", "protocol_type", "previous_protocol"),
        *("member_id", "previous_member_id", "group_instance_id", "client_id", "client_host", "leader", "owner"),
        *("owner_member_id", "owner_client_id", "explanation", "refusal", "row_key", "inferred_trigger_explanation"),
    }
)
TYPES: dict[pa.DataType, Any] = {
    pa.string(): str,
    pa.bool_(): bool,
    pa.int16(): int,
    pa.int32(): int,
    pa.int64(): Long,
    pa.float64(): float,
    pa.date32(): date,
}


class Row(BaseModel):
    """A row of an answer."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Figure(Row):
    """A figure of a what-if, such as a number of rebalances, as four intervals: observed, replayed with the actual
    setting, replayed with the other setting, and saved by the other setting."""

    spared: float | None
    """The middle of the interval of the saving. It is below 0 if the other setting costs more, and null if it is
    unclear whether the setting saves or costs."""


FIGURES = ("rebalances", "partitions_moved", "stopped_partition_seconds", "records_processed_twice")
STRUCTS: dict[str, tuple[str, type[Row]]] = {
    **dict.fromkeys(FIGURES, ("Figure", Figure)),
    "changes": ("Change", Row),
    "partition_pauses": ("PartitionPause", Row),
    "proofs": ("IncidentProof", Row),
}
"""By the name of a table's struct column: the name of the struct's model, and the base of that model, which has the
fields that questions add."""
MADE: dict[tuple[str, pa.DataType], type[Row]] = {}


def of_table(name: str, table: str, *without: str, base: type[Row] = Row) -> type[Row]:
    """Returns a model, called `name`, of the rows of `table`. It has the table's columns, except the cluster and those
    in `without`, and the fields of `base`. A column that is not part of the table's key may be null."""
    comments, key = comments_of(table), key_of(table)
    fields: Any = {}
    for field in schema_of(table):
        if field.name not in {"cluster", *without, *base.model_fields}:
            type_ = _typed(name, field, comments)
            fields[field.name] = (
                type_ if field.name in key else type_ | None,
                Field(description=comments.get(field.name)),
            )
    found: type[Row] = create_model(name, __base__=base, __module__=__name__, __doc__=base.__doc__, **fields)
    return found


def _typed(owner: str, field: pa.Field, comments: dict[str, str], path: str = "") -> Any:
    """Returns the Python type of a column, or of a field of a struct."""
    path = f"{path}{field.name}"
    if pa.types.is_list(field.type):
        of_one = _typed(owner, field.type.value_field.with_name(field.name), comments, path.removesuffix(field.name))
        return list[of_one]  # type: ignore[valid-type]
    if pa.types.is_struct(field.type):
        name, base = STRUCTS.get(field.name, (f"{owner}{field.name.title().replace('_', '')}", Row))
        if (name, field.type) not in MADE:
            below: dict[str, Any] = {
                each.name: (
                    _typed(owner, each, comments, f"{path}.") | None,
                    Field(description=comments.get(f"{path}.{each.name}")),
                )
                for each in field.type
            }
            MADE[name, field.type] = create_model(name, __base__=base, __module__=__name__, **below)
        return MADE[name, field.type]
    if pa.types.is_timestamp(field.type):
        return datetime
    return Untrusted if field.name in UNTRUSTED_COLUMNS else TYPES[field.type]


class Known(Row):
    """Until when each source was read; null for a source that was not read."""

    topic: datetime | None
    """`__consumer_offsets`."""
    history: datetime | None
    """The history, which is folded from that topic."""
    samples: datetime | None
    """The sampling rounds, from which lag is computed."""
    request_log: datetime | None
    server_log: datetime | None
    incidents: datetime | None
    """The search for incidents."""


Group = of_table("Group", "groups")


class _ListedGroup(Row):
    """A group as it is now, with the sums of its lag in the newest sampling round."""

    group_state: str | None
    """The state that the group's coordinator reported in the newest sampling round."""
    partitions: int | None
    partitions_without_lag: int | None
    """The number of partitions that `lag_sum` leaves out, since their lag is not known."""
    partitions_unsubscribed: int | None
    """The number of partitions that `lag_sum` leaves out, since the group no longer subscribes to their topics."""
    lag_sum: Long | None
    lag_max: Long | None
    lag_seconds_max: float | None
    lag_seconds_lower_bound: float | None
    """The greatest lower bound among the partitions whose lag in seconds is not known."""
    messages_lost: Long | None
    """The number of records that retention removed before the group read them."""
    lag_per_second: float | None
    """How fast the lag grows, in records per second; below 0 if it shrinks."""
    committed_at_ms: Long | None
    """The time of the last commit, in milliseconds since 1970."""
    commit_age_ms: Long | None
    commit_interval_ms: Long | None
    """The median, over the partitions, of the mean time between commits of a partition."""
    open_incidents: int
    """The number of open incidents of severity warning or error."""
    incident_severity: str | None
    """The highest severity of the open incidents."""
    last_incident_at: datetime | None
    """When the newest of the open incidents was first seen."""
    worst_topic: Untrusted | None
    """The topic of the partition with the most lag."""
    worst_partition: int | None
    worst_owner: Untrusted | None
    worst_client_id: Untrusted | None
    status: str | None
    """The worst status of lag of its partitions (docs/lag.md)."""
    partitions_in_status: int | None
    """The number of partitions that have that status."""
    burrow_status: str | None
    state: str | None
    """The state of the group. It is Dead if the group has ended, and Unknown if it may have ended and no coordinator
    reported a state."""
    team: str | None
    """The first team in the settings whose pattern matches the name."""


ListedGroup = of_table("ListedGroup", "groups", base=_ListedGroup)


class Member(Row):
    member_id: Untrusted
    client_id: Untrusted | None
    client_host: Untrusted | None
    group_instance_id: Untrusted | None


class PartitionsOfTopic(Row):
    topic: Untrusted
    partitions: list[int]


class PresentMember(Member):
    """A member that the group has now, with the partitions that it owns."""

    owns: Annotated[Untrusted, Field(deprecated=True)]
    """The partitions of `owned` and `reserved` as one text (`orders 0 3`, `reserved: orders 4`, `unknown`), with the
    Kafka Streams tasks that the member keeps copies of. Read `owned` and `reserved` instead."""
    owned: list[PartitionsOfTopic] | None
    """The partitions that the member owns, by topic; null if none is known because an assignment can't be read."""
    reserved: list[PartitionsOfTopic] | None
    """The partitions that are reserved for the member while it is away; null as in `owned`."""


class OwnerOfPartition(Row):
    """Who owned a partition at an instant. If several members shared it, each has a row."""

    topic: Untrusted
    partition: int
    status: str
    """owned, reserved, unowned, not_born, ended or unknown."""
    member_id: Untrusted | None
    """The owner. If the partition is reserved, the static member that is away."""
    client_id: Untrusted | None
    client_host: Untrusted | None
    group_instance_id: Untrusted | None
    since: datetime | None
    """When the member got the partition."""


class Owner(OwnerOfPartition):
    """Who owned one partition at an instant. `reason` explains a status other than owned, or a doubt."""

    group_id: Untrusted
    at: datetime
    incarnation: int | None
    generation: int | None
    until: datetime | None
    """When the member gave the partition up; null while it has it."""
    reason: Untrusted | None
    never_seen: str | None
    """The part of the question that the ledger has never seen: group, topic or partition. Null if it has seen all."""
    nearest_names: list[Untrusted] | None


class Reader(Row):
    """A group that owns, subscribes to, or has committed offsets of a topic."""

    group_id: Untrusted
    partitions_owned: int
    members_subscribed: int
    partitions_committed: int
    last_commit_at: datetime | None
    group_type: str | None
    is_simple: bool | None
    """Whether the group has commits, and never had members."""


class _Rebalance(Row):
    """A step of a group from one generation, or epoch, to the next that has a record."""

    trigger: str | None
    """The trigger that a broker's log states; null if no imported log states it. `inferred_trigger` is the one that the
    records suggest."""
    trigger_at: datetime | None
    trigger_is_certain: bool | None
    """False if the names in the log's line could be read in another way, too."""
    trigger_reason: Untrusted | None
    trigger_client_reason: Untrusted | None
    """The reason that the client gave."""
    trigger_member_ids: list[Untrusted] | None
    trigger_source_file: str | None
    trigger_line_number: Long | None


Rebalance = of_table("Rebalance", "rebalances", base=_Rebalance)


class _Incident(Row):
    """Something that went wrong, of one kind, in one group."""


Incident = of_table("Incident", "incidents", base=_Incident)


class Departure(Member):
    leave_cause: str | None
    leave_cause_confidence: float | None


class Replacement(Row):
    kind: str
    """static_replacement, or dynamic_restart."""
    member_id: Untrusted | None
    previous_member_id: Untrusted | None
    group_instance_id: Untrusted | None


class Move(Row):
    topic: Untrusted
    partition: int
    from_member_id: Untrusted | None
    to_member_id: Untrusted | None


class Wait(Row):
    held_by: Untrusted | None
    """The member that was waited for; null if it was gone."""
    partitions: list[tuple[Untrusted, int]]
    """Topic and partition."""
    waited_ms: Long | None
    """How long the wait took; null while it goes on."""


class _TimelineEntry(Row):
    """A record of the log that changed something about a group. An entry about the end of the group has few of the
    fields."""

    at: datetime
    kafka_offset: Long
    event: str
    """group_started, first_seen, rebalance, revision, group_deleted, upgraded, downgraded, not_covered or
    generation_decreased."""
    incarnation: int
    generation: int | None
    revision: int | None = None
    protocol_type: Untrusted | None = None
    protocol: Untrusted | None = None
    leader: Untrusted | None = None
    member_count: int | None = None
    generation_gap: int | None = None
    """The number of generations before this one that left no record."""
    finding: str | None = None
    """What is wrong with the record: no broker or assignor can have written it."""
    joined: list[Member] | None = None
    left: list[Departure] | None = None
    replaced: list[Replacement] | None = None
    moves: list[Move] | None = None
    targeted_at: datetime | None = None
    converged_at: datetime | None = None
    waited_for: list[Wait] | None = None


_OF_REBALANCE: Any = {name: Rebalance.model_fields[name] for name in (*REBALANCE_COLUMNS, "changes")}
_FOLLOWING: Any = {
    "other_changes" if name == "changes" else name: (
        field.annotation | None,
        Field(None, description=field.description),
    )
    for name, field in _OF_REBALANCE.items()
}
TimelineEntry = create_model(
    "TimelineEntry", __base__=_TimelineEntry, __module__=__name__, __doc__=_TimelineEntry.__doc__, **_FOLLOWING
)


class Difference(Row):
    """A difference of a group between two instants; `then` or `now` is null if there was nothing at that instant."""

    what: str
    """incarnation, generation, group_type, protocol, leader, member_count, member, owner, lag or
    partitions_without_lag."""
    name: Untrusted | None
    """The member or the topic."""
    partition: int | None
    then: Long | Untrusted | None
    now: Long | Untrusted | None


class Entry(Row):
    """What happened to a group at one instant."""

    at: datetime
    what: str
    """incident, rebalance, owner, offset or lag."""
    how: str | None
    text: Untrusted


class Who(Row):
    member_id: Untrusted | None
    client_id: Untrusted | None
    client_host: Untrusted | None
    group_instance_id: Untrusted | None


class Harm(Row):
    never_read_max: Long | None
    """The number of records that were never read, at most."""
    duplicates_max: Long | None
    """The number of records that were processed again, at most."""
    duplicates_min: Long | None


class Rival(Row):
    """A possible cause of a symptom for which no cause is proved."""

    cause: str
    happened: Untrusted
    told_apart_by: str
    """What would show whether this was the cause."""


class Diagnosis(Who, Harm):
    """A symptom with its proved cause or, if none is proved, with the possible causes (docs/causes.md)."""

    symptom: str
    cause: str | None
    fault: str | None
    """Who can remove the cause: client, brokers, ..."""
    severity: str
    evidence: str | None
    """observed, logged, replayed or inferred; null if no cause is proved."""
    confidence: float | None
    sources: list[str]
    """Where the cause is known from."""
    signs: list[str]
    since: datetime
    until: datetime | None
    """When the symptom ended; null while it goes on."""
    last_seen_at: datetime
    explanation: Untrusted
    advice: Untrusted | None
    setting_to_change: str | None
    records_behind: Long | None
    """The sum of lag, in the symptom's last sampling round, of the partitions whose status is trouble."""
    partitions_behind: int | None
    """How many partitions `records_behind` adds up."""
    unowned_partition_seconds: float | None
    """How long partitions had no owner, added up."""
    rivals: list[Rival]
    beside: list[str]
    """Further causes that are proved, too."""
    kinds: list[str]
    """The kinds of the incidents that belong to the symptom."""
    episode_ids: list[str]


class Episode(Who, Harm):
    """Incidents of a group that belong together, with one verdict, which is that of the gravest incident."""

    episode_id: str
    group_id: Untrusted | None
    kind: str
    severity: str
    evidence: str
    confidence: float | None
    explanation: Untrusted
    probable_root: str | None
    setting_to_change: str | None
    since: datetime
    until: datetime | None
    last_seen_at: datetime
    occurrences: Long
    other_kinds: list[str]


class QuietTopic(Row):
    """A topic that got records in the time of the question, and has had no new ones since."""

    topic: Untrusted
    no_records_since: datetime


class LastRound(Row):
    """A group in one sampling round: its state, the worst status of its partitions, and the sum of their lag."""

    sampled_at: datetime
    group_state: str | None
    status: str | None
    lag_sum: Long | None
    lag_seconds_max: float | None
    partitions: int
    partitions_without_lag: int
    worst_topic: Untrusted | None
    """The partition with the most lag."""
    worst_partition: int | None
    worst_owner: Untrusted | None


class Verdict(Row):
    """The verdict on a group: diagnoses and episodes, the most harmful first."""

    diagnosis: list[Diagnosis]
    episodes: list[Episode]
    as_of: datetime | None
    """The last instant that any source knows. An episode is open if it was last seen shortly before (docs/glossary.md)
    or then."""
    quiet_topics: list[QuietTopic]
    """The topics of the group that get no records any more; empty if any trouble is known."""
    last_round: LastRound | None
    """How the group was at the end of the time in question, whatever happened before; null without samples."""
    root: str | None
    """The probable root of the worst episode. If there are no episodes, the most frequent root of the rebalances."""
    advice: Untrusted | None
    setting_to_change: str | None


class _PartitionLag(Row):
    """The lag of a partition in a sampling round (docs/lag.md says what statuses and flags mean)."""

    commit_age_ms: Long | None
    """How long before the round the partition was last committed."""


PartitionLag = of_table("PartitionLag", "lag", "sample_date", base=_PartitionLag)


class CommittedOffset(Row):
    """The committed offset of a partition at an instant."""

    group_id: Untrusted
    topic: Untrusted
    partition: int
    status: str
    """committed, or unknown."""
    committed_offset: Long | None
    leader_epoch: int | None
    metadata: Untrusted | None
    """What the client wrote beside the offset."""
    committed_at: datetime | None
    kafka_offset: Long | None
    """The offset of the commit's record in its partition of `__consumer_offsets`."""


class FailoverPartition(Row):
    """What a group would do in a partition if it moved to a mirrored cluster. The counts are null where nothing is
    known."""

    topic: Untrusted
    partition: int
    target_topic: Untrusted | None
    """The topic that MirrorMaker copies to; null if nothing shows it."""
    outcome: str
    """exact, repeats, skips, may_repeat, near (it may repeat or skip), no_commit or unknown."""
    source_offset: Long | None
    """The committed offset in the source."""
    target_offset: Long | None
    """The committed offset in the target, where the group would begin."""
    place_lowest: Long | None
    """The lowest offset in the target at which the copy of the next record can be."""
    place_highest: Long | None
    repeated_min: Long | None
    repeated_max: Long | None
    skipped_min: Long | None
    skipped_max: Long | None
    reason: Untrusted | None
    """Why it is not known; null if it is."""


class ActPartition(Row):
    topic: Untrusted
    partition: int
    kind: str
    offset_before: Long | None
    offset_after: Long | None
    records_repeated: Long | None
    records_skipped: Long | None


class Author(Row):
    """Who changed committed offsets: the client in a line of a request log, or the owner of the partition."""

    principal: Untrusted | None
    client_id: Untrusted | None
    client_host: Untrusted | None
    member_id: Untrusted | None
    client_software_name: Untrusted | None
    client_software_version: Untrusted | None
    api: str | None
    happened_at: datetime | None
    source_file: str | None
    line_number: Long | None


class Act(Row):
    """One operation of a user on committed offsets of a group, such as a reset."""

    group_id: Untrusted
    happened_at: datetime
    record: str
    """The partition of `__consumer_offsets` and the offset of the first record."""
    kinds: list[str]
    causes: list[str]
    partition_count: int
    records_repeated: Long | None
    records_skipped: Long | None
    known_by: str
    authors: list[Author]
    """The author, or all who may have done it; empty if nobody is known."""
    reason: str | None
    """Why it is not certain who did it."""
    partitions: list[ActPartition]


class _DeployCost(Row):
    """The cost of a deployment. A value is null if it is not known."""

    rebalances: float | None
    unowned_partition_seconds: float | None
    """How long partitions had no owner between two owners, added up."""
    stopped_partition_seconds_min: float | None
    """How long partitions stood still, at least, in the rebalances of the deployment, added up."""
    lag_peak: float | None
    """The highest sum of lag in the sampling rounds during the deployment, and in the first round after it."""
    lasted_seconds: float


class DeploysBefore(_DeployCost):
    """The medians of up to ten earlier deployments of the same group."""

    deploys: int


class Deploy(_DeployCost):
    """A time in which the members of a group were replaced, and which is or may be a deployment."""

    group_id: Untrusted
    is_deploy: bool | None
    """Whether it was a deployment; null if that is not known."""
    reason: str | None
    """Why it is not known whether it was a deployment."""
    began_at: datetime
    """The first departure or arrival in the log."""
    ended_at: datetime
    members_before: int
    members_after: int
    members_replaced: int
    hosts_changed: bool | None
    versions_before: list[Untrusted]
    """Libraries and versions of the clients; empty if no imported request log names them."""
    versions_after: list[Untrusted]
    partitions_moved: int | None
    stopped_partition_seconds_max: int | None
    lag_before: Long | None
    lag_peak_at: datetime | None
    before: DeploysBefore | None
    """The cost of earlier deployments of the group; null if none is known."""


class Forecast(Row):
    """The forecast of a partition. Seconds count from the sampling round. Each event has three times: at the present
    rate, at the earliest and at the latest. The latest is null if the event may never happen. All three are null if
    there is no forecast, and `catch_up_unknown` or `loss_unknown` says why."""

    group_id: Untrusted
    topic: Untrusted
    partition: int
    lag: Long | None
    trend: str | None
    """growing or shrinking if the lag does so for certain, else level; null if there are too few rounds."""
    produced_per_second: float | None
    consumed_per_second: float | None
    catch_up_seconds: float | None
    """Until the lag is at most what is produced in two intervals between commits, since a group leaves that much
    anyway; 0 if it is already."""
    catch_up_earliest_seconds: float | None
    catch_up_latest_seconds: float | None
    catch_up_unknown: str | None
    """Why it is not known when the partition has caught up."""
    loss_seconds: float | None
    """Until the start of the log overtakes the committed offset, so that retention removes records that were not
    read."""
    loss_earliest_seconds: float | None
    loss_latest_seconds: float | None
    loss_unknown: str | None
    """Why there is no forecast of a loss."""


class ExpiringOffsets(Row):
    """Committed offsets of a group that Kafka will expire, all for the same cause."""

    group_id: Untrusted
    group_type: str | None
    is_simple: bool | None
    cause: str
    topic: Untrusted | None
    """The topic that no member subscribes to any more; null if all topics of the group are meant."""
    committed_partition_count: int
    last_commit_at: datetime
    idle_since: datetime
    offsets_expire_at: datetime


class Pace(Row):
    """How many records per second are processed while records wait. A value is null if that was not seen."""

    pace_per_second: float | None
    pace_low_per_second: float | None
    pace_high_per_second: float | None
    pace_at_least_per_second: float | None
    """A lower bound of the pace. If no backlog showed the pace, it is the rate of processed records."""


class MemberLoad(Pace):
    member_id: Untrusted
    client_id: Untrusted | None
    client_host: Untrusted | None
    partitions: int
    produced_per_second: float | None
    """How many records per second its partitions get."""
    is_stuck: bool
    """Whether records wait for the member while its committed offsets do not move."""


class HotPartition(Row):
    topic: Untrusted
    partition: int
    produced_per_second: float | None


class AskedMembers(Row):
    """The load of the members if the group had another number of them, `members`."""

    members: int
    idle_members: int
    heaviest_per_second: float | None
    """How many records per second the member with the most load would get."""
    load: float | None
    """`heaviest_per_second` as a fraction of a member's pace."""
    catch_up_seconds: float | None


class Capacity(Pace):
    """Whether a group has enough members, and what a scaler may act on."""

    group_id: Untrusted
    since: datetime
    until: datetime
    findings: list[str]
    partitions: int | None
    members: int | None
    idle_members: int | None
    produced_per_second: float | None
    members_needed: int | None
    """The number of members that would be enough; null if only an upper bound of it is known."""
    members_needed_at_most: int | None
    hot_partitions: list[HotPartition]
    by_member: list[MemberLoad]
    asked: list[AskedMembers]
    lag: Long | None
    lag_without_stuck: Long | None
    partitions_with_lag: int
    partitions_without_lag: int
    partitions_without_commit: int
    no_commit: str
    even_members: list[int]
    """Numbers of members that divide the partitions evenly."""


class Objective(Row):
    """How well a group meets an objective of lag. Minutes and percentages are of the objective's window."""

    objective: str
    group_id: Untrusted
    lag_s: float
    target_percent: float
    window_days: float
    since: datetime
    until: datetime
    minutes_on_time: int
    minutes_late: int
    minutes_unknown: int
    attained_percent: float | None
    budget_minutes: float | None
    budget_left_minutes: float | None
    """Below 0 if the budget is overspent."""
    budget_left_percent: float | None
    burn_rate_5m: float | None
    burn_rate_30m: float | None
    burn_rate_1h: float | None
    burn_rate_6h: float | None
    burn_rate_3d: float | None
    burning: str


class Client(Row):
    """The present members of a group that have the same library, version, protocol and assignor."""

    group_id: Untrusted
    group_type: str | None
    is_classic: bool | None
    """Whether these members speak the classic protocol."""
    protocol_type: Untrusted | None
    assignor: Untrusted | None
    library: Untrusted | None
    """The name that the client sent to the brokers; null if no imported request log has it."""
    version: Untrusted | None
    members: int
    static_members: int
    move_blockers: list[str]
    """What keeps these members from the protocol of KIP-848; empty if they could move, or have moved."""


class _KeptWhatIf(Row):
    """What another setting would have saved a group. If that can't be computed, the figures are null and `refusal` says
    why."""


KeptWhatIf = of_table("KeptWhatIf", "what_if_effects", base=_KeptWhatIf)
WhatIf = of_table("WhatIf", "what_if_effects", "run_id", "ran_at", base=_KeptWhatIf)
