"""Reads what the lag of one group is computed from, without Spark: the events of `transforms.lag.rules.of_group`.

`transforms.lag.lag` and `lag_seeds` read the same for all groups by Spark; a test compares the results of both.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from groupledger.jobs.ask.commits import commit_log
from groupledger.schemas.instants import EARLIEST_MS, LATEST_MS, instant_of_ms
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.coverage.rules.coverage_at import hidden_ends
from groupledger.transforms.coverage.rules.losses import LogLosses, thinned_stretches
from groupledger.transforms.coverage.rules.stretches import readings_of, stretch_of
from groupledger.transforms.lag.rules import End
from groupledger.transforms.lag.rules.of_group import (
    COMMIT,
    GENERATION,
    MEMBER,
    OWNER,
    POINT,
    SAMPLE,
    STATE,
    TOPIC,
    RoundsToCompute,
)
from groupledger.transforms.lag.rules.points import POINTS_PER_WINDOW
from groupledger.transforms.lag.rules.sample_times import BUCKETS_PER_AGE, WINDOW_MS
from groupledger.transforms.lag.rules.topic_window import RECENT_ENDS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer
    from groupledger.transforms.lag.rules import LagRules

END_COLUMNS = ("sampled_at", "topic", "partition", "last_stable_offset", "high_watermark")
SAMPLE_COLUMNS = (*END_COLUMNS, "log_start_offset", "leader_epoch", "topic_id", "markers_at_end")

ROUNDS = """
SELECT
    epoch_ms(sampled_at) AS at_ms,
    any_value(last_stable_offset) FILTER (is_end) AS stable,
    any_value(high_watermark) FILTER (is_end) AS high
FROM (SELECT *, topic = $offsets_topic AND partition = $kafka_partition AS is_end FROM watermarks)
GROUP BY at_ms ORDER BY at_ms
"""
END_BEFORE = """
SELECT epoch_ms(sampled_at) AS at_ms, last_stable_offset AS stable, high_watermark AS high
FROM watermarks WHERE last_stable_offset IS NOT NULL
ORDER BY sampled_at DESC LIMIT 1
"""
# Of the commits that the rounds before counted only the last ones and the last removal, with the last round that did
# not count each. An end stands before the commit at its offset: that commit was not below it.
COMMITS = """
WITH commits AS (
    SELECT
        topic, partition, kafka_partition, kafka_offset, topic_id, leader_epoch,
        CASE WHEN NOT is_tombstone THEN committed_offset END AS committed_offset,
        coalesce(
            CASE WHEN commit_timestamp_ms BETWEEN $earliest_ms AND $latest_ms THEN commit_timestamp_ms END,
            greatest(least(epoch_ms(kafka_timestamp), $latest_ms), $earliest_ms)
        ) AS at_ms,
        kafka_offset < $counted AS is_counted
    FROM commit_log
    QUALIFY NOT is_counted OR $kept >=
        row_number() OVER (PARTITION BY topic, partition, is_counted ORDER BY kafka_offset DESC)
        OR kafka_offset = max(kafka_offset) FILTER (is_tombstone OR commit_log.committed_offset IS NULL)
            OVER (PARTITION BY topic, partition, is_counted)
), ends AS (
    SELECT last_stable_offset AS kafka_offset, max(epoch_ms(sampled_at)) AS before_ms
    FROM watermarks WHERE last_stable_offset IS NOT NULL GROUP BY last_stable_offset
)
SELECT commits.*, CASE WHEN is_counted THEN before_ms END AS before_ms
FROM commits ASOF LEFT JOIN ends ON commits.kafka_offset >= ends.kafka_offset
ORDER BY kafka_offset
"""
ENDS_THEN = """
SELECT topic, partition, epoch_ms(sampled_at) AS at_ms, high_watermark
FROM samples WHERE at_ms IN (SELECT unnest($instants))
"""
TOPICS = """
SELECT
    topic, partition, topic_id, max(epoch_ms(sampled_at)) AS at_ms, max(high_watermark) AS high_watermark,
    bool_or(last_stable_offset < high_watermark) AS has_transactions
