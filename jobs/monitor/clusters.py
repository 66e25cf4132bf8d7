"""Runs the monitor of one cluster, or of several in one process: one Spark session, and one address for all metrics.

Each cluster has its own thread, lease, stream and state in memory (`jobs.monitor.monitor`).

Rules.

- If one of several clusters fails, the others continue. Its error message is logged and returned by /readyz. Its
  metrics are removed, since they would be old. Its lease is released, so that the remedy in the message can be carried
  out. It starts again a minute later. An error that is not explained ends the process, so that its supervisor restarts
  it.
- If the only cluster fails, the process ends with the message and an exit code.
- The address answers from the beginning, before Spark has started: /livez with 200, /readyz with the reason.
- A signal ends the monitors of all clusters at once. If no cluster is watched any more, /livez says that the process
  has to be started again.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from groupledger.jobs.monitor.exposition import Exposition
from groupledger.jobs.monitor.http import serve
from groupledger.jobs.monitor.lag_screen import LagScreen
from groupledger.jobs.monitor.monitor import Common, watch_cluster
from groupledger.jobs.monitor.otlp import OtlpPush
from groupledger.jobs.process.errors import JobError
from groupledger.jobs.process.output import say
from groupledger.jobs.process.outside import explain
from groupledger.jobs.process.session import beside_each_other, spark_session
from groupledger.jobs.process.worker import Worker
from groupledger.jobs.warehouse.ledger import ledger_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from groupledger.jobs.monitor.monitor import RoundLoop
    from groupledger.jobs.process.settings import Settings

COMMAND = "monitor"
BEGIN_AGAIN_S = 60
LOOK_EVERY_S = 0.5
NOT_BEGUN = "It has not begun: Spark starts, or the lease is waited for."


@dataclass(frozen=True, slots=True)
class MonitoredCluster:
    """A cluster to watch."""

    settings: Settings
    bootstrap_servers: str


def run_monitor(
    warehouse: str, clusters: Sequence[MonitoredCluster], interval_s: int, port: int, stop: threading.Event
) -> None:
    """Watches clusters until `stop` is set, with a round every `interval_s` seconds. Raises the error that ended the
    watch of the only cluster, or an unexplained error of any cluster."""
    is_alone = len(clusters) == 1
    # Settings that do not belong to a cluster are the same for all.
    address = clusters[0].settings.monitor.metrics_address
    exposition = Exposition()
    watches = [ClusterWatch(cluster, stop, is_alone=is_alone) for cluster in clusters]
    troubles = dict.fromkeys(("/readyz", "/healthz"), lambda: [*sentences_of(watches, ClusterWatch.troubles)])
    troubles["/livez"] = lambda: why_dead(watches)
    with ExitStack() as stack:
        # Before Spark, whose start takes a while: whoever starts the monitor sees that it lives, and why it waits.
        port = stack.enter_context(serve(address, port, exposition.answer, troubles))
        say(f"metrics at http://{address}:{port}/metrics, health at /livez and /readyz")
        say("starting Spark")
        spark = spark_session(f"groupledger {COMMAND}", {} if is_alone else beside_each_other(len(clusters)))
        screen = stack.enter_context(LagScreen())
        common = Common(spark, warehouse, interval_s, screen, exposition, clusters[0].settings.monitor, stop)
        workers = [Worker(watch.name, partial(watch.run, common)) for watch in watches]
        otlp = clusters[0].settings.metrics.otlp
        if otlp is not None:
            key = None if otlp.key is None else otlp.key.resolve("metrics.otlp.key").get_secret_value()
            push = OtlpPush(otlp.url, key, exposition.families, partial(say, level=logging.WARNING))
            workers.append(Worker("otlp", partial(push.follow, stop, interval_s)))
        for worker in workers:
            worker.start()
        try:
            while not stop.wait(LOOK_EVERY_S) and all(worker.is_alive() for worker in workers):
                pass
        finally:
            stop.set()
            for watch in watches:
                watch.end()
            for worker in workers:
                worker.join()
        for worker in workers:
            worker.check()
    say("stopped")


class ClusterWatch:
    """Watches one cluster. `run` does so until the monitor stops; the other methods say how the cluster is."""

    def __init__(self, cluster: MonitoredCluster, stop: threading.Event, *, is_alone: bool) -> None:
        self.name = cluster.settings.cluster
        self.is_alone = is_alone
        self._cluster = cluster
        self._stop = stop
        self._stop_once = threading.Event()
        self._rounds: RoundLoop | None = None
        self._why_not = NOT_BEGUN

    def run(self, common: Common) -> None:
        """Watches the cluster until the monitor stops. If there are other clusters, it starts again some time after an
        error that has an explanation; it raises all others."""
        while not self._stop.is_set():
            self._stop_once = threading.Event()
            if self._stop.is_set():  # `end` may have met the event before
                return
            try:
                self._watch(common, self._stop_once)
            except JobError as error:
                if self.is_alone or self._stop.is_set():
                    raise
                self._why_not = str(explain(error) or error)
                self._warn(f"{self._why_not} Next try in {BEGIN_AGAIN_S} s.")
            finally:
                self._rounds = None
                common.exposition.publish(self.name, [])
            self._stop.wait(BEGIN_AGAIN_S)

    def end(self) -> None:
        """Ends a running watch. Call it when the process stops."""
        self._stop_once.set()

    def troubles(self) -> list[str]:
        return [self._why_not] if self._rounds is None else self._rounds.troubles()

    def why_dead(self) -> list[str]:
        """Returns the reasons why the cluster is not watched; an empty list until its watch has begun once."""
        if self._rounds is not None:
            return self._rounds.why_dead()
        return [] if self._why_not is NOT_BEGUN else [self._why_not]

    def _watch(self, common: Common, stop: threading.Event) -> None:
        settings = self._cluster.settings
        with ledger_in(common.spark, settings, common.warehouse, COMMAND, self._say, warn=self._warn) as ledger:
            watch_cluster(ledger, self._cluster.bootstrap_servers, common, stop, partial(setattr, self, "_rounds"))

    def _say(self, text: str) -> None:
        say(text, cluster=self.name)

    def _warn(self, text: str) -> None:
        say(text, logging.WARNING, cluster=self.name)


def sentences_of(watches: Sequence[ClusterWatch], of: Callable[[ClusterWatch], list[str]]) -> Iterator[str]:
    """Yields the sentences that `of` returns for each cluster, with the name of the cluster if there are several."""
    for watch in watches:
        for sentence in of(watch):
            yield sentence if watch.is_alone else f"{watch.name}: {sentence}"


def why_dead(watches: Sequence[ClusterWatch]) -> list[str]:
    """Returns the reasons why no cluster is watched; an empty list while one of them is."""
    return [*sentences_of(watches, ClusterWatch.why_dead)] if all(watch.why_dead() for watch in watches) else []
