"""Measures how much room the logs of the tables and their dead files take, in the weeks of a monitor.

    python -m bench.log_size [--days 24] [--groups 1000] [--partitions 5] [--every 48]

A dead file is one that the newest version of a table does not name any more. The tables are written by the code of the
monitor (`append_round`, `append_rows`, `upsert_arrow`, commits of the ingest), with rows of the same number and form;
only the fold and the lag are not computed each time. `maintain` runs every six hours. There is no Spark and no waiting:
the process runs under the shim of the fault tests, whose clock is set forward from round to round, for delta-rs too,
and each new file gets the time of that clock.

A month has 1.2 million commits of the monitor. So only each --every-th round and minute is written, and a checkpoint
comes after fewer commits, too; maintenance leaves as many of the old ones. Files and their entries in the log are as
large as ever, but fewer: there are about as many checkpoints, each with fewer entries. So bytes and files times --every
are those of a monitor that writes every round; of checkpoints, what is above an empty one. The few commits of a
maintenance are multiplied, too, so the figures are rather too high: run it with half of --every to see by how much.

Every group commits all its partitions every five seconds. Each minute one group rebalances, which replaces one of its
two members.

It prints for each day and table what lies there when it is most (of the eight times before and after a maintenance),
for a monitor that writes every round; bytes are those of `du`. Processor time and the memory of the process show
whether the work itself grows with the days. It ends with 1 if logs and dead files are more than 3 GB
in the last third of the days, or more than in the middle third by over a twentieth.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bench.monitor_rows import LAG_ROUNDS, ROUND_MS, MonitorRows
from groupledger.jobs.ingest.samples import append_round, append_rows
from groupledger.jobs.process.clock import DAY_MS, HOUR_MS
from groupledger.jobs.process.settings import load_settings, overlaid
from groupledger.jobs.warehouse import deletions
from groupledger.jobs.warehouse.commits import NumberedBatch
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.jobs.warehouse.maintain import maintain, retention_of
from groupledger.jobs.warehouse.task_files import write_here
from groupledger.jobs.warehouse.upsert import upsert_arrow
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.committed_offsets import COMMITTED_OFFSETS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.tables.rebalance_stats import REBALANCE_STATS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.table import CHECKPOINT_INTERVAL
from groupledger.schemas.tables.watermarks import WATERMARKS
from lab.faults.shim import Shim, Twist, build_shim
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

ROUNDS_A_MINUTE = 60_000 // ROUND_MS
MAINTAIN_MS = 6 * HOUR_MS
CLUSTER = "default"
BYTES_MAX, GROWTH_MAX = 3e9, 1.05
SAMPLED = (GROUP_STATES, WATERMARKS, LAG)
HISTORY = (GENERATIONS, MEMBERS, ASSIGNMENTS, REBALANCES, REBALANCE_STATS, GROUPS, OPEN_GROUPS, COMMITTED_OFFSETS)
TABLES = (COORDINATOR_RECORDS, COVERAGE, *SAMPLED, *HISTORY)


class VirtualClock:
    """The clock of this process, which runs under the shim. It is always behind: a new file, which has the true time
    until it gets that of the clock, is never too old."""

    def __init__(self) -> None:
        environment = os.environ
        folder = Path(environment["FAULT_PAGE"]).parent
        self._shim = Shim(Path(environment["LD_PRELOAD"]), Path(environment["FAULT_ROOT"]), folder)
        self._real_s = time.time() - time.monotonic()

    def midnight_before(self, days: int) -> int:
        """Returns a midnight, in milliseconds since the epoch, that is more than so many days ago."""
        return (round(self._real_s + time.monotonic()) * 1_000 // DAY_MS - days - 1) * DAY_MS

    def set(self, at_ms: int) -> None:
        clock_s = at_ms // 1_000 - round(self._real_s + time.monotonic())
        self._shim.begin(Twist(act="clock", clock_s=clock_s))


class FileTimes:
    """Gives the files of new versions the time of the virtual clock: the kernel gives them its own."""

    def __init__(self, warehouse: Path) -> None:
        self._warehouse = warehouse
        self._last: dict[str, int] = defaultdict(int)

    def set(self, table: Table, at_ms: int) -> None:
        folder, at_s = self._warehouse / table.name, (at_ms / 1_000,) * 2
        while (version := folder / "_delta_log" / f"{self._last[table.name]:020}.json").exists():
            for line in version.read_text().splitlines():
                added = json.loads(line).get("add")
                if added is not None:
                    os.utime(folder / added["path"], at_s)
            for path in (version, version.with_suffix(".checkpoint.parquet")):
                if path.exists():
                    os.utime(path, at_s)
            self._last[table.name] += 1


@dataclass
class Size:
    """What lies in the folder of a table. `live_bytes` and `dead_bytes` are those of data files, `least_checkpoint`
    those of the smallest checkpoint."""

    versions: int = 0
    checkpoints: int = 0
    json_bytes: int = 0
    checkpoint_bytes: int = 0
    least_checkpoint: int = sys.maxsize
    live_files: int = 0
    live_bytes: int = 0
    dead_files: int = 0
    dead_bytes: int = 0

    @property
    def log_and_dead_bytes(self) -> int:
        return self.json_bytes + self.checkpoint_bytes + self.dead_bytes

    def of_all(self, every: int, per_checkpoint: float, empty: int) -> Size:
        """Returns the size after `every` times as many commits, with `per_checkpoint` times as many checkpoints. Each
        has `every` times as many entries, and `empty` bytes without them."""
        checkpoints = self.checkpoints * per_checkpoint
        entries = (self.checkpoint_bytes - self.checkpoints * empty) * per_checkpoint * every
        values = {each.name: getattr(self, each.name) * every for each in fields(self)}
        of_checkpoints = {"checkpoints": round(checkpoints), "checkpoint_bytes": round(entries + checkpoints * empty)}
        return Size(**values | of_checkpoints)


def size_of(warehouse: Path, table: Table) -> Size:
    found, folder = Size(), warehouse / table.name
    live = {each.removeprefix(f"{folder}/") for each in open_table(str(warehouse), table).file_uris()}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place) / name
            stat = path.stat()
            used = stat.st_blocks * 512
            if name.endswith(".checkpoint.parquet"):
                found.checkpoints += 1
                found.checkpoint_bytes += stat.st_size  # its entries alone are multiplied
                found.least_checkpoint = min(found.least_checkpoint, stat.st_size)
            elif place.endswith("_delta_log"):
                found.versions += name.endswith(".json")
                found.json_bytes += used
            elif str(path.relative_to(folder)) in live:
                found.live_files += 1
                found.live_bytes += used
            else:
                found.dead_files += 1
                found.dead_bytes += used
    return found


@dataclass(frozen=True)
class Simulation:
    """A monitor that writes each `every`-th of its rounds, and does each `every`-th minute what it does once a minute.
    `intervals` are those between the checkpoints of a monitor that writes every round, and `empty` is the size of a
    checkpoint that names hardly any file, both by table."""

    ledger: Ledger
    rows: MonitorRows
    settings: Settings
    clock: VirtualClock
    times: FileTimes
    every: int
    intervals: dict[str, int]
    empty: dict[str, int]

    def begin(self) -> None:
        for table in TABLES:
            self.ledger.create(table)
            self.ledger.commits.set_properties(table, partial(self._interval, table))
        for table, rows in self.rows.at_first():
            upsert_arrow(self.ledger, table, rows)
        for table in TABLES:
            self.times.set(table, self.rows.start_ms)

    def _interval(self, table: Table, _: Mapping[str, str]) -> dict[str, str]:
        return {CHECKPOINT_INTERVAL: str(self.settings.maintain.checkpoint_intervals[table.name])}

    def go_on(self, number: int) -> None:
        """Writes a round, and once a minute what has changed."""
        at_ms = self.rows.start_ms + number * self.every * ROUND_MS
        self.clock.set(at_ms)
        self._round(number, at_ms)
        if number % ROUNDS_A_MINUTE == 0:
            minute = number // ROUNDS_A_MINUTE
            for table, rows in (*self.rows.of_rebalance(minute, at_ms), *self.rows.of_commits(minute, at_ms)):
                upsert_arrow(self.ledger, table, rows)
                self.times.set(table, at_ms)

    def _round(self, number: int, at_ms: int) -> None:
        ledger = self.ledger
        files = write_here(self.rows.records(number, at_ms), COORDINATOR_RECORDS, ledger.warehouse)
        ledger.commits.add_files(COORDINATOR_RECORDS, files, NumberedBatch("ingest", number))
        append_round(ledger, replace(self.rows.sampled, sampled_at_ms=at_ms))
        append_rows(ledger, LAG, self.rows.lag[number % LAG_ROUNDS], at_ms)
        upsert_arrow(ledger, COVERAGE, self.rows.coverage(number, at_ms))
        for table in (COORDINATOR_RECORDS, COVERAGE, *SAMPLED):
            self.times.set(table, at_ms)

    def maintain(self, at_ms: int) -> None:
        spark = cast("SparkSession", None)  # for a warehouse in a directory it needs none
        now, held = instant_of_ms(at_ms), [self.ledger.lease]
        steps = maintain(
            *(spark, self.ledger.warehouse, self.settings, now), is_dry_run=False, say=lambda _: None, held=held
        )
        assert not any(step.is_finding for step in steps), steps
        for table in TABLES:
            self.times.set(table, at_ms)

    def day(self, day: int) -> tuple[list[dict[str, Size]], tuple[float, float]]:
        """Lets a day pass. Returns the sizes before and after each maintenance, and the processor seconds of all
        writing and of all maintenance."""
        found, written_s, maintained_s = [], 0.0, 0.0
        per_turn = MAINTAIN_MS // ROUND_MS // self.every
        for turn in range(4 * day, 4 * day + 4):
            began_s = time.process_time()
            for number in range(turn * per_turn, (turn + 1) * per_turn):
                self.go_on(number)
            written_s += time.process_time() - began_s
            found.append(self.sizes())
            at_ms = self.rows.start_ms + (turn + 1) * MAINTAIN_MS
            self.clock.set(at_ms)
            began_s = time.process_time()
            self.maintain(at_ms)
            maintained_s += time.process_time() - began_s
            found.append(self.sizes())
        return found, (written_s, maintained_s)

    def sizes(self) -> dict[str, Size]:
        """Returns what there would be if every round had been written, by table."""
        found = {}
        for table in TABLES:
            size = size_of(Path(self.ledger.warehouse), table)
            empty = self.empty[table.name] = min(self.empty.get(table.name, sys.maxsize), size.least_checkpoint)
            ours = self.settings.maintain.checkpoint_intervals[table.name] * self.every
            found[table.name] = size.of_all(self.every, ours / self.intervals[table.name], empty)
        return found


def run(arguments: argparse.Namespace, warehouse: Path) -> int:
    clock = VirtualClock()
    start_ms = clock.midnight_before(arguments.days)
    clock.set(start_ms)
    shipped = load_settings(cluster=CLUSTER)
    intervals = {table.name: retention_of(shipped, table).checkpoint_interval for table in TABLES}
    fewer = {name: max(1, round(interval / arguments.every)) for name, interval in intervals.items()}
    settings = overlaid(shipped, {"maintain": {"checkpoint_intervals": fewer}})
    deletions.COMMITS_PER_OLD_CHECKPOINT //= arguments.every
    rows = MonitorRows(arguments.groups, arguments.partitions, CLUSTER, start_ms)
    most = []
    with open_test_ledger(cast("SparkSession", None), warehouse, CLUSTER) as ledger:
        times = FileTimes(warehouse)
        simulation = Simulation(ledger, rows, settings, clock, times, arguments.every, intervals, {})
        simulation.begin()
        for day in range(arguments.days):
            found, seconds = simulation.day(day)
            most.append(max(found, key=total))
            show(day, most[-1], seconds)
    third = max(1, len(most) // 3)
    middle_third, last_third = (max(map(total, part)) for part in (most[third : 2 * third], most[-third:]))
    print(f"logs and dead files: {middle_third / 1e6:,.0f} MB at most in the middle third of the days,", end=" ")
    print(f"{last_third / 1e6:,.0f} MB in the last third")
    return int(last_third > min(BYTES_MAX, GROWTH_MAX * middle_third))


def total(sizes: dict[str, Size]) -> int:
    return sum(each.log_and_dead_bytes for each in sizes.values())


def show(day: int, sizes: dict[str, Size], seconds: tuple[float, float]) -> None:
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    print(f"day {day + 1}: logs and dead files {total(sizes) / 1e6:,.0f} MB,", end=" ")
    print(
        f"{seconds[0]:.0f} s of processor time to write it, {seconds[1]:.1f} s to maintain, memory {memory_mb:,.0f} MB"
    )
    heads = ("versions", "json MB", "checkpoints", "of MB", "live files", "MB", "dead files", "MB", "log+dead MB")
    print(f"  {'':20}" + "".join(f"{head:>12}" for head in heads))
    for name, of in sizes.items():
        files = (of.live_files, of.live_bytes / 1e6, of.dead_files, of.dead_bytes / 1e6)
        values = (of.versions, of.json_bytes / 1e6, of.checkpoints, of.checkpoint_bytes / 1e6, *files)
        print(
            f"  {name:20}" + "".join(f"{value:12,.0f}" for value in (*values, of.log_and_dead_bytes / 1e6)), flush=True
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=24)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=5)
    parser.add_argument("--every", type=int, default=48)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groupledger-log-size-") as made:
        folder = Path(made)
        if "FAULT_PAGE" in os.environ:
            return run(arguments, folder)
        # A shim is loaded when a process starts.
        shim = Shim(build_shim(folder), folder / "nothing", folder)
        again = [sys.executable, "-m", "bench.log_size", *sys.argv[1:]]
        return subprocess.run(again, env=os.environ | shim.environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