FROM samples WHERE high_watermark IS NOT NULL
GROUP BY topic, partition, topic_id
"""
# Those that a `TopicWindow` still holds, by `bucket_ms` in whole numbers: the length of the binary digits. Of a bucket
# in which the end fell also the lowest sample, which shows what a truncation of the log has made void.
SAMPLES_BEFORE = """
WITH aged AS (
    SELECT
        topic, partition, epoch_ms(sampled_at) AS at_ms, log_start_offset, high_watermark, last_stable_offset,
        leader_epoch, topic_id, markers_at_end, max(at_ms) OVER (PARTITION BY topic, partition) - at_ms AS age_ms,
        1::BIGINT << (length(bin(age_ms // $buckets_per_age)) - 1) AS width_ms,
        lag(high_watermark) OVER (PARTITION BY topic, partition ORDER BY at_ms) AS end_before
    FROM samples WHERE high_watermark IS NOT NULL
)
SELECT * EXCLUDE (age_ms, width_ms, end_before)
FROM aged WHERE age_ms <= $window_ms
WINDOW bucket AS (PARTITION BY topic, partition, width_ms, at_ms // width_ms)
QUALIFY row_number() OVER (bucket ORDER BY at_ms DESC) = 1
    OR row_number() OVER (PARTITION BY topic, partition ORDER BY at_ms DESC) <= $recent
    OR (row_number() OVER (bucket ORDER BY high_watermark, at_ms) = 1
        AND high_watermark < first_value(end_before) OVER (bucket ORDER BY at_ms))
"""
SAMPLES = """
SELECT
    topic, partition, epoch_ms(sampled_at) AS at_ms, log_start_offset, high_watermark, last_stable_offset,
    leader_epoch, topic_id, markers_at_end
FROM samples WHERE high_watermark IS NOT NULL
"""
POINTS = """
SELECT topic, partition, committed_offset, lag, kafka_offset, at_ms, since_ms
FROM (
    SELECT *, epoch_ms(sampled_at) AS at_ms, epoch_ms(no_progress_since) AS since_ms
    FROM lag WHERE committed_offset IS NOT NULL
    QUALIFY row_number()
        OVER (PARTITION BY topic, partition, at_ms // $width_ms, lag IS NULL ORDER BY at_ms DESC) = 1
)
"""
# An id that a client brings along may come back, so the owner's host is that of the tenure in which it began.
OWNERS = """
SELECT
    interval.from_offset AS kafka_offset, interval.to_offset, topic, partition, interval.member_id, interval.client_id,
    tenure.client_host
FROM assignments AS interval LEFT JOIN members AS tenure
    ON interval.incarnation = tenure.incarnation AND interval.member_id = tenure.member_id
    AND tenure.from_offset <= interval.from_offset
    AND (tenure.to_offset IS NULL OR interval.from_offset < tenure.to_offset)
WHERE interval.to_offset IS NULL OR interval.to_offset >= $position
ORDER BY kafka_offset
"""
GENERATIONS = """
SELECT kafka_offset, to_offset, kafka_partition, is_ownership_known
FROM generations WHERE to_offset IS NULL OR to_offset >= $position ORDER BY kafka_offset
"""
MEMBERS = """
SELECT from_offset AS kafka_offset, to_offset, subscribed_topics AS topics
FROM members WHERE to_offset IS NULL OR to_offset >= $position ORDER BY kafka_offset
"""
STATES = """
SELECT epoch_ms(sampled_at) AS at_ms, state, subscribed_topics AS topics FROM states WHERE state IS NOT NULL
"""


def between(first_ms: int, last_ms: int) -> list[Filter]:
    """Returns filters for the rows of the rounds between two instants, both included."""
    first, last = instant_of_ms(first_ms), instant_of_ms(last_ms)
    dates: list[Filter] = [("sample_date", ">=", first.date()), ("sample_date", "<=", last.date())]
    return [*dates, ("sampled_at", ">=", first), ("sampled_at", "<=", last)]


class GroupEvents:
    """Reads the events of one group, whose records are in one partition of `__consumer_offsets`."""

    def __init__(self, tables: ClusterRows, group_id: str, kafka_partition: int) -> None:
        self._tables = tables
        self._of_group = ("group_id", "=", group_id)
        self._kafka_partition = kafka_partition

    def rounds(self, first_ms: int, last_ms: int) -> list[tuple[int, dict[int, End]]]:
        """Returns the rounds between two instants, both included. Each has its instant in milliseconds and, by
        partition, the end of the group's partition of `__consumer_offsets` that it saw, if it saw that."""
        found = self._tables.query(
            ROUNDS,
            {"offsets_topic": OFFSETS_TOPIC, "kafka_partition": self._kafka_partition},
            watermarks=self._watermarks(first_ms, last_ms, columns=END_COLUMNS),
        )
        return [(row["at_ms"], {} if row["stable"] is None else self._end(row)) for row in found]

    def end_before(self, last_ms: int) -> dict[int, tuple[int, End]]:
        """Returns, by partition, the instant in milliseconds of the last round at or before `last_ms` that saw the end
        of the group's partition of `__consumer_offsets`, and that end. Empty if no round did."""
        found = self._tables.query(END_BEFORE, watermarks=self._ends(last_ms))
        return {partition: (row["at_ms"], end) for row in found for partition, end in self._end(row).items()}

    def losses(self) -> LogLosses:
        of_partition = ("kafka_partition", "=", self._kafka_partition)
        coverage = list(self._tables.rows_if_any("coverage", of_partition))
        readings = readings_of([stretch_of(row) for row in sorted(coverage, key=itemgetter("from_offset"))])
        return LogLosses(hidden_ends(coverage), {self._kafka_partition: thinned_stretches(readings)})

    def of(self, rounds: RoundsToCompute, last_ms: int, rules: LagRules) -> dict[int, list[Answer]]:
        """Returns, by kind, the events from which the lag in `rounds` is computed: those of these rounds, and of
        earlier ones up to `last_ms`."""
        kafka_partition, query = self._kafka_partition, self._tables.query
        position = rounds.ends_before[kafka_partition][1].offset if rounds.ends_before else 0
        events = self._history(position)
        events[COMMIT] = self._commits(rounds, position, last_ms, rules)
        events[POINT] = self._points(last_ms, rules)
        topics = {row["topic"] for kind in (COMMIT, POINT, OWNER) for row in events[kind]} - {OFFSETS_TOPIC}
        first_round_ms, last_round_ms = rounds.ends[0][0], rounds.ends[-1][0]
        if not topics:
            return events
        of_topics = ("topic", "in", sorted(topics))
        self._add_ends_then(events[COMMIT], of_topics)
        events[TOPIC] = query(TOPICS, samples=self._watermarks(0, last_ms, of_topics))
        began_ms = max(min((row["at_ms"] for row in events[TOPIC]), default=0) - WINDOW_MS, 0)
        window = {"buckets_per_age": BUCKETS_PER_AGE, "window_ms": WINDOW_MS, "recent": RECENT_ENDS_MAX}
        events[SAMPLE] = [
            *query(SAMPLES_BEFORE, window, samples=self._watermarks(began_ms, last_ms, of_topics)),
            *query(SAMPLES, samples=self._watermarks(first_round_ms, last_round_ms, of_topics)),
        ]
        in_rounds = between(first_round_ms, last_round_ms)
        columns = ("sampled_at", "state", "subscribed_topics")
        states = self._tables.scan_if_any("group_states", self._of_group, *in_rounds, columns=columns)
        events[STATE] = query(STATES, states=states)
        return events

    def _commits(self, rounds: RoundsToCompute, counted: int, last_ms: int, rules: LagRules) -> list[Answer]:
        kafka_partition = self._kafka_partition
        end = rounds.commits_to.get(kafka_partition, 0)
        places: tuple[Filter, ...] = (("kafka_partition", "=", kafka_partition), ("kafka_offset", "<", end))
        return self._tables.query(
            COMMITS,
            {
                "counted": counted,
                "kept": rules.burrow.intervals,
                "earliest_ms": EARLIEST_MS,
                "latest_ms": LATEST_MS,
            },
            commit_log=commit_log(self._tables, self._of_group, *places),
            watermarks=self._ends(last_ms),
        )

    def _add_ends_then(self, commits: Iterable[Answer], of_topics: Filter) -> None:
        """Adds to each commit the end of its partition in the last round that did not count it."""
        instants = sorted({row["before_ms"] for row in commits if row["before_ms"] is not None})
        ends = {}
        if instants:
            samples = self._watermarks(instants[0], instants[-1], of_topics, columns=END_COLUMNS)
            for row in self._tables.query(ENDS_THEN, {"instants": instants}, samples=samples):
                ends[row["topic"], row["partition"], row["at_ms"]] = row["high_watermark"]
        for row in commits:
            row["high_watermark"] = ends.get((row["topic"], row["partition"], row["before_ms"]))

    def _points(self, last_ms: int, rules: LagRules) -> list[Answer]:
        of_window = between(max(last_ms - rules.status.window_ms, 0), last_ms)
        columns = ("sampled_at", "topic", "partition", "committed_offset", "lag", "kafka_offset", "no_progress_since")
        rows = self._tables.scan_if_any("lag", self._of_group, *of_window, columns=columns)
        return self._tables.query(POINTS, {"width_ms": max(rules.status.window_ms // POINTS_PER_WINDOW, 1)}, lag=rows)

    def _history(self, position: int) -> dict[int, list[Answer]]:
        """Returns the intervals that had not ended below a position of the log."""

        def rows(table: str) -> pa.RecordBatchReader:
            return self._tables.scan_if_any(table, self._of_group)

        query, since = self._tables.query, {"position": position}
        return {
            OWNER: query(OWNERS, since, assignments=rows("assignments"), members=rows("members")),
            GENERATION: query(GENERATIONS, since, generations=rows("generations")),
            MEMBER: query(MEMBERS, since, members=rows("members")),
        }

    def _ends(self, last_ms: int) -> pa.RecordBatchReader:
        """Returns the ends of the log that the rounds up to an instant saw."""
        of_log: tuple[Filter, ...] = (("topic", "=", OFFSETS_TOPIC), ("partition", "=", self._kafka_partition))
        return self._watermarks(0, last_ms, *of_log, columns=END_COLUMNS)

    def _watermarks(
        self, first_ms: int, last_ms: int, *filters: Filter, columns: Sequence[str] = SAMPLE_COLUMNS
    ) -> pa.RecordBatchReader:
        return self._tables.scan_if_any("watermarks", *between(first_ms, last_ms), *filters, columns=columns)

    def _end(self, row: Answer) -> dict[int, End]:
        return {self._kafka_partition: End(row["stable"], is_behind=row["stable"] < row["high"])}
