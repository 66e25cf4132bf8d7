"""Holds the state of a monitor in memory: commits and ends, as `transforms.lag.rules` needs them, and facts from the
history.

All of it is a copy of rows of the tables, which each round brings up to date.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.derive.history import update_history
from groupledger.jobs.derive.lag import (
    append_lag,
    group_histories,
    log_losses,
    recover_state,
    rounds_after,
    update_lag,
    with_thinned,
)
from groupledger.jobs.derive.offset_events import update_offset_events
from groupledger.jobs.derive.troubles import look_for_anybody, note_troubles
from groupledger.jobs.ingest.samples import append_round, last_sampled_at_ms, sampled_topics
from groupledger.jobs.monitor.activity import (
    GENERATION_COLUMNS,
    MEMBER_COLUMNS,
    REBALANCE_COLUMNS,
    Activity,
    events_of,
)
from groupledger.jobs.monitor.activity_metrics import GroupActivity, PartitionSpread, holding_of
from groupledger.jobs.monitor.commits import commits_in, in_log_order
from groupledger.jobs.monitor.expiry_ahead import ExpiryAhead
from groupledger.jobs.monitor.group_info import NO_INFO, GroupInfo
from groupledger.jobs.monitor.lag_metrics import Summed, lag_metrics
from groupledger.jobs.monitor.objectives import LiveObjectives, objective_metrics
from groupledger.jobs.monitor.partition_lines import PartitionLines
from groupledger.jobs.monitor.retention_ahead import RetentionAhead
from groupledger.jobs.monitor.rules import Elections
from groupledger.jobs.monitor.timed_rows import rows_with_times
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.garbage import collector_rests
from groupledger.jobs.process.selection import chosen_rows
from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse.added_files import added_since
from groupledger.jobs.warehouse.first_fold import is_history_made
from groupledger.jobs.warehouse.tables import every_row
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalance_stats import REBALANCE_STATS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.words import StatsWindow, TroubledStep
from groupledger.transforms.lag.rules import (
    End,
    GroupHistory,
    LagRules,
    LagState,
    Rollups,
    Watermark,
    out_of_date,
    rollup,
)
from groupledger.transforms.lag.rules import Round as LagRound
from groupledger.transforms.lag.rules.resting import resting_places, standing_places
from groupledger.transforms.troubles import each_judged, reporting_to

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from prometheus_client import Metric

    from groupledger.jobs.kafka.sampling import SampledGroupState, SampledRound
    from groupledger.jobs.monitor.activity import Event
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.tables import ClusterTables, Tables
    from groupledger.transforms.lag.rules import Commit, GroupFacts, LagRow, Rollup
    from groupledger.transforms.lag.rules.resting import Resting
    from groupledger.transforms.troubles import Trouble

# With more new rows than this, and than so many for each partition of a group, it is cheaper to read the ones needed
# from the table.
ROWS_FOLLOWED_MAX = 200_000
ROWS_FOLLOWED_OF_PARTITION = 5
# So many rounds may wait in memory for the writer, which is slow while Spark is cold or the history is at work.
ROUNDS_WAITING_MAX = 3
# After every record: gives the rows that have not ended.
NOW = 2**63 - 1


class MonitorState:
    def __init__(self, ledger: Ledger) -> None:
        self.is_recovered = threading.Event()
        self._ledger = ledger
        self._rules = rules_from(LagRules, ledger.settings.lag)
        self._lag = LagState(self._rules, self._report)
        self._troubles: dict[str, Trouble] = {}  # since the round before
        self._unread: dict[str, Trouble] = {}  # of the groups whose history can't be read
        self._histories: dict[str, GroupHistory] = {}
        self._infos: dict[str, GroupInfo] = {}
        self._activity = Activity(now_ms())
        self._commits: Counter[str] = Counter()
        self._holdings: dict[str, PartitionSpread] = {}
        self._elections = Elections()
        self._retention = RetentionAhead()
        self.expiry = ExpiryAhead()
        self._objectives = LiveObjectives(ledger.settings)
        self._topics: set[str] | None = None
        self._version = 0
        self.rows: list[LagRow] = []  # of the last round
        self.sampled_at_ms: int | None = None  # of the last round
        self.unwritten = 0  # rounds that were left out of the tables
        self._shown: Sequence[LagRow] = ()  # those of them that metrics are about
        self._states: tuple[SampledGroupState, ...] = ()
        self._sums, self._lines = Rollups(), PartitionLines()
        self._at_rest: Mapping[str, object] = {}  # groups whose rows are as in the round before, except for the time
        self.rollups: list[Rollup] = []  # of the last round, limited to the part that is shown
        self._writer = ThreadPoolExecutor(1, "writer")
        self._writing: deque[Future[None]] = deque()

    # From the tables

    def start(self, stop: threading.Event) -> None:
        """Computes the lag of rounds that were sampled but not computed, after the history, so that they have the
        owners of their time. Then reads the tables into memory, and sets `is_recovered`."""
        if rounds_after(self._ledger, last_sampled_at_ms(self._ledger, LAG)):
            update_history(self._ledger, stop)
            update_lag(self._ledger, stop)
        self._read_history()
        self.recover()
        self._restore_objectives()
        self.is_recovered.set()

    def recover(self) -> None:
        """Reads the commits from the tables, after all queued rounds were written; so every round in the tables has its
        lag."""
        self.await_written()
        ledger = self._ledger
        # Before the table is read: commits that come twice are passed over, and none must be left out.
        self._version = ledger.version(COORDINATOR_RECORDS)
        with collector_rests():
            self._lag = recover_state(ledger, self._rules, self._report)
        self._topics = sampled_topics(ledger)

    def _restore_objectives(self) -> None:
        ledger = self._ledger
        last_ms = last_sampled_at_ms(ledger, LAG)
        if ledger.settings.objectives and last_ms:
            tables = ClusterRows(ledger.warehouse, ledger.cluster)
            self._objectives.restore(tables, {*self._infos, *self._lag.groups}, last_ms)

    def update_history(self, stop: threading.Event) -> None:
        update_history(self._ledger, stop)
        if stop.is_set():
            return
        self._ledger.give_way()
        self._read_history()
        # Only now all tables have the columns of this release.
        self._activity = self._activity.after(events_since(self._ledger, self._activity.from_ms))
        update_offset_events(self._ledger)
        self.expiry.read(self._ledger, self._lag.losses.hidden_ends)

    def _read_history(self) -> None:
        if not is_history_made(self._ledger.storage, self._ledger.cluster):
            return  # the tables have owners of the past, as if they were those of now
        unread: dict[str, Trouble] = {}
        with collector_rests():
            self._histories = group_histories(self._ledger, reporting_to(unread))
        self._unread = unread
        self._infos = group_infos(self._ledger)
        self._lag.losses = log_losses(self._ledger)

    def read_commits(self) -> None:
        """Reads the commits that the ingest has added to `coordinator_records` since the last call."""
        files = added_since(self._ledger, COORDINATOR_RECORDS, self._version)
        self._lag.losses = with_thinned(self._ledger, self._lag.losses)
        partitions = sum(map(len, self._lag.groups.values()))
        if files.row_count > max(ROWS_FOLLOWED_MAX, ROWS_FOLLOWED_OF_PARTITION * partitions):
            commits = commits_in(self._ledger, files).where(~F.col("is_tombstone"))
            self._commits.update(dict(commits.groupBy("group_id").count().collect()))
            self.recover()
            return
        if files.paths:
            self.take(in_log_order(commits_in(self._ledger, files)))
        self._version = files.version

    def take(self, commits: Iterable[tuple[str, str, int, Commit]]) -> None:
        """Takes commits of (group, topic, partition), in the order of each partition of the log."""
        for group_id, topic, partition, commit in commits:
            self._lag.commit(group_id, topic, partition, commit)
            self._commits[group_id] += commit.committed_offset is not None

    # A round

    def topics(self) -> set[str] | None:
        """Returns the topics to sample: those with commits, and those that groups subscribe to. None means all topics,
        as long as no such topic is known."""
        return self._topics

    def resting(self) -> dict[TopicPartition, Resting]:
        """Returns the partitions where, in the last round, a group had committed all but a few offsets, which may be
        transaction markers alone."""
        return resting_places(self.rows)

    def standing(self) -> dict[TopicPartition, int]:
        """Returns, for each partition where a group had the same committed offset in the last two rounds, the highest
        such offset."""
        return standing_places(self.rows)

    def compute(self, sampled: SampledRound, passed: Collection[int]) -> None:
        """Computes the lag of a round. `passed` are the partitions of `__consumer_offsets` that the ingest has read up
        to the round's ends."""
        self.sampled_at_ms = sampled.sampled_at_ms
        of_sample = {row.group_id: row for row in sampled.group_states}
        others = ((name, of) for name, of in self._histories.items() if name not in of_sample)
        facts = each_judged(of_sample.items(), self._facts, self._report)
        facts |= each_judged(others, lambda history: history.facts_at(NOW, None), self._report)
        rows = list(self._lag.round(lag_round(sampled, passed), facts))
        self.rows = [row for row in rows if row.group_id not in self._troubles]
        holdings = each_judged(facts.items(), lambda of: holding_of(of.owners.values()), self._report)
        self._holdings = {name: holding for name, holding in holdings.items() if holding is not None}
        self._elections.look(
            (row.partition, row.leader_epoch) for row in sampled.watermarks if row.topic == OFFSETS_TOPIC
        )
        self._states = sampled.group_states
        self._objectives.observe(sampled.sampled_at_ms, self.rows)
        self._retention.look(self.rows)
        self._shown = chosen_rows(self._ledger.settings.selection, self.rows)
        self._at_rest = {**self._lag.at_rest}
        self.rollups = self._sums.of(self._shown, self._at_rest)
        subscribed = {topic for row in sampled.group_states for topic in row.subscribed_topics or ()}
        committed = {topic for places in self._lag.groups.values() for topic, _ in places}
        self._topics = (subscribed | committed) - {OFFSETS_TOPIC} or None

    def forget_old(self, before_ms: int, states: Mapping[str, str | None]) -> None:
        """Makes the lag that is shown unknown if its round was before `before_ms`. `states` are the present states of
        the groups."""
        if self.sampled_at_ms is None or self.sampled_at_ms >= before_ms:
            return
        self._objectives.close_before(before_ms)
        self._shown = [out_of_date(row, states.get(row.group_id)) for row in self._shown]
        self._at_rest = {}
        self.rollups = rollup(self._shown)

    def _facts(self, sampled: SampledGroupState) -> GroupFacts:
        history = self._histories.get(sampled.group_id) or GroupHistory()
        return history.facts_at(NOW, sampled.state, frozenset(sampled.subscribed_topics or ()) or None)

    def metrics(self, round_s: float) -> Iterator[Metric]:
        """Yields the metrics of the last round, which took `round_s` seconds."""
        infos = {**self._infos}
        for row in self._states:
            known = infos.get(row.group_id, NO_INFO)
            infos[row.group_id] = replace(
                known,  # of the history, which is older than the sample
                generation=known.generation if row.group_epoch is None else row.group_epoch,
                member_count=known.member_count if row.member_count is None else row.member_count,
            )
        settings, cluster = self._ledger.settings.metrics, self._ledger.cluster
        losses = self._retention.seconds(self._shown, self._lag.groups)
        with_members = {row.group_id for row in self._states if row.member_count}
        expire = self.expiry.seconds(self.sampled_at_ms or now_ms(), with_members)
        activity = GroupActivity(self._activity, self._commits, self._elections.moves, self._holdings, losses, expire)
        found, round_ms = Summed(self._shown, self.rollups, self._at_rest), round(round_s * 1000)
        yield from lag_metrics(cluster, found, infos, settings, round_ms, activity, self._lines)
        yield from objective_metrics(cluster, [*self._objectives.standings()])

    def append(self, sampled: SampledRound) -> bool:
        """Queues the last round for the writer, after earlier rounds. If too many wait, leaves it out of the tables.
        Returns whether it is queued."""
        self.await_written(ROUNDS_WAITING_MAX)
        troubles, self._troubles = self._troubles, {}
        is_queued = len(self._writing) < ROUNDS_WAITING_MAX
        if is_queued:
            self._writing.append(self._writer.submit(self._append, sampled, self.rows, self._unread | troubles))
        else:
            self.unwritten += 1
        return is_queued

    @property
    def waiting(self) -> int:
        """Returns how many rounds wait to be written."""
        return sum(not future.done() for future in self._writing)

    def await_written(self, waiting_max: int = 0) -> None:
        """Waits until no more than `waiting_max` rounds are queued. Raises the writer's error."""
        while self._writing and (len(self._writing) > waiting_max or self._writing[0].done()):
            self._writing.popleft().result()

    def close(self) -> None:
        self._writer.shutdown()

    def _report(self, group_id: str, error: Exception) -> None:
        reporting_to(self._troubles)(group_id, error)

    def _append(self, sampled: SampledRound, rows: list[LagRow], troubles: dict[str, Trouble]) -> None:
        """Writes a round: `group_states`, then `watermarks`, then `lag`. One that has only the first two is computed at
        the next start."""
        append_round(self._ledger, sampled)
        append_lag(self._ledger, sampled.sampled_at_ms, rows, reporting_to(troubles))
        note_troubles(self._ledger, TroubledStep.LAG, troubles)
        if troubles or TroubledStep.LAG in self._ledger.judged_nobody:
            look_for_anybody(self._ledger, TroubledStep.LAG, lambda: {row.group_id for row in rows})


