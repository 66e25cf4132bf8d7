"""`lag`: the bridge from `transforms.lag.rules` to Spark: tables to what each group is told, and its rows back.

    lag_events(inputs, rounds, seeds)   all that a group needs for some rounds, and the state it goes on from
    fold_lag(events, rounds, ...)       one `LagState` for each group; one row for each of its partitions and rounds

A group's rows depend on its own log, its topics' samples and its rows of the rounds before
(`transforms.lag.lag_seeds`), and so are the same however rounds are cut into runs, and those that a monitor gives,
which keeps the state in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.tables.lag import LAG
from groupledger.transforms.by_group import batch_of, by_group
from groupledger.transforms.history.tenures import with_tenure
from groupledger.transforms.lag.rules import (
    Commit,
    End,
    FormerTopic,
    GroupHistory,
    Interval,
    LagRow,
    LagState,
    Owner,
    Round,
    TopicWindow,
    Watermark,
)
from groupledger.transforms.lag.rules.row import MILLISECONDS
from groupledger.transforms.lag.rules.status import Point

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from groupledger.transforms.lag.rules import LagRules

LAG_ROWS = LAG.without("cluster", "sample_date")
_VALUES = attrgetter(*(MILLISECONDS.get(name, name) for name in LAG_ROWS.names))

# The kinds of event, in the order in which a group's state is made up.
TOPIC, SAMPLE, COMMIT, POINT, OWNER, GENERATION, MEMBER, STATE = range(8)


@dataclass(frozen=True)
class LagInputs:
    """Holds the rows of one cluster; `commits` is a `commit_log`."""

    watermarks: DataFrame
    group_states: DataFrame
    commits: DataFrame
    generations: DataFrame
    members: DataFrame
    assignments: DataFrame


@dataclass(frozen=True, slots=True)
class RoundsToCompute:
    """Says what to compute: the rounds in order, with the ends that each read, and by partition the last round before
    them, with the end that it read."""

    ends: Sequence[tuple[int, Mapping[int, End]]]
    ends_before: Mapping[int, tuple[int, End]]

    @property
    def ends_after(self) -> dict[int, tuple[int, End]]:
        """Returns by partition the last round and its end when these rounds are over."""
        found = dict(self.ends_before)
        for sampled_at_ms, ends in self.ends:
            found.update({partition: (sampled_at_ms, end) for partition, end in ends.items()})
        return found


def at_ms(column: str = "sampled_at") -> Any:
    return F.unix_millis(column)


def read_samples(watermarks: DataFrame) -> DataFrame:
    """Returns samples of topics as events without a group; a sample that no broker answered is left out."""
    rows = watermarks.where((F.col("topic") != OFFSETS_TOPIC) & F.col("high_watermark").isNotNull())
    offsets = ("log_start_offset", "high_watermark", "last_stable_offset", "leader_epoch", "topic_id")
    return rows.select(F.lit(SAMPLE).alias("kind"), "topic", "partition", at_ms().alias("at_ms"), *offsets)


def commit_events(commits: DataFrame) -> DataFrame:
    return commits.select(
        F.lit(COMMIT).alias("kind"),
        *("group_id", "topic", "partition", "kafka_partition", "kafka_offset", "topic_id", "leader_epoch"),
        F.when(~F.col("is_tombstone"), F.col("committed_offset")).alias("committed_offset"),
        F.coalesce("commit_timestamp_ms", at_ms("kafka_timestamp")).alias("at_ms"),
    )


def history_events(inputs: LagInputs, from_offset: int) -> DataFrame:
    """Returns intervals that had not ended below an offset, which itself lies below all rounds."""

    def intervals(rows: DataFrame, kind: int, begin: str, *columns: Any) -> DataFrame:
        found = rows.where(F.col("to_offset").isNull() | (F.col("to_offset") >= from_offset))
        return found.select(
            F.lit(kind).alias("kind"), "group_id", F.col(begin).alias("kafka_offset"), "to_offset", *columns
        )

    owned = with_tenure(inputs.assignments, inputs.members, client_host="client_host")
    owners = intervals(owned, OWNER, "from_offset", "topic", "partition", "member_id", "client_id", "client_host")
    generations = intervals(inputs.generations, GENERATION, "kafka_offset", "kafka_partition", "is_ownership_known")
    members = intervals(inputs.members, MEMBER, "from_offset", F.col("subscribed_topics").alias("topics"))
    return owners.unionByName(generations, allowMissingColumns=True).unionByName(members, allowMissingColumns=True)


def lag_events(inputs: LagInputs, rounds: RoundsToCompute, seeds: DataFrame, topic_seeds: DataFrame) -> DataFrame:
    """Returns a row for each event of a group. `seeds` are events of groups, `topic_seeds` of topic partitions without
    a group; both come from before the rounds."""
    first_ms, last_ms = rounds.ends[0][0], rounds.ends[-1][0]
    in_rounds = F.col("sampled_at").between(F.timestamp_millis(F.lit(first_ms)), F.timestamp_millis(F.lit(last_ms)))
    new = commit_events(inputs.commits.where(is_below(rounds.ends_after) & ~is_below(rounds.ends_before)))
    before = [end.offset for _, end in rounds.ends_before.values()]
    history = history_events(inputs, min(before, default=0))
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
    """Returns whether a round has counted a commit."""
    by_partition = [0] * (max(ends, default=-1) + 1)
    for partition, (_, end) in ends.items():
        by_partition[partition] = end.offset
    # One literal, however many partitions: comparisons with each of them take Spark longer to plan than to do.
    known = F.array(*[F.lit(offset).cast("long") for offset in by_partition]).cast("array<long>")
    return F.col("kafka_offset") < F.coalesce(F.get(known, F.col("kafka_partition")), F.lit(0))


def fold_lag(events: DataFrame, rounds: RoundsToCompute, rules: LagRules, *, emit_from_ms: int = 0) -> DataFrame:
    """Returns `LAG_ROWS` of the rounds from an instant on."""

    def fold_group(group_id: str, of_group: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        found = group_lag(group_id, of_group, rounds, rules)
        return (lag_row(row) for row in found if row.sampled_at_ms >= emit_from_ms)

    return by_group(events, ["group_id"], ["kind", "at_ms", "kafka_offset"], fold_group, LAG_ROWS)


def lag_row(row: LagRow) -> dict[str, Any]:
    """Returns the columns of `LAG_ROWS`; instants are microseconds since the epoch, as Arrow takes them."""
    found = dict(zip(LAG_ROWS.names, _VALUES(row), strict=True))
    for name in MILLISECONDS:
        if found[name] is not None:
            found[name] *= 1_000
    return found


def lag_batch(rows: Iterable[LagRow]) -> pa.RecordBatch:
    return batch_of([lag_row(row) for row in rows], to_arrow_schema(LAG_ROWS))


# One group


def group_lag(
    group_id: str, events: Iterable[dict[str, Any]], rounds: RoundsToCompute, rules: LagRules
) -> Iterator[LagRow]:
    """Yields the rows of the rounds, in order; events come in the order of their kinds."""
    state = LagState(rules)
    kinds = by_kind(events)
    first_ms = rounds.ends[0][0]
    samples = kinds.get(SAMPLE, [])
    restore_topics(state, kinds.get(TOPIC, []), [row for row in samples if row["at_ms"] < first_ms])
    restore_group(state, group_id, kinds.get(COMMIT, []), kinds.get(POINT, []), rounds)
    history = group_history(kinds)
    states = {row["at_ms"]: row for row in kinds.get(STATE, [])}
    watermarks: dict[int, dict[TopicPartition, Watermark]] = {}
    for row in samples:
        watermarks.setdefault(row["at_ms"], {})[TopicPartition(row["topic"], row["partition"])] = watermark(row)
    kafka_partition = _kafka_partition(kinds)
    position = rounds.ends_before[kafka_partition][1].offset if kafka_partition in rounds.ends_before else 0
    for sampled_at_ms, ends in rounds.ends:
        if kafka_partition in ends:
            position = ends[kafka_partition].offset
        told = states.get(sampled_at_ms)
        subscription = frozenset(told["topics"]) if told and told["topics"] else None
        facts = history.facts_at(position, told["state"] if told else None, subscription)
        of_group = {kafka_partition: ends[kafka_partition]} if kafka_partition in ends else {}
        read = Round(sampled_at_ms, of_group, watermarks.get(sampled_at_ms, {}))
        yield from state.round(read, {group_id: facts})


def by_kind(events: Iterable[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Returns events by kind; they come in the order of their kinds."""
    return {kind: list(of_kind) for kind, of_kind in groupby(events, itemgetter("kind"))}


