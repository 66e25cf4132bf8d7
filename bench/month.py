"""Runs the jobs through a month of virtual time, and shows whether a pass, the memory or the logs grow.

    python -m bench.month [--days 30] [--groups 100] [--keep DIRECTORY]

Twice a day the topic has new records and samples, and a pass follows: history, lag, offset events and incidents, as
`pipeline` runs them, and then maintenance. A round is a quarter of an hour. In each round all groups commit, which is
always a late commit (`incidents.commit_gap_s`); every fourth hour each group replaces a member, and each day one of a
hundred groups goes back, which is an incident. So a pass finds as much to do on the last day as on the first.

The process and its JVM run under the shim of the fault tests, whose clock is set forward from pass to pass; each new
file gets the time of that clock (`bench.log_size`). A monitor writes far more commits. So a checkpoint comes after
fewer commits here (`FEWER_COMMITS`), and the bytes of logs are far fewer than a monitor's, which `bench.log_size`
shows.

For each day the program prints the processor time of each step, with that of the JVM and the workers, the resident
memory, and what lies in the warehouse when it is most. At the end it prints `du` of each table. It leaves out the first
third of the days, in which retention removes nothing, no incident is final and the JVM warms up. It compares the second
third with the last one, and ends with 1 if the time of a step, the memory, or logs and dead files have grown by more
than a fifth, or if maintenance had something to say.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench.history_cost import group_metadata
from bench.lag_cost import OFFSETS_PARTITIONS, START_MS, TOPIC_PARTITIONS, TOPICS, Past, table_rows, write_whole_log
from bench.log_size import FileTimes, VirtualClock, size_of
from groupledger.jobs.derive.history import update_history
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.derive.lag import update_lag
from groupledger.jobs.derive.offset_events import update_offset_events
from groupledger.jobs.ingest.coverage import write_coverage
from groupledger.jobs.ingest.samples import batch_of
from groupledger.jobs.process.arrow_memory import give_back_what_is_free
from groupledger.jobs.process.clock import DAY_MS, now_ms
from groupledger.jobs.process.session import spark_session
from groupledger.jobs.process.settings import overlaid
from groupledger.jobs.warehouse import deletions
from groupledger.jobs.warehouse.maintain import maintain, retention_of
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.all_tables import all_tables
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.watermarks import WATERMARKS
from lab.faults.processes import processes_of, resident_mib
from lab.faults.shim import Shim, build_shim
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.source import LedgerSource
    from groupledger.schemas.tables.table import Table

PASSES_A_DAY, ROUNDS_A_DAY, REBALANCED_EVERY = 2, 96, 16
ROUNDS = ROUNDS_A_DAY // PASSES_A_DAY
# A checkpoint comes after fewer commits, and maintenance leaves as many of the old ones.
FEWER_COMMITS = 25
GROWTH_MAX = 1.2
TICKS_A_S = os.sysconf("SC_CLK_TCK")
# The clock jumps, and Spark may not think that it has lost its executor.
OF_A_JUMPING_CLOCK = {"spark.network.timeout": "3650d"}
RETAINED, RETENTION_DAYS = (COORDINATOR_RECORDS, WATERMARKS, GROUP_STATES, LAG), 7
FINAL_AFTER_DAYS = 3  # so that a pass over all groups reads six days


@dataclass
class Day:
    """What the passes of a day took and left. `steps` has the seconds of processor time of each pass, by step."""

    steps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    memory_mib: dict[str, int] = field(default_factory=dict)
    held: str = ""  # in Python at the end of the day
    live_bytes: int = 0
    log_and_dead_bytes: int = 0
    files: int = 0
    versions: int = 0

    def figures(self) -> Iterator[tuple[str, float]]:
        """Yields what must not grow."""
        yield from ((f"{name}, s of processor time a pass", median(seconds)) for name, seconds in self.steps.items())
        yield from ((f"memory of {name}, MiB", mib) for name, mib in self.memory_mib.items())
        yield "logs and dead files, MB", self.log_and_dead_bytes / 1e6


@dataclass(frozen=True)
class Month:
    ledger: Ledger
    past: Past
    clock: VirtualClock
    times: FileTimes
    source: LedgerSource
    findings: list[str] = field(default_factory=list)

    def day(self, number: int) -> Day:
        found = Day()
        for turn in range(PASSES_A_DAY):
            first = 1 + (number * PASSES_A_DAY + turn) * ROUNDS
            self._take(first)
            for name, job in JOBS.items():
                found.steps[name].append(self._seconds(partial(job, self.ledger)))
            self._set_times()
            self._measure(found)
            found.steps["maintenance"].append(self._seconds(self._maintain))
            self._set_times()
            self._measure(found)
        return found

    def _take(self, first: int) -> None:
        """Appends the rounds of a pass, and sets the clock to the end of the last one."""
        ledger, numbers = self.ledger, np.arange(first, first + ROUNDS)
        last_ms = int(self.past.at_ms(numbers[-1]))
        self.clock.set(last_ms + 1_000)
        self.past.append(ledger, first, ROUNDS, with_lag=False)
        ledger.commits.append(COORDINATOR_RECORDS, rebalances(self.past, ledger.cluster, numbers))
        states = group_states(self.past, ledger.cluster, numbers)
        ledger.commits.append(GROUP_STATES, states, batch_of(ledger, GROUP_STATES, last_ms))
        ends = {each: int(numbers[-1] + 1) * self.past.groups * TOPIC_PARTITIONS for each in range(OFFSETS_PARTITIONS)}
        write_coverage(ledger, self.source, ends, last_ms)

    def _maintain(self) -> None:
        ledger, now = self.ledger, instant_of_ms(now_ms())
        steps = maintain(
            *(ledger.spark, ledger.warehouse, ledger.settings, now),
            is_dry_run=False,
            say=lambda _: None,
            held=[ledger.lease],
        )
        self.findings.extend(f"{each.table}: {each.action}: {each.outcome}" for each in steps if each.is_finding)

    @staticmethod
    def _seconds(act: Callable[[], object]) -> float:
        before = processor_s()
        act()
        return processor_s() - before

    def _set_times(self) -> None:
        for table in tables_of(self.ledger):
            self.times.set(table, now_ms())

    def _measure(self, found: Day) -> None:
        """Keeps the most that there was on the day."""
        sizes = [size_of(Path(self.ledger.warehouse), table) for table in tables_of(self.ledger)]
        found.live_bytes = max(found.live_bytes, sum(each.live_bytes for each in sizes))
        found.log_and_dead_bytes = max(found.log_and_dead_bytes, sum(each.log_and_dead_bytes for each in sizes))
        found.files = max(found.files, sum(each.live_files + each.dead_files for each in sizes))
        found.versions = max(found.versions, sum(each.versions for each in sizes))
        memory = {"Python": Path("/proc/self"), "the JVM": Path(f"/proc/{java_process()}")}
        for name, process in memory.items():
            found.memory_mib[name] = max(found.memory_mib.get(name, 0), resident_mib(process))
        found.held = held()


JOBS: dict[str, Callable[[Ledger], object]] = {
    "history": lambda ledger: update_history(ledger, threading.Event()),
    "lag": lambda ledger: update_lag(ledger, threading.Event()),
    "offset events": update_offset_events,
    "incidents": update_incidents,
}


# What the topic and the samples get


def rebalances(past: Past, cluster: str, numbers: Any) -> pa.Table:
    """Returns a record for each group that replaces one of its two members in a round. In the partitions of the other
    groups its offset is taken, but not in its own."""
    rounds = [(int(number), group) for number in numbers for group in range(past.groups)]
    due = [(number, group) for number, group in rounds if number == 1 or (number + group) % REBALANCED_EVERY == 0]
    at_ms = [int(past.at_ms(number)) - 2 for number, _ in due]
    records = [record_of(number, group, each_ms) for (number, group), each_ms in zip(due, at_ms, strict=True)]
    columns = {
        "kafka_partition": [group % OFFSETS_PARTITIONS for _, group in due],
        "kafka_offset": [(number * past.groups + group) * TOPIC_PARTITIONS - 1 for number, group in due],
        "kafka_timestamp": np.array(at_ms) * 1_000,
        "record_type": ["group_metadata"] * len(due),
        "is_tombstone": np.zeros(len(due), bool),
        "group_id": [f"group-{group}" for _, group in due],
        "ingest_date": np.array(at_ms) // DAY_MS,
        "record_json": records,
    }
    return table_rows(COORDINATOR_RECORDS, cluster, columns)


def record_of(number: int, group: int, at_ms: int) -> str:
    generation = (number + group) // REBALANCED_EVERY + 1
    slots = [f"member-{group}-{each}" for each in (generation, generation + 1)]
    return group_metadata(generation, slots, f"topic-{group % TOPICS}", TOPIC_PARTITIONS, at_ms)


def group_states(past: Past, cluster: str, numbers: Any) -> pa.Table:
    at_ms = past.at_ms(np.repeat(numbers, past.groups))
    columns = {
        "sampled_at": at_ms * 1_000,
        "sample_date": at_ms // DAY_MS,
        "group_id": [f"group-{each}" for each in range(past.groups)] * len(numbers),
        "group_type": ["classic"] * len(at_ms),
        "state": ["Stable"] * len(at_ms),
        "member_count": [2] * len(at_ms),
    }
    return table_rows(GROUP_STATES, cluster, columns)


# What the processes take


def processor_s() -> float:
    """Returns the processor time of this process, its JVM and the workers, with that of workers that have ended."""
    ticks = 0
    for process in processes_of(os.getsid(0)):
        with suppress(OSError):  # it has ended
            ticks += sum(map(int, (process / "stat").read_text().rsplit(")", 1)[1].split()[11:15]))
    return ticks / TICKS_A_S


class MallocInfo(ctypes.Structure):
    """What the C library says of its heap, as its `struct mallinfo2` has it."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def held() -> str:
    """Returns what Python holds: its objects, and what the heaps of C and of Arrow have in use and have kept. Resident
    memory that grows while these stay is that of allocators."""
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = MallocInfo
    heap = mallinfo()
    sizes = (heap.uordblks + heap.hblkhd, heap.fordblks, pa.total_allocated_bytes())
    in_use, kept, of_arrow = (f"{size >> 20:,}" for size in sizes)
    return f"{len(gc.get_objects()):,} objects of Python, C {in_use} in use and {kept} kept, Arrow {of_arrow}"


