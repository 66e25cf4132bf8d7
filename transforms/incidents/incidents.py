"""Connects the tables to `transforms.incidents.rules`: turns rows of the ledger into facts about groups, with Spark.

    facts_of(tables, rules, ...)   the facts that the rules need: one row for each

`judging` calls the rules with them. Only groups that may have an incident are read from the history: those with a
refusal, a removal, a hole, a rewind, a gap in their commits, a long rebalance, enough rebalances for a storm, or an
offset that was lost or will be (`offset_facts`). Only these commits are read: those that went back, those that were
followed by a long silence (`commit_steps`), and those of partitions whose commits were refused. The groups are found
first, so that the tables that grow with all groups are read for these groups only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from groupledger.schemas.words import CoordinatorEventKind
from groupledger.transforms.incidents.candidates import held_partitions, history_candidates
from groupledger.transforms.incidents.commit_steps import ENDS, NEXT_COLUMNS
from groupledger.transforms.incidents.log_facts import (
    commits_of_refused,
    events_of_groups,
    is_accepted_join,
    is_refused_commit,
    records_to_replay,
)
from groupledger.transforms.incidents.needed_steps import TIME, needed_steps, times_without_members
from groupledger.transforms.incidents.offset_facts import (
    PLACE,
    expiring,
    lost,
    modern,
    moves_and_losses,
    old_offsets,
    readers,
    returns,
    row_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from groupledger.transforms.incidents.rules import Rules

FACT_ORDER = ("source", "at", "file", "number", "fact")
"""The order in which the facts of a group come to the rules."""
TIES = (("source_file",), ("line_number", "revision", "partition"))
"""The columns that become `file` and `number`, and order facts of the same `at`. A source gives the first column of
each list that it has. Lines of a log often have the same millisecond, and only their numbers show their order."""
ASKED = ("group_id", "past_of", "topic")
OF_GROUP = "group "  # before the name in a subject
STEP_COLUMNS = (
    *("group_id", "kafka_partition", "kafka_offset", "topic", "partition", "at_ms", "offset"),
    *(*(f"next_{name}" for name in NEXT_COLUMNS), "interval_ms", "is_recreated_topic", *ENDS),
)


@dataclass(frozen=True, kw_only=True)
class IncidentTables:
    """Rows of one cluster; logs and samples are None where missing.

    `suspects` are the steps that may be an incident (`with_suspicion`). `requests` are those that `wanted_requests`
    returns. `rebalance_stretches`, `lag_stretches` and `lag_rounds` are the results of the modules of these names.
    `disturbed` names the groups that a fault of their coordinator hit. Other tables are read through `Asking`, for some
    groups only.
    """

    coverage: DataFrame
    suspects: DataFrame
    generations: DataFrame
    rebalances: DataFrame
    members: DataFrame
    requests: DataFrame | None = None
    coordinator_events: DataFrame | None = None
    rebalance_stretches: DataFrame | None = None
    member_epochs: DataFrame | None = None
    offset_events: DataFrame | None = None
    committed_offsets: DataFrame | None = None
    groups: DataFrame | None = None
    lag_stretches: DataFrame | None = None
    lag_rounds: DataFrame | None = None
    disturbed: DataFrame | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Rows of the tables that grow with all groups, limited to the groups and topics that were asked for.
    `past_records` are the records of some groups from the beginning."""

    coordinator_records: DataFrame
    past_records: DataFrame
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
        """Returns the records of some groups and the samples of some topics. Each row of `names` has one of `group_id`,
        `past_of` (a group, for `past_records`) and `topic`."""

    def history(self, groups: DataFrame) -> History:
        """Returns all history of the groups in `group_id`."""


def facts_of(tables: IncidentTables, rules: Rules, as_of_ms: int, asking: Asking) -> DataFrame:
    """Returns one row for each fact, with the columns `subject` and `FACT_ORDER`. `fact` is JSON: it takes half the
    time of a column for each source, since each row fills only one of them."""
    old = _old_offsets(tables, rules, as_of_ms)
    sources = [*_sources(tables, asking.asked(_asked(tables, old)), rules, as_of_ms, old)]
    candidates = history_candidates(tables.generations, tables.rebalances, tables.members, rules)
    candidates.append(tables.suspects)
    candidates += [] if tables.disturbed is None else [tables.disturbed]
    candidates += [source.candidates for source in sources if source.candidates is not None]
    history = asking.history(_groups_of(candidates))
    unread = [times_without_members(history.generations)]
    unread += [source.unread.select(*TIME) for source in sources if source.unread is not None]
    steps = needed_steps(history.commit_steps, reduce(lambda one, other: one.union(other), unread), rules, as_of_ms)
    parts = [
        _facts("steps", steps.select(*STEP_COLUMNS), "kafka_offset"),
        _facts("generations", history.generations, "kafka_offset"),
        _facts("rebalances", history.rebalances, "kafka_offset"),
        _facts("members", history.members, "from_offset"),
        _facts("assignments", history.assignments, "from_offset"),
    ]
    if history.groups is not None:
        parts.append(_facts("groups", history.groups, "last_kafka_offset"))
    parts += [_facts(source.name, source.rows, source.order) for source in sources]
    return reduce(lambda one, other: one.union(other), parts)