def lag_round(sampled: SampledRound, passed: Collection[int]) -> LagRound:
    ends: dict[int, End] = {}
    watermarks: dict[TopicPartition, Watermark] = {}
    for row in sampled.watermarks:
        offsets = row.offsets
        if offsets is None:
            continue
        _, high_watermark, last_stable_offset = offsets
        if row.topic != OFFSETS_TOPIC:
            identity = (row.leader_epoch, row.topic_id, row.markers_at_end)
            watermark = Watermark(sampled.sampled_at_ms, *offsets, *identity)
            watermarks[TopicPartition(row.topic, row.partition)] = watermark
        elif row.partition in passed:
            ends[row.partition] = End(last_stable_offset, is_behind=last_stable_offset < high_watermark)
    return LagRound(sampled.sampled_at_ms, ends, watermarks)


def group_infos(tables: Tables) -> dict[str, GroupInfo]:
    """Returns the facts of each group from the history. A group without members is idle since its empty generation
    began, or, if it never had members, since its last commit."""
    days = tables.rows_within(REBALANCE_STATS, lambda column: column("window") == StatsWindow.DAY)
    of_days = days.groupBy("group_id")
    generations = tables.rows_within(GENERATIONS, lambda column: column("is_current") & (column("member_count") == 0))
    empty = generations.groupBy("group_id").agg(F.max("started_at").alias("empty_since"))
    found = (
        tables.rows_within(GROUPS, every_row)
        .join(of_days.agg(*[F.sum(name).alias(name) for name in ("rebalances", "storms")]), "group_id", "left")
        .join(empty, "group_id", "left")
        .select(
            *("group_id", "generation", "member_count", "kafka_partition"),
            *[F.coalesce(name, F.lit(0)).alias(name) for name in ("rebalances", "storms")],
            F.unix_millis(F.coalesce("empty_since", F.when(F.col("is_simple"), F.col("last_commit_at")))).alias("idle"),
        )
    )
    return {
        row.group_id: GroupInfo(
            row.rebalances, row.generation, row.member_count, row.idle, row.storms, row.kafka_partition
        )
        for row in found.collect()
    }


def events_since(tables: ClusterTables, from_ms: int) -> Iterator[Event]:
    """Yields the events in groups since `from_ms`, as far as the history has written them. The tables' statistics
    decide which files to open, so the cost depends on new rows only."""
    since = pa.scalar(from_ms * 1_000, pa.timestamp("us", "UTC"))
    is_open = pc.field("is_open") == 1
    ended_or_began = {
        MEMBERS: (pc.field("left_at") >= since) | (is_open & (pc.field("joined_at") >= since)),
        GENERATIONS: (pc.field("ended_at") >= since) | (is_open & (pc.field("converged_at") >= since)),
    }
    return events_of(
        rows_with_times(tables, REBALANCES, pc.field("happened_at") >= since, REBALANCE_COLUMNS),
        rows_with_times(tables, MEMBERS, ended_or_began[MEMBERS], MEMBER_COLUMNS),
        rows_with_times(tables, GENERATIONS, ended_or_began[GENERATIONS], GENERATION_COLUMNS),
    )