def java_process() -> int:
    for process in processes_of(os.getsid(0)):
        with suppress(OSError):
            if (process / "comm").read_text() == "java\n":
                return int(process.name)
    raise RuntimeError("the JVM has ended")


def tables_of(ledger: Ledger) -> list[Table]:
    return [table for table in all_tables() if ledger.exists(table)]


# The run


def run(arguments: argparse.Namespace, warehouse: Path) -> int:
    clock, spark = VirtualClock(), spark_session("groupledger month", OF_A_JUMPING_CLOCK)
    clock.set(START_MS)
    past = Past(arguments.groups, ROUNDS_A_DAY, rewound_every=100)
    with open_test_ledger(spark, warehouse) as opened:
        wanted = {"maintain": maintenance_of(opened), "incidents": {"final_after_s": FINAL_AFTER_DAYS * 86_400}}
        ledger = replace(opened, settings=overlaid(opened.settings, wanted))
        ledger.create(COORDINATOR_RECORDS, COVERAGE, WATERMARKS, GROUP_STATES)
        month = Month(ledger, past, clock, FileTimes(warehouse), write_whole_log(ledger))
        days = []
        for number in range(arguments.days):
            days.append(month.day(number))
            show(number, days[-1])
        for table in tables_of(ledger):
            size = size_of(warehouse, table)
            print(f"  {table.name:24}{du_mb(size.live_bytes)}{du_mb(size.log_and_dead_bytes)}", flush=True)
    spark.stop()
    return judge(days, month.findings)


