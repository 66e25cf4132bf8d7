"""Implements `groupledger monitor` for a cluster: computes the present lag at every interval, serves it as metrics and
writes it into the tables. `jobs.monitor.clusters` runs it for one or several clusters.

These run at the same time, each in a thread of its own:

    ingest    the stream of `ingest --continuous`, with the same checkpoint
    rounds    at each interval: read the ends of `__consumer_offsets`, sample the brokers, wait until the ingest has
              passed these ends, take the commits of the new versions of `coordinator_records`, compute lag, publish it;
              a round that the ingest has not passed by the next one waits further (`jobs.monitor.pending`)
    writer    each round into the tables, in their order, while the next one is sampled
    history   first the tables are read into memory; then `update_history` on a slower trigger, whose results are used
              by the rounds after it; between two of its writes it waits until no round is running, an interval at
              most; after it, when they are due, incidents and the maintenance of the tables (`jobs.monitor.upkeep`)
    logs      the brokers' logs that the settings name, as `import-logs --continuous`, under the lease on their tables
    notify    sends incidents to receivers

Rules.

- Metrics come from memory and are published before anything is written, so that no table is in their way. Writing may
  be a few rounds late; if too many rounds wait, further ones are published but left out of the tables.
- Lag is published only from commits and ends of one round. While the ingest is late, the newest round that it has
  passed is shown, and metrics give its age. Lag that is older than `monitor.lag_age_max_s` is unknown.
- If there is too much work, it is dropped in this order, so that ingest and lag are delayed last: upkeep and incidents,
  history, rounds in tables.
- No lag is served before the first round is complete: an ingest that is still reading last year's commits would show
  last year's lag.
- Memory is only a copy. It is read back from the tables at the start, rounds that were sampled and not computed are
  computed, and each table takes each round once. So a monitor that is killed loses no row of the tables and repeats
  none.
- A broker that is away costs rounds, not the monitor. Any other failure ends it, with one sentence and an exit code, so
  that its supervisor restarts it.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from groupledger.jobs.ingest.import_logs import LogSources, import_logs
from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
from groupledger.jobs.ingest.samples import SAMPLE_TABLES, check_sampled_cluster, last_round_ms, next_round_ms
from groupledger.jobs.ingest.stream import TABLES as INGEST_TABLES
from groupledger.jobs.ingest.stream import Totals
from groupledger.jobs.kafka.aborted import AbortedRecords
from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.markers import Markers
from groupledger.jobs.kafka.sampling import ends_of, sample_ends, take_round
from groupledger.jobs.monitor.commits import ingest_positions, unread_offsets
from groupledger.jobs.monitor.expiry_ahead import known_retention_s
from groupledger.jobs.monitor.own_metrics import (
    BEHIND,
    MonitorReport,
    behind_metrics,
    incident_metrics,
    ingest_metrics,
    monitor_metrics,
    source_metrics,
    step_metrics,
)
from groupledger.jobs.monitor.own_processes import OwnProcesses
from groupledger.jobs.monitor.pending import PendingRounds
from groupledger.jobs.monitor.rules import (
    INGEST_ENDED,
    ROUNDS_IN_TIME,
    FirstRead,
    Shedding,
    Stalls,
    Vitals,
    WorkPace,
    await_none_missing,
    behind_ms,
    clock_is_behind,
    lag_age_max_ms,
    troubles,
    wait_s,
)
from groupledger.jobs.monitor.state import MonitorState
from groupledger.jobs.monitor.upkeep import MaintenanceTurns, Upkeep
from groupledger.jobs.notify.notify import Notifier
from groupledger.jobs.process.clock import now_ms, uptime_ms
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.garbage import collector_rests
from groupledger.jobs.process.worker import Worker, working
from groupledger.jobs.warehouse.lease import Lease, logs_of
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.words import Source
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client import Metric
    from pyspark.sql import SparkSession

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.kafka.sampling import SampledRound, SampledWatermark
    from groupledger.jobs.monitor.exposition import Exposition
    from groupledger.jobs.monitor.lag_screen import LagScreen
    from groupledger.jobs.process.settings import MonitorSettings
    from groupledger.jobs.warehouse.ledger import Ledger

CATCH_UP_POLL_S = 0.5
HISTORY = "history"
WAIT_SHARE = 0.9  # of the time until the next round; the rest is for computing
# How often history and upkeep run while the ingest is late.
HISTORY_SHED_S, UPKEEP_SHED_S = 300, 1_800
HISTORY_REST = 1 / 3  # so that the rounds have the cores to themselves for a quarter of the time at least


class Common:
    """Resources that the monitors of all clusters of a process share."""

    def __init__(
        self,
        spark: SparkSession,
        warehouse: str,
        interval_s: int,
        screen: LagScreen,
        exposition: Exposition,
        settings: MonitorSettings,
        stop: threading.Event,
    ) -> None:
        self.stop = stop
        self.spark = spark
        self.warehouse = warehouse
        self.interval_s = interval_s
        self.screen = screen
        self.exposition = exposition
        self.processes = OwnProcesses(spark)
        self.maintenance = MaintenanceTurns(settings)


def watch_cluster(
    ledger: Ledger, bootstrap_servers: str, common: Common, stop: threading.Event, begun: Callable[[RoundLoop], None]
) -> None:
    """Watches a cluster until `stop` is set. Calls `begun` with the loop of its rounds as soon as the ingest runs.
    Raises the errors of the ingest, the history or the rounds, after setting `stop`."""
    settings = ledger.settings
    ingest = settings.ingest.model_copy(update={"trigger_interval_s": common.interval_s})
    followed = KafkaIngest(settings.model_copy(update={"ingest": ingest}), bootstrap_servers, is_continuous=True)
    with connect(bootstrap_servers, settings) as brokers:
        ledger.create(*INGEST_TABLES, *SAMPLE_TABLES, LAG)
        ingesting = Worker("ingest", lambda: ingest_kafka(ledger, followed, stop, rounds.ingested))
        rounds = RoundLoop(ledger, brokers, bootstrap_servers, common, ingesting, stop)
        rounds.state.expiry.retention_s = known_retention_s(ledger, bootstrap_servers)
        context, tag = ledger.spark.sparkContext, history_of(ledger.cluster)

        def cancel_history() -> None:
            if common.stop.is_set():
                context.setLogLevel("FATAL")  # a query that is cancelled on purpose is not an error
            context.cancelJobsWithTag(tag)

        with ExitStack() as stack:
            hold(ledger.lease, common, stack)
            beside = beside_the_rounds(rounds, stop, stack)
            history = Worker(HISTORY, lambda: follow_history(rounds, stop), cancel_history)
            stack.enter_context(closing(rounds.state))
            stack.enter_context(working(stop, ingesting))
            begun(rounds)
            rounds.catch_up()
            for worker in (history, *beside):
                stack.enter_context(working(stop, worker))
            rounds.go_on((history, *beside))


def hold(lease: Lease, common: Common, stack: ExitStack) -> None:
    """Lets the maintenance of the tables use a lease, too, until `stack` is closed."""
    common.maintenance.held.append(lease)
    stack.callback(common.maintenance.held.remove, lease)


def history_of(cluster: str) -> str:
    """Returns the tag of the Spark jobs of a cluster's history, by which they are cancelled."""
    return f"{HISTORY} of {cluster}"


