"""Compares incidents that were judged piece by piece with those of one pass over all groups.

For each seed the program simulates an hour of many groups, of each kind of group and each kind of harm. It takes the
hour in pieces, each followed by a pass. The samples of a time come before or after its records, the request log comes
in the middle, and the server log at the end. Then passes follow in which only time goes on, until nothing is open any
more; then one group is forgotten, and the history is rebuilt. At each of these points the rows of `incidents` must be
those that one pass over all groups finds in a copy of the warehouse, also how often each row is there. No pass judges
all groups because of the time since the last such pass. The program prints each group that differs, and ends with 1 if
there is any.

    python -m bench.incidents_by_new [--seeds 11 12] [--instances 1] [--each]

With `--instances 20` there are twenty groups of each kind, which differ by their times. Without `--each` it compares
only after the server log, after all of the time and at the end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow.parquet as pq

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.coordinator.simulator.scenarios.day import at_pace_of_day
from groupledger.coordinator.simulator.scenarios.registry import Scenario
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS, Settings
from groupledger.jobs.demo.simulate import capture_table
from groupledger.jobs.derive import incidents
from groupledger.jobs.derive.history import update_history
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.ingest.import_logs import LogSources, import_logs
from groupledger.jobs.process.session import SHORT_LIVED, spark_session
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.forget import forget
from groupledger.transforms.forgetting import Forgotten
from groupledger.transforms.records.decode import decode
from lab.warehouses.ledgers import open_test_ledger
from lab.warehouses.sessions import OF_FEW_ROWS
from tests.jobs.derive.incident_pieces import CLUSTER, MINUTE_MS, content, judged_at_once, pieces_of
from tests.jobs.simulated_log import HOUR_MS, write_broker_logs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from groupledger.coordinator.simulator.scenarios.script import Script
    from groupledger.jobs.warehouse.ledger import Ledger
    from tests.jobs.derive.incident_pieces import Pieces

KINDS = (
    *("zombie-commits", "rolling-restart-static", "crash", "flapping-member", "leader-loss", "protocol-upgrade"),
    *("group-reborn", "coordinator-failover", "transactional-commits", "subscription-change", "stuck-consumer"),
    *("slow-processing", "long-gc", "admin-reset", "partitions-added", "rebalance-stuck", "topic-recreated"),
    *("consumer-slow-release", "consumer-crash", "consumer-pause", "consumer-instance-taken", "consumer-migration"),
    *("share-crash", "streams-crash", "streams-slow-release", "streams-topology"),
)
PIECES = (0, 17, 31, 46, 60)
LOGS_AFTER = 31
LATER = (66, 80, 240, 12_000)  # minutes; the offsets of empty groups expire after a week
LATE_MS = (0, 3 * MINUTE_MS, -2 * MINUTE_MS)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[11])
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--each", action="store_true", help="compare after each pass")
    arguments = parser.parse_args()
    spark = spark_session("groupledger incidents by what is new", OF_FEW_ROWS, SHORT_LIVED)
    differing = 0
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory(prefix="groupledger-by-new-") as folder:
            trial = Trial(spark, Path(folder), seed, is_each=arguments.each)
            differing += trial.run(arguments.instances)
    spark.stop()
    sys.exit(1 if differing else 0)


class Trial:
    """Plays one seed, and compares."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int, *, is_each: bool) -> None:
        self._spark, self._folder, self._seed, self._is_each = spark, folder, seed, is_each
        self._warehouse = folder / "warehouse"
        self._differing = 0

    def run(self, instances: int) -> int:
        """Returns how many comparisons differed."""
        pieces, logs = self._simulate(instances)
        for begin, end in pairwise(PIECES):
            self._take(pieces, begin, end)
            if end == LOGS_AFTER:
                self._import(LogSources([logs / "request-log"], []))
            self._compare(f"minute {end}", is_wanted=False)
        self._import(LogSources([], [logs / "server-log"]))
        self._compare("server log")
        for begin, end in pairwise((PIECES[-1], *LATER)):
            self._take(pieces, begin, end)
            self._compare(f"minute {end}", is_wanted=end == LATER[-1])
        self._forget("mix-0000")
        self._compare("forgotten")
        return self._differing

    def _simulate(self, instances: int) -> tuple[Pieces, Path]:
        simulation = prepare(_mix(instances), self._seed)
        simulation.run(BEGAN_AT_MS + HOUR_MS)
        outputs = simulation.take(is_last=True)
        write_broker_logs(self._folder / "logs", outputs)
        pq.write_table(capture_table(outputs.batches), self._folder / "capture.parquet")
        rows = decode(self._spark.read.parquet(str(self._folder / "capture.parquet")))
        random = Random(self._seed)  # noqa: S311  # the same samples for the same seed
        return pieces_of(rows, random, LATE_MS[self._seed % len(LATE_MS)]), self._folder / "logs"

    @contextmanager
    def _ledger(self) -> Iterator[Ledger]:
        never = patch.object(incidents, "HOUR_MS", 1 << 50)
        with never, open_test_ledger(self._spark, self._warehouse, CLUSTER) as ledger:
            yield ledger

    def _take(self, pieces: Pieces, begin: int, end: int) -> None:
        with self._ledger() as ledger:
            pieces.take(ledger, begin, end)

    def _import(self, sources: LogSources) -> None:
        with self._ledger() as ledger:
            import_logs(ledger, load_settings().logs, sources, threading.Event())
            update_incidents(ledger)

    def _forget(self, group: str) -> None:
        settings, forgotten = load_settings(cluster=CLUSTER), Forgotten("group", (group,))
        forget(self._spark, str(self._warehouse), settings, forgotten, is_dry_run=False, say=lambda _: None)
        with self._ledger() as ledger:
            update_history(ledger, threading.Event())
            update_incidents(ledger)

    def _compare(self, name: str, *, is_wanted: bool = True) -> None:
        began = time.perf_counter()
        if not (is_wanted or self._is_each):
            return
        by_new, at_once = Counter(content(self._warehouse)), Counter(self._at_once())
        missing, left_over = at_once - by_new, by_new - at_once
        self._differing += bool(missing or left_over)
        took_s = time.perf_counter() - began
        counts = f"{at_once.total():,} rows, {missing.total()} missing, {left_over.total()} left over"
        print(f"seed {self._seed} {name}: {counts} ({took_s:.0f} s)", flush=True)
        for sign, rows in (("-", missing), ("+", left_over)):
            for row in sorted(rows.elements()):
                print(f"  {sign} {row}", flush=True)

    def _at_once(self) -> Sequence[str]:
        return judged_at_once(self._spark, self._warehouse, self._folder)


def _mix(instances: int) -> Scenario:
    groups = len(KINDS) * instances
    return Scenario(
        name="mix",
        summary="Groups of each kind.",
        play=_play,
        hours=1,
        settings=Settings(Config()),
        groups=groups,
    )


def _play(group: Script) -> None:
    at_pace_of_day(group)
    SCENARIOS[KINDS[group.number % len(KINDS)]].play(group)


if __name__ == "__main__":
    main()
