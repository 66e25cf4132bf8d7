"""Connects the tables to `transforms.incidents.rules`: turns rows of the ledger into rows of `incidents`, with Spark.

    facts_of(tables, rules, ...)   the facts that the rules need: one row for each, one struct column a source
    incidents(facts, ...)          calls the rules once for each subject

A subject is a group, or a partition of `__consumer_offsets`; one task computes it. Only groups that may have an
incident are read from the history: those with a refusal, a removal, a hole, a rewind, a gap in their commits, a long
rebalance, enough rebalances for a storm, or an offset that was lost or will be (`offset_facts`). Only these commits are
read: those that went back, those that were followed by a long silence (`commit_steps`), and those of partitions whose
commits were refused. The groups are found first, so that the tables that grow with all groups are read for these groups
only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.kafka.api_keys import JOINING_EPOCH, ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.group_states import CLASSIC_REBALANCING
from groupledger.schemas.kinds.changes import SUBSCRIPTION_CHANGED
from groupledger.schemas.kinds.incidents import COMMITS, KIND_OF_ERROR, KIND_OF_LASTING_ERROR, STALE_MEMBER_EPOCH
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.words import CoordinatorEventKind, HoleCause, words_of
from groupledger.transforms.by_group import by_group
from groupledger.transforms.history.group_history import GROUP_METADATA
from groupledger.transforms.incidents.commit_steps import ENDS, NEXT_COLUMNS, commits_of
from groupledger.transforms.incidents.offset_facts import (
    expiring,
    lost,
    modern,
    moves_and_losses,
    old_offsets,
    readers,
    returns,
)
from groupledger.transforms.incidents.rules import (
    Commit,
    CommitStep,
    CoordinatorEvent,
    EndSample,
    GroupFacts,
    GroupState,
    HeldPartition,
    LagRound,
    LagStretch,
    OffsetEvent,
    OffsetReturn,
    RebalanceStretch,
    Rules,
    request_fact,
)
from groupledger.transforms.incidents.rules import incidents as incidents_of
from groupledger.transforms.incidents.rules.coordinator_faults import Coordinators
from groupledger.transforms.incidents.rules.facts import COORDINATOR_AWAY, EPOCH_HEARTBEAT_NAMES
from groupledger.transforms.incidents.rules.inferred import KIND_OF_LEAVE
from groupledger.transforms.incidents.rules.patterns import FLAPPING_WINDOW_MS
from groupledger.transforms.numbers import record_ms
from groupledger.transforms.troubles import stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from groupledger.transforms.incidents.rules.coordinator_faults import CoordinatorFault
    from groupledger.transforms.troubles import Report

    Row = dict[str, Any]

FACT_KEY = ("subject", "source", "at")
OF_GROUP = "group "  # before the name in a subject
"""`at` is what the facts of a source are in order of; facts of one `at` are in the order of their struct's fields."""
INCIDENT_ERRORS = (*COORDINATOR_AWAY, *KIND_OF_ERROR, *KIND_OF_LASTING_ERROR)
"""Errors that an incident may rest on, and those of a coordinator that was away."""
NO_HEARTBEATS = (ApiKey.JOIN_GROUP.name, ApiKey.LEAVE_GROUP.name)
STEP_COLUMNS = (
    *("group_id", "kafka_partition", "kafka_offset", "topic", "partition", "at_ms", "offset"),
    *(*(f"next_{name}" for name in NEXT_COLUMNS), "interval_ms", "is_recreated_topic", *ENDS),
)


