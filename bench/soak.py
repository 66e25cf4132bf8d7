"""Runs a monitor for hours on a busy broker, and shows whether a resource grows that should not.

    python -m bench.soak [--minutes 120] [--groups 2000] [--partitions 5] [--interval 30s] [--keep DIRECTORY]

Each group commits all its partitions about twice a minute, while records are produced. One of a hundred commits goes
back, which is an incident. Three consumers of one group come and go, so that there are rebalances. The monitor does
everything that it usually does: rounds, history, incidents, and its maintenance once an hour.

Once a minute the program records the resources of the processes (memory, threads, open files, and those of Python's own
process separately), the contents of the warehouse and of the temporary folder (files, bytes, versions), and the time of
the steps. The first quarter, in which the monitor warms up, is left out. The first third of the rest is compared with
the last third. The run ends with 1 if resources, temporary files or the time of a round have grown by more than a
third, or if a round failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TextIO

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from prometheus_client.parser import text_string_to_metric_families

from bench.freshness import HEALTHY_SECONDS_MAX, SIGTERM_CODE, wait_for
from groupledger.coordinator.model.messages import OffsetCommitRequest, OffsetToCommit
from lab.faults.processes import MIB, processes_of, resident_mib
from lab.kafka.connection import Connection
from lab.kafka.group_messages import to_wire
from lab.kafka.local_broker import LocalBroker
from lab.kafka.local_traffic import make_offsets_topic
from lab.kafka.monitor_process import SERVED, fetch, is_healthy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TOPIC, RESTLESS = "soak", "soak-restless"
COMMIT_EVERY_S = 30.0
REWIND_SHARE = 0.01
MEMBERS, STAYS_S = 3, 120
RECORDS_PER_S = 200
SETTINGS = "monitor: {maintain_interval_h: 1}\n"
OWN = ("own_memory_mib", "own_threads", "own_open_files")
HELD = ("memory_mib", "threads", "open_files", *OWN, "temporary_files")
MUST_BE_FLAT = (*HELD, "round_s")
GROWTH_MAX = 4 / 3
FAILED = "groupledger_rounds_failed_total"
OF_METRICS = {
    "groupledger_round_seconds": "round_s",
    "groupledger_waiting_rounds": "waiting_rounds",
    "groupledger_step_seconds": "step_s",
    FAILED: "rounds_failed",
}


# Traffic


def commit(bootstrap_servers: str, groups: int, partitions: int, stop: threading.Event) -> None:
    """Commits the offsets of one group after the other, for all of them within `COMMIT_EVERY_S`."""
    chance, requests = random.Random(1), count()  # noqa: S311 - repeatable, not secret
    at = Counter[int]()
    with closing(Connection(bootstrap_servers)) as connection:
        while not stop.is_set():
            for group in range(groups):
                stop.wait(COMMIT_EVERY_S / groups)
                at[group] += chance.randrange(5) if chance.random() >= REWIND_SHARE else -min(at[group], 50)
                offsets = tuple(
                    OffsetToCommit(topic=TOPIC, partition=partition, offset=at[group])
                    for partition in range(partitions)
                )
                request = OffsetCommitRequest(next(requests), group_id=f"{TOPIC}-{group:05}", offsets=offsets)
                connection.call(to_wire(request))


def produce(bootstrap_servers: str, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    while not stop.wait(1):
        for _ in range(RECORDS_PER_S):
            producer.produce(TOPIC, b"")
        producer.flush()


def come_and_go(bootstrap_servers: str, number: int, stop: threading.Event) -> None:
    """Joins and leaves one group again and again."""
    chance = random.Random(number)  # noqa: S311 - repeatable, not secret
    while not stop.is_set():
        consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": RESTLESS})
        consumer.subscribe([TOPIC])
        until_s = time.monotonic() + chance.uniform(STAYS_S / 4, STAYS_S)
        while time.monotonic() < until_s and not stop.is_set():
            consumer.consume(1_000, 1.0)
        consumer.close()


# Measurements


def held_by(session: int) -> Counter[str]:
    """Returns the resources of all processes of a session, and those of its first process."""
    found = Counter[str]()
    first = Path("/proc") / str(session)
    found["own_memory_mib"] = resident_mib(first)
    found["own_threads"], found["own_open_files"] = (len(list((first / name).iterdir())) for name in ("task", "fd"))
    for folder in processes_of(session):
        with suppress(OSError):
            found["memory_mib"] += resident_mib(folder)
            found["threads"] += len(list((folder / "task").iterdir()))
            found["open_files"] += len(list((folder / "fd").iterdir()))
    return found


def lying_in(warehouse: Path, temporary: Path) -> Counter[str]:
    found = Counter[str]()
    for folder, _, names in os.walk(warehouse):
        found["warehouse_files"] += len(names)
        found["versions"] += sum(name.endswith(".json") for name in names) if folder.endswith("_delta_log") else 0
        for name in names:
            with suppress(OSError):
                found["warehouse_mib"] += (Path(folder) / name).stat().st_size
    found["warehouse_mib"] //= MIB
    found["temporary_files"] = sum(len(names) for _, _, names in os.walk(temporary))
    return found


def metrics_of(address: str) -> dict[str, float]:
    """Returns the monitor's metrics about its rounds and steps."""
    found = {}
    for family in text_string_to_metric_families(fetch(f"{address}/metrics")):
        for sample in family.samples:
            if sample.name in OF_METRICS:
                step = sample.labels.get("step")
                found["_".join(filter(None, (step, OF_METRICS[sample.name])))] = sample.value
    return found