def _kafka_partition(kinds: Mapping[int, Sequence[Mapping[str, Any]]]) -> int:
    """Returns the partition of `__consumer_offsets` that holds the group, -1 if no event tells it."""
    rows = (*kinds.get(COMMIT, ()), *kinds.get(GENERATION, ()))
    return next((row["kafka_partition"] for row in rows), -1)


def restore_topics(state: LagState, topics: Iterable[Mapping[str, Any]], samples: Iterable[Mapping[str, Any]]) -> None:
    """Puts samples into the state's topics. `topics` are all topic ids that a partition ever had, each with the time of
    its last sample and its highest end."""
    ids: dict[TopicPartition, list[Mapping[str, Any]]] = {}
    for row in topics:
        ids.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row)
    current = {}
    for place, rows in ids.items():
        # Brokers before Kafka 2.8 tell no ids.
        told = [row for row in rows if row["topic_id"] is not None] or rows
        *formers, now = sorted(told, key=itemgetter("at_ms"))
        current[place] = now["topic_id"]
        former = None
        if formers:
            last = formers[-1]
            former = FormerTopic(last["topic_id"], last["at_ms"], last["high_watermark"])
        state.topics[place] = TopicWindow(former, now["high_watermark"], has_transactions=bool(now["has_transactions"]))
    for row in sorted(samples, key=itemgetter("at_ms")):
        place = TopicPartition(row["topic"], row["partition"])
        if row["topic_id"] in (None, current.get(place)):
            state.topic(place).add(watermark(row))


