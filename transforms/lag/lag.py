"""Computes rows of `lag` with Spark: turns tables into each group's events, calls `transforms.lag.rules`, and returns
the rows.

    lag_events(inputs, rounds, seeds)   all events of groups for some rounds, and their state before these
    fold_lag(events, rounds, ...)       one `LagState` for each group; one row for each of its partitions and rounds

A group's rows depend only on its own log, its topics' samples and its rows of earlier rounds
(`transforms.lag.lag_seeds`). So they are the same however rounds are divided into runs, and the same as those of a
monitor, which has the state in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.lag import LAG
from groupledger.transforms.by_group import ROWS_MAX, by_group
from groupledger.transforms.history.tenures import with_tenure
from groupledger.transforms.lag.rules.of_group import (
    COMMIT,
    GENERATION,
    MEMBER,
    OWNER,
    SAMPLE,
    STATE,
    RoundsToCompute,
    by_kind,
    group_lag,
)
from groupledger.transforms.lag.rules.row import MILLISECONDS
from groupledger.transforms.numbers import known_instant_ms, record_ms
from groupledger.transforms.troubles import judged, stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from groupledger.transforms.lag.rules import End, LagRow, LagRules
    from groupledger.transforms.troubles import Report

LAG_ROWS = LAG.without("cluster", "sample_date")
_VALUES = attrgetter(*(MILLISECONDS.get(name, name) for name in LAG_ROWS.names))


@dataclass(frozen=True)
class LagInputs:
    """Holds the rows of one cluster; `commits` is the result of `commit_log`."""

    watermarks: DataFrame
    group_states: DataFrame
    commits: DataFrame
    generations: DataFrame
    members: DataFrame
    assignments: DataFrame


def at_ms(column: str = "sampled_at") -> Any:
    return F.unix_millis(column)


def sampled_within(first_ms: int, last_ms: int) -> Callable[[Callable[[str], Any]], Any]:
    """Returns a function that builds the filter for rows of rounds between two instants, both included. This function
    takes another one, which makes a column from a name. The filter also names the date, so that files of other dates
    are skipped."""
    first, last = instant_of_ms(first_ms), instant_of_ms(last_ms)

    def is_within(column: Callable[[str], Any]) -> Any:
        date, at = column("sample_date"), column("sampled_at")
        return (date >= first.date()) & (date <= last.date()) & (at >= first) & (at <= last)

    return is_within


def read_samples(watermarks: DataFrame) -> DataFrame:
    """Returns samples of topics as events without a group; a sample to which no broker gave an end is left out."""
    rows = watermarks.where((F.col("topic") != OFFSETS_TOPIC) & F.col("high_watermark").isNotNull())
    offsets = ("log_start_offset", "high_watermark", "last_stable_offset", "leader_epoch", "topic_id", "markers_at_end")
    return rows.select(F.lit(SAMPLE).alias("kind"), "topic", "partition", at_ms().alias("at_ms"), *offsets)


def commit_events(commits: DataFrame) -> DataFrame:
    return commits.select(
        F.lit(COMMIT).alias("kind"),
        *("group_id", "topic", "partition", "kafka_partition", "kafka_offset", "topic_id", "leader_epoch"),
        F.when(~F.col("is_tombstone"), F.col("committed_offset")).alias("committed_offset"),
        F.coalesce(known_instant_ms(F.col("commit_timestamp_ms")), record_ms()).alias("at_ms"),
    )


def history_events(generations: DataFrame, members: DataFrame, assignments: DataFrame, from_offset: int) -> DataFrame:
    """Returns the intervals of the history that had not ended below the offset `from_offset`, as events. `from_offset`
    must not lie above the ends that the rounds read."""

    def intervals(rows: DataFrame, kind: int, begin: str, *columns: Any) -> DataFrame:
        found = rows.where(F.col("to_offset").isNull() | (F.col("to_offset") >= from_offset))
        return found.select(
            F.lit(kind).alias("kind"), "group_id", F.col(begin).alias("kafka_offset"), "to_offset", *columns
        )

    owned = with_tenure(assignments, members, client_host="client_host")
    owners = intervals(owned, OWNER, "from_offset", "topic", "partition", "member_id", "client_id", "client_host")
    in_force = intervals(generations, GENERATION, "kafka_offset", "kafka_partition", "is_ownership_known")
    topics = intervals(members, MEMBER, "from_offset", F.col("subscribed_topics").alias("topics"))
    return owners.unionByName(in_force, allowMissingColumns=True).unionByName(topics, allowMissingColumns=True)


def lag_events(inputs: LagInputs, rounds: RoundsToCompute, seeds: DataFrame, topic_seeds: DataFrame) -> DataFrame:
    """Returns a row for each event of a group. `seeds` are events of groups from before the rounds, and `topic_seeds`
    are events of topic partitions from before them, which name no group."""
    in_rounds = sampled_within(rounds.ends[0][0], rounds.ends[-1][0])(F.col)
    new = commit_events(inputs.commits.where(is_below_offsets(rounds.commits_to) & ~is_below(rounds.ends_before)))
    before = [end.offset for _, end in rounds.ends_before.values()]
    history = history_events(inputs.generations, inputs.members, inputs.assignments, min(before, default=0))
    states = inputs.group_states.where(in_rounds & F.col("state").isNotNull()).select(
        F.lit(STATE).alias("kind"),
        "group_id",
        at_ms().alias("at_ms"),
        "state",
        F.col("subscribed_topics").alias("topics"),
    )
    of_groups = seeds.unionByName(new, allowMissingColumns=True).unionByName(history, allowMissingColumns=True)
    places = of_groups.where(F.col("topic").isNotNull()).select("group_id", "topic", "partition").distinct()
    samples = topic_seeds.unionByName(read_samples(inputs.watermarks.where(in_rounds)), allowMissingColumns=True)
    of_topics = samples.join(places, ["topic", "partition"])
    states = states.join(places.select("group_id").distinct(), "group_id", "left_semi")
    return of_groups.unionByName(of_topics, allowMissingColumns=True).unionByName(states, allowMissingColumns=True)


def is_below(ends: Mapping[int, tuple[int, End]]) -> Any:
    """Returns the condition that a commit lies below the end that a round has read of its partition, so that a round
    has already counted it. `ends` has, by partition, the round and that end."""
    return is_below_offsets({partition: end.offset for partition, (_, end) in ends.items()})


def is_below_offsets(offsets: Mapping[int, int]) -> Any:
    """Returns the condition that a record lies below the offset of its partition; false for partitions without an
    offset."""
    by_partition = [0] * (max(offsets, default=-1) + 1)
    for partition, offset in offsets.items():
        by_partition[partition] = offset
    # One literal, however many partitions: comparisons with each of them take Spark longer to plan than to do.
    known = F.array(*[F.lit(offset).cast("long") for offset in by_partition]).cast("array<long>")
    return F.col("kafka_offset") < F.coalesce(F.get(known, F.col("kafka_partition")), F.lit(0))


def fold_lag(events: DataFrame, rounds: RoundsToCompute, rules: LagRules, report: Report = stop) -> DataFrame:
    """Returns the rows of the rounds, with the columns of `LAG_ROWS`. A group on which the rules fail is reported; its
    rows are missing from that round on."""

    def fold_group(group_id: str, of_group: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        return map(lag_row, group_lag(group_id, by_kind(of_group), rounds, rules))

    return by_group(events, ["group_id"], ["kind", "at_ms", "kafka_offset"], fold_group, LAG_ROWS, report)


def lag_row(row: LagRow) -> dict[str, Any]:
    """Returns the columns of `LAG_ROWS`; instants are microseconds since the epoch, as Arrow takes them."""
    found = dict(zip(LAG_ROWS.names, _VALUES(row), strict=True))
    for name in MILLISECONDS:
        if found[name] is not None:
            found[name] *= 1_000
    return found


def lag_table(rows: Iterable[LagRow], report: Report = stop) -> pa.Table:
    """Returns the rows of a round as a table of `LAG_ROWS`. `rows` come group by group; a group whose values Arrow
    can't hold is reported and left out."""
    groups = groupby(rows, attrgetter("group_id"))
    batches = judged(groups, lambda _, of_group: map(_VALUES, of_group), _batch_of, report, ROWS_MAX)
    return pa.Table.from_batches(batches, arrow_schema(LAG_ROWS))


def _batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Returns rows, each the values of `LAG_ROWS` in order, column by column: a dict for each row takes four times as
    long."""
    schema = arrow_schema(LAG_ROWS)
    arrays = [_array(field, values) for field, values in zip(schema, zip(*rows, strict=True), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(field: pa.Field, values: tuple[Any, ...]) -> pa.Array:
    if field.name not in MILLISECONDS:
        return pa.array(values, field.type)
    return pc.multiply_checked(pa.array(values, pa.int64()), 1_000).cast(field.type)
