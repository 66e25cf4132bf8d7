"""Measures how long it takes from a commit on a real broker to its value on `/metrics`, and to the table `lag`.

    python -m bench.freshness [--commits 2000] [--groups 20] [--seconds 200] [--warm-up 60] [--interval 5s]

Groups commit at random instants. For each commit the program measures the time until the metrics or the table first
show this commit or a later one. Only the broker, the monitor and this process run. The program prints the median, the
99th percentile and the maximum of both times, separately for the first seconds of a JVM and for the time after them. It
also prints the time of a batch, and the sizes of the tables at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from groupledger.jobs.warehouse.delta_log import added_by
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.tables.lag import LAG
from lab.kafka.local_broker import LocalBroker
from lab.kafka.local_traffic import make_offsets_topic
from lab.kafka.monitor_process import SERVED, fetch, is_healthy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOPIC = "freshness"
OFFSET = re.compile(
    r'^kafka_consumergroup_group_offset\{(?=[^}]*group="freshness-(\d+)").*\} ([0-9.e+]+)$', re.MULTILINE
)
BATCH = re.compile(r"^batch \d+: .* in ([0-9.]+) s", re.MULTILINE)
POLL_S = 0.05
HEALTHY_SECONDS_MAX = 600
SIGTERM_CODE = 143
DRAIN_SECONDS_MAX = 120
TABLES = ("coordinator_records", "watermarks", "group_states", "lag")


class Seen:
    """Records when each group committed a value, and when it was first seen."""

    def __init__(self) -> None:
        self.committed: dict[int, list[tuple[int, float]]] = defaultdict(list)
        self.delays: list[tuple[float, float]] = []  # when it was committed, and how long it took
        self._next: dict[int, int] = defaultdict(int)

    def look(self, values: Iterator[tuple[int, int]]) -> None:
        now_s = time.monotonic()
        for group, value in values:
            commits = self.committed[group]
            while self._next[group] < len(commits) and commits[self._next[group]][0] <= value:
                committed_s = commits[self._next[group]][1]
                self.delays.append((committed_s, now_s - committed_s))
                self._next[group] += 1


class LagTable:
    """Follows the versions of the table's log."""

    def __init__(self, warehouse: Path) -> None:
        self._folder = warehouse / LAG.name
        self._storage = LocalStorage(warehouse)
        self._version = 0

    def new_values(self) -> Iterator[tuple[int, int]]:
        while (added := added_by(self._storage, LAG, self._version)) is not None:
            for path in added.files:
                table = pq.read_table(self._folder / path, columns=["group_id", "committed_offset"], partitioning=None)
                for row in table.to_pylist():
                    if row["group_id"].startswith(f"{TOPIC}-") and row["committed_offset"] is not None:
                        yield int(row["group_id"].removeprefix(f"{TOPIC}-")), row["committed_offset"]
            self._version += 1


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline_s = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(POLL_S)


def commit_at_random(bootstrap_servers: str, group: int, seen: list[Seen], count: int, seconds: float) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": f"{TOPIC}-{group}"})
    chance = random.Random(group)  # noqa: S311 - repeatable, not secret
    began_s = time.monotonic()
    for number, at_s in enumerate(sorted(chance.uniform(0, seconds) for _ in range(count)), 1):
        time.sleep(max(began_s + at_s - time.monotonic(), 0))
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, number)], asynchronous=False)
        for one in seen:
            one.committed[group].append((number, time.monotonic()))
    consumer.close()