def maintenance_of(ledger: Ledger) -> dict[str, Any]:
    intervals = {each.name: retention_of(ledger.settings, each).checkpoint_interval for each in all_tables()}
    deletions.COMMITS_PER_OLD_CHECKPOINT //= FEWER_COMMITS
    return {
        "checkpoint_intervals": {name: max(1, each // FEWER_COMMITS) for name, each in intervals.items()},
        "retention_days": {table.name: RETENTION_DAYS for table in RETAINED},
    }


def du_mb(size: int) -> str:
    return f"{size / 1e6:12,.1f}"


def show(number: int, day: Day) -> None:
    steps = ", ".join(f"{name} {median(seconds):.2f}" for name, seconds in day.steps.items())
    memory = ", ".join(f"{name} {mib:,}" for name, mib in day.memory_mib.items())
    print(
        f"day {number + 1}: s of processor time: {steps}; MiB: {memory} ({day.held}); MB: live"
        f" {day.live_bytes / 1e6:,.0f}, logs and dead files {day.log_and_dead_bytes / 1e6:,.0f};"
        f" {day.files:,} files, {day.versions:,} versions",
        flush=True,
    )


def judge(days: list[Day], findings: list[str]) -> int:
    """Prints what the thirds of the month differ by, and returns the exit code."""
    third = len(days) // 3
    middle, last = (thirds(days[at : at + third]) for at in (third, 2 * third))
    grown = False
    for name, before in middle.items():
        has_grown = last[name] > GROWTH_MAX * before
        grown |= has_grown
        print(f"{name:50}{before:12,.2f}{last[name]:12,.2f}{'  has grown' if has_grown else ''}")
    print("\n".join(findings) or "maintenance: every step was done")
    return int(grown or bool(findings))


def thirds(days: list[Day]) -> dict[str, float]:
    found = defaultdict(list)
    for day in days:
        for name, value in day.figures():
            found[name].append(value)
    return {name: median(values) for name, values in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--keep", type=Path, help="keep the warehouse in this new directory")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groupledger-month-") as made:
        folder = Path(made)
        if "FAULT_PAGE" in os.environ:
            warehouse = arguments.keep or folder / "warehouse"
            warehouse.mkdir()
            return run(arguments, warehouse)
        # A shim is loaded when a process starts.
        shim = Shim(build_shim(folder), folder / "nothing", folder)
        again = [sys.executable, "-m", "bench.month", *sys.argv[1:]]
        give_back_what_is_free()  # as a command does
        environment = os.environ | shim.environment
        child = subprocess.Popen(again, env=environment, start_new_session=True)
        code = child.wait()
        while any(processes_of(child.pid)):  # the JVM needs the shim to its end
            time.sleep(0.1)
        return code


if __name__ == "__main__":
    sys.exit(main())