@dataclass(frozen=True)
class _Source:
    """Rows that become facts whatever the history says, their order, those whose groups may have an incident, and the
    times in which nobody could read."""

    name: str
    rows: DataFrame
    order: str
    candidates: DataFrame | None = None
    unread: DataFrame | None = None


def _sources(
    tables: IncidentTables, asked: Asked, rules: Rules, as_of_ms: int, old: DataFrame | None
) -> Iterator[_Source]:
    if (requests := tables.requests) is not None:
        refused_or_replayed = requests.where(~is_accepted_join() | F.col("is_replayed"))
        yield _Source("requests", requests, "order", refused_or_replayed)
        yield _Source("commits", commits_of_refused(asked.coordinator_records, requests), "kafka_offset")
        yield _Source("records", records_to_replay(asked.past_records, requests), "kafka_offset")
    if tables.coordinator_events is not None:
        events = events_of_groups(tables.coordinator_events)
        yield _Source("events", events, "order", events.where(F.col("kind") != CoordinatorEventKind.STABILIZED))
    if tables.rebalance_stretches is not None:
        stretches = tables.rebalance_stretches
        times = stretches.withColumnsRenamed({"first_ms": "from_ms", "last_ms": "until_ms"})
        yield _Source("stretches", stretches, "first_ms", stretches, times)
    if tables.member_epochs is not None:
        held = held_partitions(tables.member_epochs, rules, as_of_ms)
        yield _Source("held", held, "from_offset", held, held)
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
        at_ms = F.unix_millis("happened_at").alias("at_ms")
        gone = lost(tables.offset_events).select(*PLACE, "kafka_offset", row_key(), at_ms)
        yield _Source("lost", gone, "kafka_offset")
    if old is not None and tables.groups is not None:
        due = expiring(old, asked.watermarks)
        yield _Source("committed", due, "kafka_offset", due)
        yield _Source("readers", readers(asked.past_records, tables.groups, old), "kafka_offset")


def _old_offsets(tables: IncidentTables, rules: Rules, as_of_ms: int) -> DataFrame | None:
    if tables.committed_offsets is None or tables.groups is None:
        return None
    return old_offsets(tables.committed_offsets, tables.generations, tables.coverage, rules, as_of_ms)


def _groups_of(parts: Sequence[DataFrame]) -> DataFrame:
    """Returns the names of the groups in all parts, each once."""
    return reduce(lambda one, other: one.union(other), [rows.select("group_id") for rows in parts]).distinct()


def _asked(tables: IncidentTables, old: DataFrame | None) -> DataFrame:
    """Returns the groups whose log some source reads itself, and the topics whose samples it reads. Who is a member,
    and in which state a replay begins, was perhaps written long ago."""
    parts = [_of_column("group_id", tables.suspects.where("false"), "group_id")]
    if (requests := tables.requests) is not None:
        parts.append(_of_column("group_id", requests.where(is_refused_commit()), "group_id"))
        parts.append(_of_column("past_of", requests.where("is_replayed"), "group_id"))
    if tables.offset_events is not None:
        parts += [_of_column(name, lost(tables.offset_events), name) for name in ("group_id", "topic")]
    if old is not None and tables.groups is not None:
        parts.append(_of_column("past_of", modern(tables.groups, old), "group_id"))
        parts.append(_of_column("topic", old, "topic"))
    return reduce(lambda one, other: one.union(other), parts).distinct()


def _of_column(asked: str, rows: DataFrame, column: str) -> DataFrame:
    """Returns the values of a column as names that are asked for."""
    value, none = F.col(column), F.lit(None).cast("string")
    return rows.select(*((value if name == asked else none).alias(name) for name in ASKED))


def _facts(source: str, rows: DataFrame, order: str) -> DataFrame:
    """Returns rows as facts of a source; instants become microseconds since the epoch."""
    columns = [
        F.unix_micros(name).alias(name) if isinstance(rows.schema[name].dataType, TimestampType) else F.col(name)
        for name in rows.columns
        if name not in ("cluster", "is_open", "order")
    ]
    file, number = (next((name for name in names if name in rows.columns), None) for names in TIES)
    return rows.select(
        F.concat(F.lit(OF_GROUP), "group_id").alias("subject"),
        F.lit(source).alias("source"),
        F.col(order).cast("long").alias("at"),
        (F.lit(None) if file is None else F.col(file)).cast("string").alias("file"),
        (F.lit(None) if number is None else F.col(number)).cast("long").alias("number"),
        F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("fact"),
    )