def measure(bootstrap_servers: str, address: str, warehouse: Path, arguments: argparse.Namespace) -> tuple[Seen, Seen]:
    on_metrics, in_table, table = Seen(), Seen(), LagTable(warehouse)
    each = arguments.commits // arguments.groups
    expected: int = each * arguments.groups
    committers = [
        threading.Thread(
            target=commit_at_random, args=(bootstrap_servers, group, [on_metrics, in_table], each, arguments.seconds)
        )
        for group in range(arguments.groups)
    ]
    for committer in committers:
        committer.start()

    def look() -> bool:
        text = fetch(f"{address}/metrics")
        on_metrics.look((int(group), int(float(value))) for group, value in OFFSET.findall(text))
        in_table.look(table.new_values())
        return min(len(in_table.delays), len(on_metrics.delays)) >= expected

    wait_for(look, arguments.seconds + DRAIN_SECONDS_MAX, "all commits to be seen")
    for committer in committers:
        committer.join()
    return on_metrics, in_table


def say_parts(name: str, seen: Seen, warm_up_s: float) -> None:
    began_s = min(committed_s for committed_s, _ in seen.delays)
    cold = [delay_s for committed_s, delay_s in seen.delays if committed_s < began_s + warm_up_s]
    say(name, [delay_s for committed_s, delay_s in seen.delays if committed_s >= began_s + warm_up_s])
    say(f"  in the first {warm_up_s:.0f} s", cold)


def say(name: str, values: list[float]) -> None:
    ordered = sorted(values)
    print(
        f"{name:32} median {median(ordered):5.1f} s   99 % {ordered[int(len(ordered) * 0.99)]:5.1f} s"
        f"   worst {ordered[-1]:5.1f} s   of {len(ordered):,}"
    )


def files_of(warehouse: Path, table: str) -> tuple[int, int]:
    """Returns the numbers of data files and of versions of a table."""
    versions = list((warehouse / table / "_delta_log").glob("*.json"))
    files = sum(1 for version in versions for line in version.read_text().splitlines() if "add" in json.loads(line))
    return files, len(versions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commits", type=int, default=2_000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=200, help="with the warm-up")
    parser.add_argument("--warm-up", type=float, default=60)
    parser.add_argument("--interval", default="5s")
    arguments = parser.parse_args()
    if arguments.seconds <= arguments.warm_up:
        parser.error("--seconds includes the warm-up, and must be longer.")
    with tempfile.TemporaryDirectory() as name, LocalBroker(Path(name) / "kafka", jvm_options=()) as broker:
        servers, warehouse, log = broker.bootstrap_servers, Path(name) / "warehouse", Path(name) / "monitor.log"
        make_offsets_topic(servers)
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
        producer = Producer({"bootstrap.servers": servers})
        for _ in range(arguments.commits):
            producer.produce(TOPIC, b"")
        producer.flush()
        del admin, producer  # or they would log errors when the broker stops
        command = ["monitor", "--bootstrap-servers", servers, "--warehouse", str(warehouse), "--metrics-port", "0"]
        with log.open("w") as words:
            monitor = subprocess.Popen(
                [sys.executable, "-m", "groupledger.jobs.cli.main", *command, "--interval", arguments.interval],
                stderr=words,
            )
        try:
            wait_for(lambda: SERVED.search(log.read_text()) is not None, HEALTHY_SECONDS_MAX, "the metrics")
            address = SERVED.findall(log.read_text())[0]
            wait_for(lambda: is_healthy(address), HEALTHY_SECONDS_MAX, "a healthy monitor")
            on_metrics, in_table = measure(servers, address, warehouse, arguments)
        finally:
            monitor.send_signal(signal.SIGTERM)
            code = monitor.wait(HEALTHY_SECONDS_MAX)
        assert code == SIGTERM_CODE, log.read_text()
        print(f"every {arguments.interval}, {arguments.groups} groups:")
        say_parts("commit to /metrics", on_metrics, arguments.warm_up)
        say_parts("commit to the table lag", in_table, arguments.warm_up)
        say("one batch of the ingest", [float(seconds) for seconds in BATCH.findall(log.read_text())])
        for table in TABLES:
            files, versions = files_of(warehouse, table)
            print(f"{table:32} {files:,} files in {versions:,} versions")


if __name__ == "__main__":
    main()