# The run


def run(arguments: argparse.Namespace, folder: Path) -> list[dict[str, float]]:
    stop, warehouse, log, temporary = threading.Event(), folder / "warehouse", folder / "monitor.log", folder / "tmp"
    temporary.mkdir()
    (folder / "settings.yaml").write_text(SETTINGS)
    with ExitStack() as opened:
        broker = opened.enter_context(LocalBroker(folder / "kafka", jvm_options=()))
        servers = broker.bootstrap_servers
        make_offsets_topic(servers)
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(TOPIC, arguments.partitions, 1)])[TOPIC].result()
        del admin  # or it would log errors when the broker stops
        traffic = [
            threading.Thread(target=commit, args=(servers, arguments.groups, arguments.partitions, stop)),
            threading.Thread(target=produce, args=(servers, stop)),
            *(threading.Thread(target=come_and_go, args=(servers, number, stop)) for number in range(MEMBERS)),
        ]
        for each in traffic:
            each.start()
            opened.callback(each.join)
        opened.callback(stop.set)
        monitor = start(arguments, folder, servers, opened.enter_context(log.open("w")))
        try:
            wait_for(lambda: SERVED.search(log.read_text()) is not None, HEALTHY_SECONDS_MAX, "the metrics")
            address = SERVED.findall(log.read_text())[0]
            wait_for(lambda: is_healthy(address), HEALTHY_SECONDS_MAX, "a healthy monitor")
            rows = list(watch(arguments.minutes, monitor, address, warehouse, temporary, folder / "samples.jsonl"))
        finally:
            monitor.send_signal(signal.SIGTERM)
            code = monitor.wait(HEALTHY_SECONDS_MAX)
    assert code == SIGTERM_CODE, log.read_text()[-2_000:]
    return rows


def start(arguments: argparse.Namespace, folder: Path, servers: str, words: TextIO) -> subprocess.Popen[bytes]:
    given = ["--bootstrap-servers", servers, "--warehouse", str(folder / "warehouse"), "--metrics-port", "0"]
    given += ["--interval", arguments.interval, "--conf", str(folder / "settings.yaml")]
    return subprocess.Popen(
        [sys.executable, "-m", "groupledger.jobs.cli.main", "monitor", *given],
        stderr=words,
        env={**os.environ, "TMPDIR": str(folder / "tmp")},
        start_new_session=True,
    )


def watch(
    minutes: float, monitor: subprocess.Popen[bytes], address: str, warehouse: Path, temporary: Path, samples: Path
) -> Iterator[dict[str, float]]:
    """Yields the measurements once a minute."""
    began_s = time.monotonic()
    with samples.open("w") as lines:
        for minute in count(1):
            time.sleep(max(0.0, began_s + 60 * minute - time.monotonic()))
            assert monitor.poll() is None, "the monitor has ended"
            row = {**held_by(monitor.pid), **lying_in(warehouse, temporary), **metrics_of(address)}
            lines.write(json.dumps({"minute": minute, **row}) + "\n")
            lines.flush()
            if minute % 10 == 0:
                print(minute, row, flush=True)
            yield row
            if minute >= minutes:
                return


def compare(rows: Sequence[dict[str, float]]) -> list[str]:
    """Prints the course of each figure, and returns those that have grown. For resources the minimum of each part
    counts: they go up and down with garbage collection, and a leak raises the minimum."""
    quarter = max(1, len(rows) // 4)
    rest = rows[quarter:]
    third = max(1, len(rest) // 3)
    parts: dict[str, list[float]] = defaultdict(list)
    for part in (rest[:third], rest[third : 2 * third], rest[-third:]):
        for name in sorted(set().union(*rest)):
            parts[name].append((min if name in HELD else median)(row.get(name, 0) for row in part))
    print(f"{'least or median, by third':28}{'first':>12}{'second':>12}{'last':>12}{'last/first':>12}")
    for name, (first, second, last) in parts.items():
        ratio = f"{last / first:.2f}" if first else "-"
        print(f"{name:28}{first:12,.2f}{second:12,.2f}{last:12,.2f}{ratio:>12}")
    grown = [name for name in MUST_BE_FLAT if name in parts and parts[name][2] > GROWTH_MAX * parts[name][0]]
    return grown + [name for name in ("rounds_failed",) if rows[-1].get(name)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=5)
    parser.add_argument("--interval", default="30s")
    parser.add_argument("--keep", type=Path, help="where all of it stays")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        grown = compare(run(arguments, folder.resolve()))
        words = (folder / "monitor.log").read_text()
    warned = re.findall(r"^.*(?:WARN|ERROR|Traceback).*$", words, re.MULTILINE)
    print(f"{len(warned)} warnings of the monitor; grown: {', '.join(grown) or 'nothing'}")
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