@dataclass(frozen=True, kw_only=True)
class IncidentTables:
    """Rows of one cluster; logs and samples are None where missing.

    `suspects` are the steps that may be an incident (`with_suspicion`). `requests` are those that `wanted_requests`
    returns. `open_transactions` are the samples that show an open transaction. `lag_stretches` and `lag_rounds` are the
    results of the modules of these names. `disturbed` names the groups that a fault of their coordinator hit. Other
    tables are read through `Asking`, for some groups only.
    """

    coverage: DataFrame
    suspects: DataFrame
    generations: DataFrame
    rebalances: DataFrame
    members: DataFrame
    requests: DataFrame | None = None
    coordinator_events: DataFrame | None = None
    open_transactions: DataFrame | None = None
    group_states: DataFrame | None = None
    member_epochs: DataFrame | None = None
    offset_events: DataFrame | None = None
    committed_offsets: DataFrame | None = None
    groups: DataFrame | None = None
    lag_stretches: DataFrame | None = None
    lag_rounds: DataFrame | None = None
    disturbed: DataFrame | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Rows of the tables that grow with all groups, limited to the groups and topics that were asked for."""

    coordinator_records: DataFrame
    watermarks: DataFrame | None


@dataclass(frozen=True, kw_only=True)
class History:
    """Rows of the tables about groups, limited to the groups that may have an incident."""

    commit_steps: DataFrame
    generations: DataFrame
    rebalances: DataFrame
    members: DataFrame
    assignments: DataFrame
    groups: DataFrame | None = None


class Asking(Protocol):
    """Reads the rows that `facts_of` finds out it needs. The names given to it are distinct."""

    def asked(self, names: DataFrame) -> Asked:
        """Returns the records of some groups and the samples of some topics. Each row of `names` has either `group_id`
        or `topic`."""

    def history(self, groups: DataFrame) -> History:
        """Returns all history of the groups in `group_id`."""


def facts_of(tables: IncidentTables, rules: Rules, as_of_ms: int, asking: Asking) -> DataFrame:
    """Returns one row for each fact: `FACT_KEY`, and a struct column for each source. Only the fact's own struct is
    filled."""
    old = _old_offsets(tables, rules, as_of_ms)
    sources = [*_sources(tables, asking.asked(_asked(tables, old)), rules, as_of_ms, old)]
    candidates = [*_history_candidates(tables, rules), tables.suspects]
    candidates += [] if tables.disturbed is None else [tables.disturbed]
    candidates += [source.candidates for source in sources if source.candidates is not None]
    history = asking.history(_groups_of(candidates))
    parts = [
        _facts("steps", history.commit_steps.select(*STEP_COLUMNS), "kafka_offset"),
        _facts("generations", history.generations, "kafka_offset"),
        _facts("rebalances", history.rebalances, "kafka_offset"),
        _facts("members", history.members, "from_offset"),
        _facts("assignments", history.assignments, "from_offset"),
    ]
    if history.groups is not None:
        parts.append(_facts("groups", history.groups, "last_kafka_offset"))
    parts += [_facts(source.name, source.rows, source.order) for source in sources]
    if tables.open_transactions is not None:
        parts.append(_samples(tables.open_transactions))
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


@dataclass(frozen=True)
class _Source:
    """Rows that become facts whatever the history says, their order, and those whose groups may have an incident."""

    name: str
    rows: DataFrame
    order: str
    candidates: DataFrame | None = None


def _sources(
    tables: IncidentTables, asked: Asked, rules: Rules, as_of_ms: int, old: DataFrame | None
) -> Iterator[_Source]:
    if (requests := tables.requests) is not None:
        refused_or_replayed = requests.where(~_is_accepted_join() | F.col("is_replayed"))
        yield _Source("requests", requests, "order", refused_or_replayed)
        yield _Source("commits", _commits_of_refused(asked.coordinator_records, requests), "kafka_offset")
        yield _Source("records", _records_to_replay(asked.coordinator_records, requests), "kafka_offset")
    if tables.coordinator_events is not None:
        events = _events(tables.coordinator_events)
        yield _Source("events", events, "order", events.where(F.col("kind") != CoordinatorEventKind.STABILIZED))
    if tables.group_states is not None:
        stretches = long_stretches(tables.group_states, tables.generations, rules)
        yield _Source("stretches", stretches, "first_ms", stretches)
    if tables.member_epochs is not None:
        held = held_partitions(tables.member_epochs, rules, as_of_ms)
        yield _Source("held", held, "from_offset", held)
    if tables.lag_stretches is not None:
        yield _Source("lag_stretches", tables.lag_stretches, "from_ms", tables.lag_stretches)
    if tables.lag_rounds is not None:
        yield _Source("lag_rounds", tables.lag_rounds, "sampled_at_ms", tables.lag_rounds)
    if tables.offset_events is not None:
        moved = moves_and_losses(tables.offset_events)
        yield _Source("offset_events", moved, "kafka_offset", moved)
        around = (asked.coordinator_records, tables.coverage, tables.generations, asked.watermarks)
        back = returns(tables.offset_events, *around)
        yield _Source("returns", back, "kafka_offset", back)
    if old is not None and tables.groups is not None:
        due = expiring(old, asked.watermarks)
        yield _Source("committed", due, "kafka_offset", due)
        yield _Source("readers", readers(asked.coordinator_records, tables.groups, old), "kafka_offset")


def _old_offsets(tables: IncidentTables, rules: Rules, as_of_ms: int) -> DataFrame | None:
    if tables.committed_offsets is None or tables.groups is None:
        return None
    return old_offsets(tables.committed_offsets, tables.generations, tables.coverage, rules, as_of_ms)


def _groups_of(parts: Sequence[DataFrame]) -> DataFrame:
    """Returns the names of the groups in all parts, each once."""
    return reduce(lambda one, other: one.union(other), [rows.select("group_id") for rows in parts]).distinct()


def _asked(tables: IncidentTables, old: DataFrame | None) -> DataFrame:
    """Returns the groups whose log some source reads itself, and the topics whose samples it reads."""
    none = F.lit(None).cast("string")
    groups, topics = [tables.suspects.where("false")], []
    if tables.requests is not None:
        groups.append(tables.requests.where(F.col("is_replayed") | _is_refused_commit()))
    if tables.offset_events is not None:
        groups.append(lost(tables.offset_events))
        topics.append(lost(tables.offset_events))
    if old is not None and tables.groups is not None:
        groups.append(modern(tables.groups, old))
        topics.append(old)
    parts = [rows.select("group_id", none.alias("topic")) for rows in groups]
    parts += [rows.select(none.alias("group_id"), "topic") for rows in topics]
    return reduce(lambda one, other: one.union(other), parts).distinct()


def _facts(source: str, rows: DataFrame, order: str) -> DataFrame:
    """Returns rows as facts of a source; instants become microseconds since the epoch."""
    columns = [
        F.unix_micros(name).alias(name) if isinstance(rows.schema[name].dataType, TimestampType) else F.col(name)
        for name in rows.columns
        if name not in ("cluster", "is_open", "order")
    ]
    return rows.select(
        F.concat(F.lit(OF_GROUP), "group_id").alias("subject"),
        F.lit(source).alias("source"),
        F.col(order).cast("long").alias("at"),
        F.struct(*columns).alias(source),
    )


# Logs


def wanted_requests(requests: DataFrame) -> DataFrame:
    """Returns the requests that the rules need: refusals, joins and leaves, commits that may make up for a refused one,
    and all requests of a group that has a request without an answer."""
    unanswered = requests.where(F.col("response_json").isNull()).select("group_id").distinct()
    unanswered = unanswered.withColumn("is_replayed", F.lit(True))
    found = requests.where(F.col("group_id").isNotNull()).join(F.broadcast(unanswered), "group_id", "left")
    is_replayed = F.coalesce("is_replayed", F.lit(False))
    is_join_or_leave = F.col("api").isin(*EPOCH_HEARTBEAT_NAMES) & (F.col("generation") <= JOINING_EPOCH)
    is_wanted = F.col("error_code").isin(*INCIDENT_ERRORS) | F.col("api").isin(*NO_HEARTBEATS) | is_join_or_leave
    is_wanted = F.coalesce(is_wanted, F.lit(False)) | is_replayed
    return (
        found.where(is_wanted)
        .union(_mending(found.where(~is_wanted), requests))
        .select(
            *("group_id", "source_file", "line_number", "api", "api_version", "error_code", "member_id"),
            *(
                "group_instance_id",
                "generation",
                "response_member_id",
                "response_generation",
                "client_id",
                "client_host",
            ),
            *("connection_id", "partitions", "members"),
            F.unix_micros("happened_at").alias("happened_at_us"),
            F.unix_micros("logged_at").alias("logged_at_us"),
            F.unix_micros("happened_at").alias("order"),
            F.when(is_replayed, F.col("request_json")).alias("request_json"),
            is_replayed.alias("is_replayed"),
        )
    )


def _is_accepted_join() -> Column:
    is_join = (F.col("api") == ApiKey.JOIN_GROUP.name) | (F.col("generation") == JOINING_EPOCH)
    return F.coalesce(is_join & (F.col("error_code") == Error.NONE.value), F.lit(False))


def _mending(others: DataFrame, requests: DataFrame) -> DataFrame:
    """Returns the accepted commits of a member so near a refused one that nothing may have been lost with that."""
    is_commit = F.col("api").isin(*COMMITS)
    refused = requests.where(is_commit & (F.col("error_code") == STALE_MEMBER_EPOCH.error_code)).select(
        *("group_id", "member_id"), F.unix_millis("happened_at").alias("refused_ms")
    )
    accepted = others.where(is_commit & (F.col("error_code") == Error.NONE.value)).alias("accepted")
    apart_ms = F.abs(F.unix_millis("happened_at") - F.col("refused_ms"))
    is_of_member = F.col("accepted.group_id") == F.col("refused.group_id")
    is_of_member &= F.col("accepted.member_id") == F.col("refused.member_id")
    is_soon = apart_ms <= F.lit(STALE_MEMBER_EPOCH.recovers_within_ms)
    return accepted.join(F.broadcast(refused).alias("refused"), is_of_member & is_soon, "left_semi")


def _events(events: DataFrame) -> DataFrame:
    return events.where(F.col("kind").isin(*words_of(CoordinatorEventKind)) & F.col("group_id").isNotNull()).select(
        *("group_id", "source_file", "line_number", "kind", "generation", "member_id", "client_reason", "trigger"),
        *("reason", "member_ids", "broker_id", "kafka_partition"),
        F.unix_millis("logged_at").alias("logged_at_ms"),
        F.unix_millis("logged_at").alias("order"),
    )


def _records_to_replay(coordinator_records: DataFrame, requests: DataFrame) -> DataFrame:
    replayed = requests.where("is_replayed").select("group_id").distinct()
    records = coordinator_records.where((F.col("record_type") == GROUP_METADATA) & F.col("decode_error").isNull())
    return records.join(F.broadcast(replayed), "group_id", "left_semi").select(
        "group_id", "kafka_offset", record_ms().alias("at_ms"), "record_json"
    )


# Commits


def _is_refused_commit() -> Column:
    """Holds also for a commit without an answer."""
    return F.col("api").isin(*COMMITS) & ~F.col("error_code").eqNullSafe(Error.NONE.value)


def _commits_of_refused(coordinator_records: DataFrame, requests: DataFrame) -> DataFrame:
    """Returns all accepted commits of the partitions that have a commit refused, or without an answer."""
    places = requests.where(_is_refused_commit()).select("group_id", F.explode("partitions").alias("place"))
    places = places.select("group_id", "place.topic", "place.partition").distinct()
    commits = commits_of(coordinator_records).where(F.col("offset").isNotNull()).drop("topic_id")
    return commits.join(F.broadcast(places), ["group_id", "topic", "partition"], "left_semi")


# Which groups


def _history_candidates(tables: IncidentTables, rules: Rules) -> list[DataFrame]:
    changed = tables.generations.where(
        (F.col("revision") > 0) & F.exists("changes", lambda each: each["kind"] == SUBSCRIPTION_CHANGED.name)
    )
    happened_ms = F.unix_millis("happened_at")
    in_group = Window.partitionBy("group_id").orderBy(happened_ms)
    since_ms = happened_ms - F.lag(happened_ms, rules.storm_rebalances - 1).over(in_group)
    busy = tables.rebalances.select("group_id", since_ms.alias("since_ms"))
    busy = busy.where(F.col("since_ms") < rules.storm_window_ms)
    holes = tables.rebalances.where(F.col("hole_cause") == HoleCause.NOT_SYNCED)
    return [_suspicious(tables.members), _short_tenures(tables.members, rules), changed, busy, holes]


def _suspicious(members: DataFrame) -> DataFrame:
    return members.where(F.col("leave_cause").isin(*KIND_OF_LEAVE))


def _short_tenures(members: DataFrame, rules: Rules) -> DataFrame:
    """Returns the tenures that are short, as those of the same process just before them were."""
    joined_ms, left_ms = F.unix_millis("joined_at"), F.unix_millis("left_at")
    short = members.where(left_ms - joined_ms < rules.flapping_tenure_ms)
    is_static = F.col("group_instance_id").isNotNull()
    process = [F.when(~is_static, F.col(name)) for name in ("client_id", "client_host")]
    of_process = Window.partitionBy("group_id", "group_instance_id", *process).orderBy(left_ms)
    since_ms = left_ms - F.lag(left_ms, rules.flapping_tenures - 1).over(of_process)
    return short.select("group_id", since_ms.alias("since_ms")).where(F.col("since_ms") < FLAPPING_WINDOW_MS)


def _samples(open_transactions: DataFrame) -> DataFrame:
    """Returns samples as facts whose subject is the partition of `__consumer_offsets`."""
    return open_transactions.select(
        F.concat(F.lit("partition "), F.col("partition").cast("string")).alias("subject"),
        F.lit("samples").alias("source"),
        F.col("sampled_at_ms").alias("at"),
        F.struct(*open_transactions.columns).alias("samples"),
    )


def long_stretches(group_states: DataFrame, generations: DataFrame, rules: Rules) -> DataFrame:
    """Returns the stretches of rebalancing that are long enough to be stuck."""
    is_rebalancing = F.col("state").isin(*CLASSIC_REBALANCING)
    at_ms = F.unix_millis("sampled_at")
    # Few groups have two samples of a rebalance that far apart, and only theirs need to be put in order.
    within_ms = (F.max(at_ms) - F.min(at_ms)).alias("within_ms")
    seen = group_states.where(is_rebalancing).groupBy("group_id").agg(within_ms)
    slow = F.broadcast(seen.where(F.col("within_ms") >= rules.stuck_rebalance_ms).select("group_id"))
    group_states = group_states.join(slow, "group_id", "left_semi")
    generations = generations.join(slow, "group_id", "left_semi")
    sampled_states = group_states.where(F.col("state").isNotNull()).select(
        "group_id", at_ms.alias("at_ms"), is_rebalancing.alias("is_rebalancing"), "state"
    )
    begun = generations.select("group_id", F.unix_millis("started_at").alias("at_ms"), F.lit(False), F.lit(None))
    line = Window.partitionBy("group_id").orderBy("at_ms", "is_rebalancing")
    numbered = sampled_states.union(begun).withColumn("number", F.count_if(~F.col("is_rebalancing")).over(line))
    stretches = numbered.where("is_rebalancing").groupBy("group_id", "number")
    found = stretches.agg(
        F.min("at_ms").alias("first_ms"), F.max("at_ms").alias("last_ms"), F.max_by("state", "at_ms").alias("state")
    ).drop("number")
    return found.where(F.col("last_ms") - F.col("first_ms") >= rules.stuck_rebalance_ms)


def held_partitions(member_epochs: DataFrame, rules: Rules, as_of_ms: int) -> DataFrame:
    """Returns the partitions that members of KIP-848 groups waited for so long that another member may be holding them
    back."""
    waits = member_epochs.select(
        *("group_id", "incarnation", "member_id", "from_offset", F.explode("waits_for").alias("wait")),
        F.unix_millis("targeted_at").alias("from_ms"),
        F.coalesce(F.unix_millis("valid_to"), F.lit(as_of_ms)).alias("until_ms"),
    )
    is_named = F.col("wait.held_by").isNotNull() & F.col("wait.topic").isNotNull()
    is_long = F.col("until_ms") - F.col("from_ms") >= rules.stuck_reconciliation_ms
    return waits.where(is_named & is_long).select("*", "wait.*").drop("wait")


# In the tasks


@dataclass(frozen=True, kw_only=True)
class OfCluster:
    """What all groups of a cluster share: until when the topic was read, the coordinators' faults, and which broker
    coordinated when."""

    topic_until_ms: int | None = None
    faults: Sequence[CoordinatorFault] = ()
    coordinators: Coordinators = field(default_factory=Coordinators)


ALONE = OfCluster()


def incidents(
    facts: DataFrame, rules: Rules, as_of_ms: int, report: Report = stop, shared: OfCluster = ALONE
) -> DataFrame:
    """Returns the rows of the table, without `cluster`."""
    sources = [name for name in facts.columns if name not in FACT_KEY]

    def judge(subject: str, of_subject: Iterator[Row]) -> list[Row]:
        of_group = _group_facts(subject, of_subject, as_of_ms)
        of_group.topic_until_ms = shared.topic_until_ms
        of_group.faults, of_group.coordinators = shared.faults, shared.coordinators
        return incidents_of(of_group, rules)

    order = ["source", "at", *sources]
    return by_group(facts, ["subject"], order, judge, INCIDENTS.without("cluster"), _of_groups(report))


def groups_of(facts: DataFrame) -> DataFrame:
    """Returns the groups that facts are about, distinct, in the one column `group_id`."""
    subjects = facts.where(F.col("subject").startswith(OF_GROUP)).select("subject").distinct()
    return subjects.select(F.substr("subject", F.lit(len(OF_GROUP) + 1)).alias("group_id"))


def incidents_of_cluster(shared: OfCluster, rules: Rules, as_of_ms: int) -> pa.Table:
    """Returns the incidents that are about a coordinator's fault as a whole, in the columns of `incidents` without
    `cluster`."""
    rows = incidents_of(GroupFacts(None, as_of_ms, faults=shared.faults), rules)
    return pa.Table.from_pylist(rows, arrow_schema(INCIDENTS.without("cluster")))


def _of_groups(report: Report) -> Report:
    def report_group(subject: str, error: Exception) -> None:
        if not subject.startswith(OF_GROUP):  # a partition is judged by the brokers' numbers, and nobody else's
            raise error
        report(subject.removeprefix(OF_GROUP), error)

    return report_group


def _group_facts(subject: str, rows: Iterable[Row], as_of_ms: int) -> GroupFacts:
    facts = GroupFacts(subject.removeprefix(OF_GROUP) if subject.startswith(OF_GROUP) else None, as_of_ms)
    for row in rows:
        source = row["source"]
        fact = row[source]
        getattr(facts, source).append(_MAKERS[source](fact) if source in _MAKERS else fact)
    return facts


def _maker(kind: type[Any]) -> Callable[[Row], Any]:
    """Returns a function that makes a dataclass of the columns that have its fields' names."""
    names = [field.name for field in fields(kind)]
    return lambda row: kind(**{name: row[name] for name in names})


_commit = _maker(Commit)


def _step(row: Row) -> CommitStep:
    following = None
    if row["next_kafka_offset"] is not None:
        following = _commit({**row, **{name: row[f"next_{name}"] for name in NEXT_COLUMNS}})
    values = {field.name: row[field.name] for field in fields(CommitStep) if field.name in row}
    return CommitStep(commit=_commit(row), next_commit=following, **values)


def _return(row: Row) -> OffsetReturn:
    following = _commit({**row, **{name: row[f"next_{name}"] for name in NEXT_COLUMNS}})
    values = {field.name: row[field.name] for field in fields(OffsetReturn) if field.name in row}
    return OffsetReturn(commit=following, **values)


_MAKERS: dict[str, Callable[[Row], Any]] = {
    "requests": request_fact,
    "events": _maker(CoordinatorEvent),
    "commits": _commit,
    "steps": _step,
    "records": _maker(GroupState),
    "samples": _maker(EndSample),
    "stretches": _maker(RebalanceStretch),
    "held": _maker(HeldPartition),
    "lag_stretches": _maker(LagStretch),
    "lag_rounds": _maker(LagRound),
    "offset_events": _maker(OffsetEvent),
    "returns": _return,
}