def follow_history(rounds: RoundLoop, stop: threading.Event) -> None:
    ledger, state = rounds.ledger, rounds.state
    context = ledger.spark.sparkContext
    context.addJobTag(history_of(ledger.cluster))
    state.start(stop)
    # Spark's jobs of this thread share the cores with those of the rounds, and don't block them in the queue.
    context.setLocalProperty("spark.scheduler.pool", HISTORY)
    pace = WorkPace(ledger.settings.monitor.history_interval_s, HISTORY_REST)
    while not stop.is_set():
        while not rounds.has_time(rounds.history_shedding) and not stop.wait(CATCH_UP_POLL_S):
            pass
        began_s = time.monotonic()
        rounds.upkeep.timed(HISTORY, lambda: state.update_history(stop))
        if rounds.has_time(rounds.upkeep_shedding):
            rounds.upkeep.work(stop)
        rounds.upkeep.look_at_sources()
        pace.done(began_s, time.monotonic())
        stop.wait(pace.until_due_s(time.monotonic()))


def beside_the_rounds(rounds: RoundLoop, stop: threading.Event, stack: ExitStack) -> list[Worker]:
    """Returns the workers that the settings ask for beside the rounds, and takes the leases that they need."""
    workers = []
    ledger = rounds.ledger
    logs = ledger.settings.logs
    if logs.request_logs or logs.server_logs:
        name, duration_s = logs_of(ledger.cluster), ledger.settings.lease.duration_s
        lease = stack.enter_context(Lease(ledger.storage, name, "groupledger monitor", duration_s))
        hold(lease, rounds.common, stack)
        importing = ledger.under(lease)

        sources = LogSources(logs.request_logs, logs.server_logs)
        workers.append(Worker("logs", lambda: import_logs(importing, logs, sources, stop, is_continuous=True)))
    if rounds.notifier.has_receivers:
        workers.append(Worker("notify", rounds.notifier.follow))
    return workers


