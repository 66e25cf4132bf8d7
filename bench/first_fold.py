"""Measures the first fold of a large table: how long it takes, and the most memory that its processes have.

    python -m bench.first_fold [--records 50000000] [--groups 10000] [--driver-memory 2g] [--unit 5000000] [--kills 0] \
        [--rebuild | --backlog]

Each group commits the offsets of four partitions in turns, and one of its three members is replaced after every five
hundred of its records. The table is written directly. Then `groupledger history` folds all of it, in units of --unit
records, in a process of its own, whose JVM has the heap of --driver-memory. The run prints the seconds, the records a
second, and the rows of each table. Twice a second it looks at the resident memory of the JVM, of Python's own process
and of its workers, and prints the maximum of each. It ends with 1 if a table has another number of rows than follows
from the records.

With --kills, the processes get SIGKILL so often, each time at a random moment, and start again. The run prints how many
seconds of work were lost, from the last unit that was done to each kill, and compares the rows of all groups with those
of one fold of everything; it ends with 1 if any differ.

With --rebuild, the history is made first, and what is measured and killed is `groupledger history --rebuild`. The run
also ends with 1 if something is left in the folder of the tables aside.

With --backlog, the history of the first tenth of the records is made first, and what is measured and killed is the pass
that folds all others, after a standstill.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from groupledger.jobs.derive import first_fold
from groupledger.jobs.derive.history import rebuild_history, update_history
from groupledger.jobs.derive.validate import damaged_groups
from groupledger.jobs.process.session import spark_session
from groupledger.jobs.warehouse.rebuild_units import FOLDER
from groupledger.jobs.warehouse.source import CAPTURE, LedgerSource, TopicIdentity, write_source
from groupledger.jobs.warehouse.storage import STATE_FOLDER, LocalStorage
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.transforms.coverage.rules.stretches import Reading
from lab.faults.processes import processes_of, resident_mib
from lab.warehouses.ledgers import make_tables, open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BEGAN_AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
PARTITIONS, UNITS, MEMBERS, REPLACED_EVERY = 50, 4, 3, 500
PIECE = 1_000_000
EVERY_S = 0.5
START_S, USUAL_RECORDS_A_SECOND = 10, 100_000


def metadata(group: int, generation: int) -> str:
    """Returns the record of a generation, in which the oldest member has been replaced."""
    names = [f"member-{group}-{number}" for number in range(generation, generation + MEMBERS)]
    member: dict[str, Any] = {"group_instance_id": None, "client_id": "bench", "client_host": "/127.0.0.1"}
    member |= {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000}
    subscribed = {"topics": ["orders"], "owned_partitions": [], "rack_id": None}
    members = []
    for number, name in enumerate(names):
        units = [{"topic": "orders", "partitions": [*range(number, UNITS, MEMBERS)]}]
        words = {"consumer_subscription": subscribed, "consumer_assignment": {"assigned_partitions": units}}
        members.append({"member_id": name, **member, **words})
    header = {"generation": generation, "protocol_type": "consumer", "protocol": "range", "leader": names[0]}
    return json.dumps({**header, "current_state_timestamp_ms": 0, "members": members})


def pieces(begin: int, end: int, groups: int) -> Iterator[pa.Table]:
    """Yields the records from one number to another, a million at a time, a millisecond after one another."""
    schema = schema_of(COORDINATOR_RECORDS.name)
    names = pa.array([f"group-{group}" for group in range(groups)])
    commit_type = schema.field("offset_commit").type
    for first in range(begin, end, PIECE):
        numbers = np.arange(first, min(first + PIECE, end))
        turn, group = numbers // groups, numbers % groups
        is_commit = turn % REPLACED_EVERY != 0
        at_ms = numbers + int(BEGAN_AT.timestamp() * 1_000)
        of_commit = {
            "topic": pa.array(["orders"]).take(pa.array(np.zeros(len(numbers), np.int64))),
            "partition": pa.array((turn % UNITS).astype(np.int32)),
            "offset": pa.array(turn),
            "commit_timestamp_ms": pa.array(at_ms),
        }
        commits = [of_commit.get(each.name, pa.nulls(len(numbers), each.type)) for each in commit_type]
        generation = turn // REPLACED_EVERY + 1
        texts = [None if is_commit[at] else metadata(int(group[at]), int(generation[at])) for at in range(len(numbers))]
        columns = {
            "cluster": pa.repeat("test", len(numbers)),
            "kafka_partition": pa.array((group % PARTITIONS).astype(np.int32)),
            "kafka_offset": pa.array(numbers),
            "kafka_timestamp": pa.array(at_ms).cast(pa.timestamp("ms", "UTC")),
            "record_type": pa.array(np.where(is_commit, "offset_commit", "group_metadata")),
            "is_tombstone": pa.repeat(pa.scalar(value=False), len(numbers)),
            "group_id": names.take(pa.array(group)),
            "ingest_date": pa.repeat((BEGAN_AT + timedelta(milliseconds=first)).date(), len(numbers)),
            "offset_commit": pa.StructArray.from_arrays(commits, fields=[*commit_type], mask=pa.array(~is_commit)),
            "record_json": pa.array(texts, pa.string()),
        }
        yield pa.table(
            [columns.get(each.name, pa.nulls(len(numbers), each.type)).cast(each.type) for each in schema],
            schema=schema,
        )


def write_records(warehouse: Path, records: int, groups: int) -> None:
    make_tables(warehouse, COORDINATOR_RECORDS)
    born = Reading(from_offset=0, complete_from=0, complete_from_ms=0)
    readings = {partition: [born] for partition in range(PARTITIONS)}
    source = LedgerSource(CAPTURE, TopicIdentity("c", "t", PARTITIONS), readings)
    write_source(LocalStorage(warehouse), "test", source)
    append_records(warehouse, 0, records, groups)


def append_records(warehouse: Path, begin: int, end: int, groups: int) -> None:
    for piece in pieces(begin, end, groups):
        write_deltalake(str(warehouse / COORDINATOR_RECORDS.name), piece, mode="append")


def fold(warehouse: Path, memory: str, unit: int, *, is_rebuild: bool) -> None:
    """Folds the table, and prints a line after each unit."""
    spark = spark_session("groupledger first fold", {"spark.driver.memory": memory})
    with (
        patch.object(first_fold, "RECORDS_PER_UNIT", unit),
        open_test_ledger(spark, warehouse) as ledger,
    ):
        job = rebuild_history if is_rebuild else update_history
        job(replace(ledger, say=lambda text: print(text, flush=True)), threading.Event())
    spark.stop()


def count_differences(warehouse: Path, memory: str) -> None:
    """Prints for how many groups the rows of a table are not those of one fold of everything."""
    spark = spark_session("groupledger first fold", {"spark.driver.memory": memory})
    with open_test_ledger(spark, warehouse) as ledger:
        print(len(damaged_groups(ledger)))
    spark.stop()


def resident(session: int) -> Counter[str]:
    """Returns the resident MiB of the processes of a session, by kind of process."""
    found = Counter[str]()
    for folder in processes_of(session):
        with suppress(OSError):  # it has ended
            name = "JVM" if "java" in (folder / "comm").read_text() else "workers"
            kind = "driver" if int(folder.name) == session else name
            found[kind] += resident_mib(folder)
    return found


def run_once(words: list[str], kill_after_s: float, most: Counter[str]) -> float | None:
    """Runs the fold in a process, and kills it after some time. Returns the seconds since its last unit was done, or
    since its start, if it was killed, else None. Raises the maxima of memory in `most`."""
    begun_s = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        done_s = [begun_s]
        reading = threading.Thread(target=note_units, args=(process.stdout, done_s))
        reading.start()
        while process.poll() is None and time.monotonic() - begun_s < kill_after_s:
            most |= resident(process.pid)
            time.sleep(EVERY_S)
        is_killed = process.poll() is None
        if is_killed:
            for folder in processes_of(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(int(folder.name), signal.SIGKILL)
        killed_s = time.monotonic()
        reading.join()
    if not is_killed and process.returncode:
        sys.exit(f"the fold ended with {process.returncode}")
    return killed_s - done_s[-1] if is_killed else None


def note_units(lines: Iterable[str], done_s: list[float]) -> None:
    for line in lines:
        if "records folded" in line:
            print(line, end="", flush=True)
            done_s.append(time.monotonic())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=50_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--driver-memory", default="2g")
    parser.add_argument("--unit", type=int, default=first_fold.RECORDS_PER_UNIT)
    parser.add_argument("--kills", type=int, default=0)
    of_what = parser.add_mutually_exclusive_group()
    of_what.add_argument("--rebuild", action="store_true")
    of_what.add_argument("--backlog", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fold", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--compare", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.fold:
        fold(asked.fold, asked.driver_memory, asked.unit, is_rebuild=asked.rebuild)
    elif asked.compare:
        count_differences(asked.compare, asked.driver_memory)
    else:
        measure(asked)


def measure(asked: argparse.Namespace) -> None:
    source = Random(asked.seed)  # noqa: S311 - not for secrets
    with tempfile.TemporaryDirectory(prefix="groupledger-first-fold-") as folder:
        warehouse = Path(folder)
        before = asked.records // 10 if asked.backlog else 0
        write_records(warehouse, before or asked.records, asked.groups)
        print(f"{before or asked.records:,} records of {asked.groups:,} groups are written", flush=True)
        common = [sys.executable, "-m", "bench.first_fold", "--driver-memory", asked.driver_memory]
        words = [*common, "--fold", folder, "--unit", f"{asked.unit}"]
        if asked.rebuild:
            run_once(words, math.inf, Counter())
            print("the history is made; now it is rebuilt", flush=True)
            words.append("--rebuild")
        if asked.backlog:
            run_once(words, math.inf, Counter())
            append_records(warehouse, before, asked.records, asked.groups)
            print(f"the history is made; now {asked.records - before:,} records are new", flush=True)
        most = Counter[str]()
        begun_s, lost_s = time.monotonic(), list[float]()
        # At the usual speed the kills are spread over the whole run.
        apart_s = START_S + asked.records / USUAL_RECORDS_A_SECOND / (asked.kills + 1)
        while len(lost_s) < asked.kills:
            lost = run_once(words, source.uniform(0, 2 * apart_s), most)
            if lost is None:
                break
            lost_s.append(lost)
        else:
            run_once(words, math.inf, most)
        took_s = time.monotonic() - begun_s
        rows = {name: DeltaTable(warehouse / name).count() for name in ("generations", "members", "open_groups")}
        left_aside = LocalStorage(warehouse).names(f"{STATE_FOLDER}/test/{FOLDER}")
        differing = 0
        if asked.kills:
            compared = subprocess.run([*common, "--compare", folder], stdout=subprocess.PIPE, text=True, check=True)
            differing = int(compared.stdout.split()[-1])
            print(f"{len(lost_s)} kills, {sum(lost_s):.1f} s of work lost; groups with other rows: {differing}")
    print(f"{took_s:.1f} s, {(asked.records - before) / took_s:,.0f} records/s; most MiB: {dict(most)}; rows: {rows}")
    turns = -(-asked.records // asked.groups)
    generations = asked.groups * -(-turns // REPLACED_EVERY)
    expected = {"generations": generations, "members": generations + (MEMBERS - 1) * asked.groups}
    sys.exit(int(rows != {**expected, "open_groups": asked.groups} or differing > 0 or bool(left_aside)))


if __name__ == "__main__":
    main()
