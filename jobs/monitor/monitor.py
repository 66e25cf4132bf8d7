"""`groupledger monitor`: lag as it is now, every interval, served as metrics and kept in the tables.

One Spark application under one lease does four things at once, each in a thread of its own:

    ingest    the stream of `ingest --continuous`, with the same checkpoint
    rounds    at each interval: sample the brokers, wait until the ingest has passed the ends that were read first, take
              the commits of the new versions of `coordinator_records`, compute lag, publish it
    writer    each round into the tables, in their order, while the next one is sampled
    history   first the tables are read into memory; then `update_history` on a slower trigger, whose results feed the
              rounds after it; between two of its writes it waits until no round is under way, an interval at most

Rules.
- Metrics come from memory and are published before anything is written, so that no table is in their way. Writing may
  be a few rounds behind, and then holds up the next.
- A partition of `__consumer_offsets` that the ingest has not passed in time is left out of the round's ends: what its
  groups have committed since counts in the next round, and their rows say that they are stale.
- Nothing is served before the first round is complete: an ingest that is still reading last year's commits would show
  last year's lag.
- Memory is only a copy. It is read back from the tables at the start, rounds that were sampled and not computed are
  computed, and each table takes each round once; so a monitor that is killed loses and repeats nothing in them.
- A broker that is away costs rounds, not the monitor. Everything else that fails ends it, with one sentence and an exit
  code, for whatever started it to start it again.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest

from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
from groupledger.jobs.ingest.samples import SAMPLE_TABLES, check_sampled_cluster, last_round_ms, next_round_ms
from groupledger.jobs.ingest.stream import TABLES as INGEST_TABLES
from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.sampling import ends_of, sample_watermarks, take_round
from groupledger.jobs.monitor.commits import behind, ingest_positions
from groupledger.jobs.monitor.http import serve
from groupledger.jobs.monitor.lag_screen import LagScreen
from groupledger.jobs.monitor.own_metrics import MonitorReport, monitor_metrics
from groupledger.jobs.monitor.rules import Stalls, Vitals, next_round_at, troubles
from groupledger.jobs.monitor.state import MonitorState
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.worker import Worker, working
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.lag import LAG
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.kafka.sampling import SampledRound, SampledWatermark
    from groupledger.jobs.warehouse.ledger import Ledger

POLL_S = 0.05
CATCH_UP_POLL_S = 0.5
HISTORY = "history"


@dataclass(frozen=True, slots=True)
class MonitorRun:
    """What the user asked for."""

    bootstrap_servers: str
    interval_s: int
    metrics_port: int


def run_monitor(ledger: Ledger, run: MonitorRun, stop: threading.Event) -> None:
    """Runs until `stop` is set. Raises what the ingest, the history or the rounds raise."""
    settings = ledger.settings
    ingest = settings.ingest.model_copy(update={"trigger_interval_s": run.interval_s})
    followed = KafkaIngest(settings.model_copy(update={"ingest": ingest}), run.bootstrap_servers, is_continuous=True)
    with connect(run.bootstrap_servers, settings) as brokers:
        ledger.create(*INGEST_TABLES, *SAMPLE_TABLES, LAG)
        ingesting = Worker("ingest", lambda: ingest_kafka(ledger, followed, stop))
        rounds = RoundLoop(ledger, brokers, run, ingesting, stop)
        context = ledger.spark.sparkContext

        def cancel_history() -> None:
            context.setLogLevel("FATAL")  # what is broken off on purpose is no error
            context.cancelJobsWithTag(HISTORY)

        history = Worker(HISTORY, lambda: follow_history(ledger, rounds.state, stop), cancel_history)
        address = settings.monitor.metrics_address
        served = serve(address, run.metrics_port, rounds.exposition, rounds.troubles)
        with served as port, rounds.screen, closing(rounds.state):
            ledger.say(f"metrics at http://{address}:{port}/metrics, health at /healthz")
            with working(stop, ingesting):
                rounds.catch_up()
                with working(stop, history):
                    rounds.go_on(history)
    ledger.say("stopped")


def follow_history(ledger: Ledger, state: MonitorState, stop: threading.Event) -> None:
    context = ledger.spark.sparkContext
    context.addJobTag(HISTORY)
    state.start(stop)
    # Spark's jobs of this thread share the cores with those of the rounds, and don't stand before them in the queue.
    context.setLocalProperty("spark.scheduler.pool", HISTORY)
    while not stop.is_set():
        state.update_history(stop)
        stop.wait(ledger.settings.monitor.history_interval_s)


class RoundLoop:
    """The rounds of a run, one after the other, and what is published of the last."""

    def __init__(
        self, ledger: Ledger, brokers: Brokers, run: MonitorRun, ingesting: Worker, stop: threading.Event
    ) -> None:
        self.state = MonitorState(replace(ledger, give_way=self.wait_for_gap))
        self._ledger = ledger
        self._brokers = brokers
        self._run = run
        self._ingesting = ingesting
        self._stop = stop
        self._is_between_rounds = threading.Event()
        self._is_between_rounds.set()
        self._stalls = Stalls()
        self._report = MonitorReport()
        self._published_ms: int | None = None
        self._ends_took_s = 0.0
        self._last_ms = last_round_ms(ledger)
        self._exposition = b""
        self.screen = LagScreen()

    # What is served

    def exposition(self) -> bytes:
        return self._exposition

    def troubles(self) -> list[str]:
        vitals = Vitals(
            is_ingesting=self._ingesting.is_alive(),
            published_ms=self._published_ms,
            lag_offsets=sum(self._report.lag_offsets.values()),
            stalled_ms=self._report.stalled_ms,
        )
        return troubles(vitals, now_ms(), self._run.interval_s, self._ledger.settings.monitor.stalled_after_s)

    def collect(self) -> Iterator[Metric]:
        yield from monitor_metrics(self._ledger.cluster, self._report)
        if self._published_ms is not None:
            yield from self.state.metrics(self._report.round_s)

    # What is done

    def catch_up(self) -> None:
        """Waits until the ingest has read what was there when it began."""
        ends = ends_of(self._sample_ends())
        while not self._stop.wait(CATCH_UP_POLL_S):
            self._ingesting.check()
            missing = behind(ingest_positions(self._ledger), ends)
            self._publish(replace(self._report, lag_offsets=missing))
            if not missing:
                return

    def go_on(self, history: Worker) -> None:
        """Takes a round at each interval until told to stop, once the tables are read into memory."""
        while not self._stop.is_set():
            self._ingesting.check()
            history.check()
            if not self.state.is_recovered.wait(CATCH_UP_POLL_S):
                continue
            at_s = next_round_at(time.time(), self._run.interval_s, self._ends_took_s)
            if not self._stop.wait(max(at_s - time.time(), 0)):
                self._is_between_rounds.clear()
                try:
                    self._round()
                finally:
                    self._is_between_rounds.set()
        self.state.await_written()

    def wait_for_gap(self) -> None:
        """Waits until no round is under way, but no longer than an interval."""
        self._is_between_rounds.wait(self._run.interval_s)

    def _round(self) -> None:
        began_s = time.monotonic()
        at_ms = next_round_ms(now_ms(), self._last_ms)
        try:
            ends = self._sample_ends()
            sampled = take_round(self._brokers, self._ledger.settings.sampling, self.state.topics(), at_ms, ends)
            check_sampled_cluster(self._ledger, self._run.bootstrap_servers)
        except OutsideError as error:
            self._ledger.say(f"round not sampled: {error}")
            self._publish(replace(self._report, rounds_failed=self._report.rounds_failed + 1))
            return
        missing = self._wait_for_ingest(ends_of(ends))
        if self._stop.is_set():
            return
        self.state.read_commits()
        self.state.compute(sampled, ends_of(ends).keys() - missing.keys())
        self._last_ms = at_ms
        self._published_ms = now_ms()
        self._publish(self._report_of(sampled, missing, time.monotonic() - began_s))
        self.screen.show(
            f"{self._ledger.cluster} at {iso(datetime.fromtimestamp(at_ms / 1000, timezone.utc))}", self.state.rollups
        )
        self._say_missing(missing)
        self._ingesting.check()  # which also tells of a lost lease
        self.state.append(sampled)

    def _sample_ends(self) -> tuple[SampledWatermark, ...]:
        began_s = time.monotonic()
        rows, _ = sample_watermarks(self._brokers, self._ledger.settings.sampling, [OFFSETS_TOPIC])
        self._ends_took_s = time.monotonic() - began_s
        self._stalls.look(((row.partition, *row.offsets[1:]) for row in rows if row.offsets), now_ms())
        return rows

    def _wait_for_ingest(self, ends: Mapping[int, int]) -> dict[int, int]:
        """Waits for the ingest to pass the ends, an interval at most. Returns the offsets that it has not passed, per
        partition."""
        deadline_s = time.monotonic() + self._run.interval_s
        while True:
            missing = behind(ingest_positions(self._ledger), ends)
            if not missing or time.monotonic() > deadline_s or self._stop.wait(POLL_S):
                return missing
            self._ingesting.check()

    def _say_missing(self, missing: Mapping[int, int]) -> None:
        if missing:
            self._ledger.say(
                f"the ingest has not passed the round: {sum(missing.values()):,} offsets are missing in"
                f" {len(missing):,} partitions, and the lag of their groups is of the round before"
            )

    def _report_of(self, sampled: SampledRound, missing: Mapping[int, int], round_s: float) -> MonitorReport:
        return MonitorReport(
            sampled_at_ms=sampled.sampled_at_ms,
            round_s=round_s,
            rounds=self._report.rounds + 1,
            rounds_failed=self._report.rounds_failed,
            sample_errors=sampled.errors() + len(sampled.silent_brokers),
            # Every partition, so that an alert does not lose its series when all is well.
            lag_offsets=dict.fromkeys(ends_of(sampled.watermarks), 0) | dict(missing),
            hidden_offsets=self._stalls.hidden(),
            stalled_ms=self._stalls.stalled_ms(now_ms()),
        )

    def _publish(self, report: MonitorReport) -> None:
        self._report = report
        registry = CollectorRegistry()
        registry.register(self)
        self._exposition = generate_latest(registry)