def looked_for(until_ms: int | None) -> str:
    """Returns a text that says until when incidents were looked for. It distinguishes "none found" from "not looked for
    yet"."""
    return "incidents not looked for yet" if until_ms is None else f"incidents until {iso(instant_of_ms(until_ms))}"


class RoundLoop:
    """Computes the rounds of a cluster, one after the other, and publishes the result of the last."""

    def __init__(
        self,
        ledger: Ledger,
        brokers: Brokers,
        bootstrap_servers: str,
        common: Common,
        ingesting: Worker,
        stop: threading.Event,
    ) -> None:
        self.common = common
        self.ledger = replace(ledger, give_way=self.wait_for_gap)
        self.state = MonitorState(self.ledger)
        self.upkeep = Upkeep(self.ledger, common.maintenance)
        self.notifier = Notifier(self.ledger, stop)
        self._brokers = brokers
        self._bootstrap_servers = bootstrap_servers
        self._interval_s = common.interval_s
        self._ingesting = ingesting
        self.ingested = Totals()
        self._stop = stop
        self._is_between_rounds = threading.Event()
        self._is_between_rounds.set()
        self._lag_age_max_ms = lag_age_max_ms(ledger.settings.monitor.lag_age_max_s, common.interval_s)
        self._pending = PendingRounds(self._lag_age_max_ms)
        self.history_shedding, self.upkeep_shedding = Shedding(HISTORY_SHED_S), Shedding(UPKEEP_SHED_S)
        self._stalls = Stalls()
        self._markers, self._aborted = Markers(), AbortedRecords()
        self._report = MonitorReport(interval_s=common.interval_s)
        self._published_at_ms: int | None = None  # of `uptime_ms`
        self._ends_took_s = 0.0
        self._was_behind = False
        self._last_ms = last_round_ms(ledger)

    # What is served

    def troubles(self) -> list[str]:
        vitals = Vitals(
            is_ingesting=self._ingesting.is_alive(),
            round_age_ms=None if self._published_at_ms is None else uptime_ms() - self._published_at_ms,
            lag_offsets=sum(self._report.lag_offsets.values()),
            stalled_ms=self._report.stalled_ms,
            commits_known_ms=self._pending.known_ms,
            ahead_ms=self._last_ms - now_ms(),
            is_loaded=self.state.is_recovered.is_set(),
        )
        stalled_after_s = self.ledger.settings.monitor.stalled_after_s
        return troubles(vitals, now_ms(), self._interval_s, stalled_after_s, self._lag_age_max_ms)

    def why_dead(self) -> list[str]:
        """Returns the reasons why the monitor has to be restarted, if there are any."""
        return [] if self._ingesting.is_alive() else [INGEST_ENDED]

    def _metrics(self) -> Iterator[Metric]:
        cluster = self.ledger.cluster
        yield from monitor_metrics(cluster, self._report)
        yield from ingest_metrics(cluster, self.ingested)
        upkeep = self.upkeep
        counts = self.notifier.counts.copy()
        yield from incident_metrics(
            cluster, upkeep.open_incidents, counts, upkeep.incident_counts, upkeep.open_diagnoses
        )
        yield from step_metrics(cluster, upkeep.steps, upkeep.troubled_groups, self.ledger.judged_nobody)
        yield from source_metrics(cluster, upkeep.known_until_ms, self._report.sampled_at_ms)
        yield from behind_metrics(cluster, self._behind_ms())
        if self._published_at_ms is not None:
            yield from self.state.metrics(self._report.round_s)

    def _behind_ms(self) -> dict[str, int]:
        """Returns the age of each source's data in milliseconds: that of the commits by the newest round that has all
        of them."""
        known_ms = {key: ms for key, ms in self.upkeep.known_until_ms.items() if key in BEHIND}
        if self._pending.known_ms is not None:
            known_ms[Source.TOPIC] = self._pending.known_ms
        return behind_ms(known_ms, now_ms())

    def has_time(self, shedding: Shedding) -> bool:
        """Returns whether work other than the rounds may run now: at any time while the ingest is on time, otherwise as
        often as `shedding` allows."""
        known_ms = self._pending.known_ms
        is_behind = known_ms is not None and now_ms() - known_ms > ROUNDS_IN_TIME * self._interval_s * 1000
        return shedding.may_work(time.monotonic(), is_behind=is_behind)

    # What is done

    def catch_up(self) -> None:
        """Waits until the ingest has read all records that `__consumer_offsets` had when this was called."""
        sampled = self._sample_ends()
        ends, starts = ends_of(sampled), {row.partition: row.offsets[0] for row in sampled if row.offsets}
        progress = FirstRead()
        while not self._stop.wait(CATCH_UP_POLL_S):
            self._ingesting.check()
            missing = unread_offsets(starts | ingest_positions(self.ledger), ends)
            self._publish(replace(self._report, lag_offsets=missing))
            sentence = progress.look(sum(missing.values()))
            if sentence is not None:
                self.ledger.say(sentence)
            if not missing:
                return

    def go_on(self, workers: Sequence[Worker]) -> None:
        """Takes a round at each interval until stopped, once the tables are loaded into memory."""
        while not self._stop.is_set():
            for worker in (self._ingesting, *workers):
                worker.check()
            if not self.state.is_recovered.wait(CATCH_UP_POLL_S):
                self._publish(self._report)  # the ingest goes on meanwhile
                continue
            if not self._stop.wait(wait_s(time.time(), self._interval_s, self._ends_took_s)):
                self._is_between_rounds.clear()
                try:
                    self._round()
                finally:
                    self._is_between_rounds.set()
        self.state.await_written()

    def wait_for_gap(self) -> None:
        """Waits until no round is running, but no longer than an interval."""
        self._is_between_rounds.wait(self._interval_s)

    def _round(self) -> None:
        began_s = time.monotonic()
        at_ms = next_round_ms(now_ms(), self._last_ms)
        try:
            ends = self._sample_ends()
            sampling, shard = self.ledger.settings.sampling, self.ledger.settings.kafka.own
            sampled = take_round(self._brokers, sampling, self.state.topics(), at_ms, ends, shard)
            sampled = self._markers.add_to(sampled, self.state.resting(), self._brokers, sampling)
            sampled = self._aborted.add_to(sampled, self.state.standing(), self._brokers, sampling)
            check_sampled_cluster(self.ledger, self._bootstrap_servers)
        except OutsideError as error:
            self.ledger.warn(f"round not sampled: {error}")
            self.state.forget_old(now_ms() - self._lag_age_max_ms, {})
            self._publish(replace(self._report, rounds_failed=self._report.rounds_failed + 1))
            return
        self._last_ms = at_ms
        self._pending.add(sampled)
        missing, positions = self._wait_for_ingest(ends_of(ends))
        if self._stop.is_set():
            return
        ready = self._pending.take(positions, now_ms())
        with collector_rests():
            if ready is not None:
                self.state.read_commits()
                self.state.compute(ready.sampled, ready.passed)
                self._published_at_ms = uptime_ms()
            self.state.forget_old(
                now_ms() - self._lag_age_max_ms, {row.group_id: row.state for row in sampled.group_states}
            )
            self._publish(self._report_of(sampled, missing, time.monotonic() - began_s, is_new=ready is not None))
        known_ms = self._pending.known_ms or at_ms
        at = iso(instant_of_ms(known_ms))
        title = f"{self.ledger.cluster} at {at}, {looked_for(self.upkeep.known_until_ms.get(Source.INCIDENTS))}"
        self.common.screen.show(self.ledger.cluster, title, self.state.rollups)
        self._say_missing(missing)
        self._say_clock(at_ms)
        self._ingesting.check()  # which also reports a lost lease
        if ready is not None and not self.state.append(ready.sampled):
            self.ledger.warn("the tables could not keep up, so this round is not written")

    def _sample_ends(self) -> tuple[SampledWatermark, ...]:
        began_s = time.monotonic()
        rows = sample_ends(self._brokers, self.ledger.settings.sampling, self.ledger.settings.kafka.own)
        self._ends_took_s = time.monotonic() - began_s
        self._stalls.look(((row.partition, *row.offsets[1:]) for row in rows if row.offsets), uptime_ms())
        return rows

    def _wait_for_ingest(self, ends: Mapping[int, int]) -> tuple[dict[int, int], dict[int, int]]:
        """Waits for the ingest to pass the ends, until the next round at most. Returns the offsets that it has not
        passed, per partition, and its positions."""
        positions: dict[int, int] = {}

        def missing() -> dict[int, int]:
            nonlocal positions
            self._ingesting.check()
            positions = ingest_positions(self.ledger)
            return unread_offsets(positions, ends)

        limit_s = WAIT_SHARE * wait_s(time.time(), self._interval_s, self._ends_took_s)
        return await_none_missing(missing, self._stop.wait, time.monotonic, limit_s), positions

    def _say_missing(self, missing: Mapping[int, int]) -> None:
        if missing:
            known_ms = self._pending.known_ms
            known = "no round has its commits yet"
            if known_ms is not None:
                known = f"commits are known until {iso(instant_of_ms(known_ms))}"
            self.ledger.warn(
                f"the ingest has not passed the round: {sum(missing.values()):,} offsets are missing in"
                f" {len(missing):,} partitions; {known}"
            )

    def _say_clock(self, at_ms: int) -> None:
        """Reports once that the clock was set back to before a round."""
        sentence = clock_is_behind(at_ms - now_ms(), self._interval_s)
        if sentence is not None and not self._was_behind:
            self.ledger.warn(sentence)
        self._was_behind = sentence is not None

    def _report_of(
        self, sampled: SampledRound, missing: Mapping[int, int], round_s: float, *, is_new: bool
    ) -> MonitorReport:
        return MonitorReport(
            sampled_at_ms=self.state.sampled_at_ms,
            interval_s=self._interval_s,
            round_s=round_s,
            rounds=self._report.rounds + int(is_new),
            rounds_unwritten=self.state.unwritten,
            rounds_failed=self._report.rounds_failed,
            sample_errors=sampled.errors() + len(sampled.silent_brokers),
            # Every partition, so that an alert does not lose its series when all is well.
            lag_offsets=dict.fromkeys(ends_of(sampled.watermarks), 0) | dict(missing),
            hidden_offsets=self._stalls.hidden(),
            stalled_ms=self._stalls.stalled_ms(uptime_ms()),
            waiting_rounds=self.state.waiting,
        )

    def _publish(self, report: MonitorReport) -> None:
        self._report = report
        self.common.exposition.publish(self.ledger.cluster, [*self._metrics()])
        self.common.exposition.publish("", [*self.common.processes.metrics()])