def restore_group(
    state: LagState,
    group_id: str,
    commits: Iterable[Mapping[str, Any]],
    points: Iterable[Mapping[str, Any]],
    rounds: RoundsToCompute,
) -> None:
    """Puts commits that earlier rounds counted, and what those found, into the state; other commits wait."""
    for partition, (sampled_at_ms, end) in rounds.ends_before.items():
        state.restore_ends(sampled_at_ms, {partition: end})
    for row in sorted(commits, key=itemgetter("kafka_offset")):
        place, commit = TopicPartition(row["topic"], row["partition"]), commit_of(row)
        before = rounds.ends_before.get(commit.kafka_partition)
        if before is None or commit.kafka_offset >= before[1].offset:
            state.commit(group_id, *place, commit)
        else:
            state.restore_commit(group_id, place, commit)
    found: dict[TopicPartition, list[Mapping[str, Any]]] = {}
    for row in sorted(points, key=itemgetter("at_ms")):
        found.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row)
    for place, rows in found.items():
        window = state.groups.get(group_id, {}).get(place)
        if window is not None:
            window.restore(
                [
                    Point(row["at_ms"], row["committed_offset"], row["lag"])
                    for row in rows
                    if row["lag"] is not None and row["kafka_offset"] > window.removed_at
                ],
                rows[-1]["since_ms"],
            )
    state.drop_removed()


def group_history(kinds: Mapping[int, Iterable[Mapping[str, Any]]]) -> GroupHistory:
    def interval(row: Mapping[str, Any]) -> Interval:
        return Interval(row["kafka_offset"], row["to_offset"])

    return GroupHistory(
        generations=[(interval(row), row["is_ownership_known"]) for row in kinds.get(GENERATION, ())],
        owners=[
            (
                interval(row),
                TopicPartition(row["topic"], row["partition"]),
                Owner(True, row["member_id"], row["client_id"], row["client_host"]),
            )
            for row in kinds.get(OWNER, ())
        ],
        members=[
            (interval(row), None if row["topics"] is None else frozenset(row["topics"]))
            for row in kinds.get(MEMBER, ())
        ],
    )


def watermark(row: Mapping[str, Any]) -> Watermark:
    return Watermark(
        row["at_ms"],
        row["log_start_offset"],
        row["high_watermark"],
        row["last_stable_offset"],
        row["leader_epoch"],
        row["topic_id"],
    )


def commit_of(row: Mapping[str, Any]) -> Commit:
    return Commit(
        row["committed_offset"],
        row["at_ms"],
        row["kafka_partition"],
        row["kafka_offset"],
        row["topic_id"],
        row["leader_epoch"],
        row["high_watermark"],
    )
