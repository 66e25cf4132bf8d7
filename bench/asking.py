"""Measures how long questions take: as commands, each in a process of its own, and as pages of a server that runs.

    python -m bench.asking [--groups 40] [--partitions 10] [--times 5] [--large 10000] [--reference]
        [--python PATH]

Without --large each group of the warehouse has three rounds of lag, and one group has 50 rebalances. --large makes a
warehouse of that many groups with twenty partitions each and a year of history (bench.large_warehouse). --reference
also measures three references: a Python that does nothing; a Spark session that is started and stopped, which any
answer with Spark needs at least; and `kafka-consumer-groups --describe` of a broker that has no groups, which is the
least that Kafka's tool needs. --python runs the commands with the Python of another installation, for example of one
without the extra `spark`. pip has compiled the modules of such an installation; those of an editable installation are
compiled by the first run of a command, which is not counted. For each command and page it prints p50 and p95 of the
time of `--times` runs, and p50 of the processor time, which other work on the machine changes little. bench.burrow asks
Burrow itself.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from datetime import datetime, timedelta, timezone
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from bench.large_warehouse import NOW, WEEK, make_large
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable

CLUSTER = "east"
AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
ROUNDS, REBALANCES = 3, 50
SPARK = "from groupledger.jobs.process.session import spark_session; spark_session('nothing').stop()"
# By whether they are about one group, or about all.
COMMANDS = (
    "owner g-7 orders-7 3 --at {then}",
    "group g-7",
    "why g-7 --since {since}",
    "diff g-7 --from {since}",
    "lag --group g-7",
    "offsets g-7 --at {then}",
    "rebalances --group g-7",
    "incidents --group g-7",
    "groups",
    "groups g-7*",
    "lag --by group",
    "rebalances --since {since}",
    "incidents --since {since}",
    "readers orders-7",
    "committers --since {since}",
    "sql {{select}}",
)
SELECT = "SELECT state, count(*) FROM (SELECT group_type AS state FROM groups) GROUP BY ALL"
LARGE_PARTITIONS = 20
PATHS = (
    f"/clusters/{CLUSTER}",
    f"/clusters/{CLUSTER}?q=g-7",
    f"/clusters/{CLUSTER}/groups/g-7?window=2h",
    f"/api/v1/clusters/{CLUSTER}/groups?limit=100",
    f"/api/v1/clusters/{CLUSTER}/groups/g-7",
    f"/api/v1/clusters/{CLUSTER}/groups/g-7/lag/total",
    f"/v3/kafka/{CLUSTER}/consumer/g-7/lag",
)


def write_rows(warehouse: Path, table: str, rows: list[dict[str, Any]]) -> None:
    found = pa.Table.from_pylist([{"cluster": CLUSTER, **row} for row in rows], schema_of(table))
    write_deltalake(str(warehouse / table), found, mode="append")


def write_round(warehouse: Path, groups: int, partitions: int, sampled_at: datetime) -> None:
    """Writes the lag of each partition in one sampling round."""
    of_round = {"sampled_at": sampled_at, "sample_date": sampled_at.date(), "flags": [], "status": "ok"}
    of_round |= {"lag": 7, "burrow_status": "OK", "committed_offset": 5, "high_watermark": 12}
    units = [(number, partition) for number in range(groups) for partition in range(partitions)]
    rows = [
        {"group_id": f"g-{number}", "topic": f"orders-{number}", "partition": partition, **of_round}
        for number, partition in units
    ]
    write_rows(warehouse, "lag", rows)


def make(warehouse: Path, groups: int, partitions: int) -> datetime:
    """Writes the tables: each group has a member that owns all partitions of its topic since AT. Returns the instant
    of the newest round."""
    write = partial(write_rows, warehouse)
    end = AT + 60 * MINUTE
    stretch = {"completeness": "complete", "from_offset": 0, "to_offset": 1 << 40, "from_time": AT, "to_time": end}
    write("coverage", [{"kafka_partition": partition, **stretch} for partition in range(50)])
    names = [f"g-{number}" for number in range(groups)]
    of_group = {"group_type": "classic", "is_alive": True, "is_simple": False, "incarnation": 1, "member_count": 1}
    of_group |= {"first_seen_at": AT, "last_seen_at": end, "last_commit_at": end}
    write("groups", [{"group_id": name, "kafka_partition": each % 50, **of_group} for each, name in enumerate(names)])
    generation = {"incarnation": 1, "generation": 1, "kafka_offset": 1, "started_at": AT, "is_ownership_known": True}
    generation |= {"revision": 0, "member_count": 1, "owned_count": partitions, "protocol": "range", "is_open": 1}
    write("generations", [{"group_id": name, **generation} for name in names])
    member = {"incarnation": 1, "client_id": "app", "client_host": "/10.0.0.1", "from_offset": 1, "joined_at": AT}
    member |= {"is_open": 1}
    write("members", [{"group_id": name, "member_id": f"{name}-0", **member} for name in names])
    owned = {"incarnation": 1, "other_member_ids": [], "from_offset": 1, "valid_from": AT, "is_open": 1}
    units = [(number, partition) for number in range(groups) for partition in range(partitions)]
    write(
        "assignments",
        [
            {
                "group_id": f"g-{number}",
                "topic": f"orders-{number}",
                "partition": partition,
                "member_id": f"g-{number}-0",
            }
            | owned
            for number, partition in units
        ],
    )
    for minutes in range(ROUNDS):
        write_round(warehouse, groups, partitions, end - minutes * MINUTE)
    write(
        "rebalances",
        [
            {"group_id": "g-7", "incarnation": 1, "from_generation": each, "to_generation": each + 1, "changes": []}
            | {"kafka_offset": 1_000 + each, "happened_at": AT + each * MINUTE, "inferred_trigger": "joined"}
            | {"inferred_trigger_confidence": 0.9}
            for each in range(REBALANCES)
        ],
    )
    commit = {"record_type": "offset_commit", "value_version": 3, "is_tombstone": False, "group_id": "g-7"}
    commit |= {"kafka_partition": 7, "kafka_timestamp": AT, "ingest_date": AT.date()}
    write(
        "coordinator_records",
        [
            {**commit, "kafka_offset": each, "offset_commit": {"topic": "orders-7", "partition": each, "offset": 5}}
            for each in range(partitions)
        ],
    )
    incident = {"kind": "session_expired", "severity": "warning", "is_open": True, "occurrences": 1}
    incident |= {"first_seen_at": AT, "last_seen_at": AT, "explanation": "It fell silent."}
    incident |= {"evidence": "inferred", "confidence": 0.9, "is_ambiguous": False, "probable_root": "session_expired"}
    write(
        "incidents",
        [{"group_id": name, "incident_id": name, "episode_id": name, **incident} for name in names[: groups // 20]],
    )
    return end


def measured(times: int, action: Callable[..., object], *arguments: object) -> str:
    """Runs an action several times. Returns as text p50 and p95 of its time, and p50 of the processor time of the
    processes that it started: other work on the machine does not change the latter."""
    found, of_processors = [], []
    for _ in range(times):
        begin, used = time.perf_counter(), of_children_s()
        action(*arguments)
        found.append(time.perf_counter() - begin)
        of_processors.append(of_children_s() - used)
    found.sort()
    median = f"{sorted(of_processors)[times // 2]:8.2f}" if any(of_processors) else f"{'':8}"
    return f"{found[times // 2]:8.2f} {found[-(-times * 19 // 20) - 1]:8.2f} {median}"


def of_children_s() -> float:
    used = os.times()
    return used.children_user + used.children_system


def command(python: str, warehouse: Path, words: list[str]) -> None:
    environment = {**os.environ, "GROUPLEDGER_WAREHOUSE": str(warehouse)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)
    arguments = [python, "-m", "groupledger.jobs.cli.main", *words]
    # Not in this repository, whose modules would come before those that are installed.
    subprocess.run(arguments, env=environment, check=True, capture_output=True, cwd=warehouse)


def served(warehouse: Path, log: Path | None = None, *options: str) -> tuple[subprocess.Popen[str], int, float]:
    """Returns a running server, its port, and the time until it answered. Its output goes to the log, if there is
    one."""
    begin = time.perf_counter()
    arguments = ("serve", "--warehouse", str(warehouse), "--listen", "127.0.0.1:0", *options)
    server = subprocess.Popen(
        [sys.executable, "-m", "groupledger.jobs.cli.main", *arguments], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    said = server.stderr.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)", said)
    if found is None:
        raise RuntimeError(f"the server did not start: {said}")
    # Its output on faults is read here; a full pipe that nobody reads would stop it.
    heard = sys.stderr if log is None else log.open("w", buffering=1)
    threading.Thread(target=copyfileobj, args=(server.stderr, heard, 1), daemon=True).start()
    get(int(found[1]), "/livez")
    return server, int(found[1]), time.perf_counter() - begin


def status_of(port: int, path: str) -> int:
    """Sends a request over a connection of its own, and returns the status when the whole response has come."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=600)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status


def get(port: int, path: str) -> None:
    status = status_of(port, path)
    assert status == HTTPStatus.OK, (path, status)


def measure(python: str, warehouse: Path, times: int, since: datetime, then: datetime) -> None:
    """Prints a line for each command and path: p50 and p95 in seconds."""
    instants = {"since": f"{since:%Y-%m-%dT%H:%MZ}", "then": f"{then:%Y-%m-%dT%H:%MZ}"}
    for text in COMMANDS:
        words = [SELECT if word == "{select}" else word for word in text.format(**instants).split()]
        command(python, warehouse, words)
        print(f"{measured(times, command, python, warehouse, words)}  {' '.join(words)}", flush=True)
    server, port, ready = served(warehouse)
    try:
        print(f"{ready:8.2f} {'':17}  serve: until it answers")
        for path in PATHS:
            print(f"{measured(times, get, port, path)}  {path}", flush=True)
    finally:
        server.terminate()
        server.wait(timeout=60)


def measure_references(times: int) -> None:
    # Which the tests that make a warehouse by this module do without.
    from lab.kafka.local_broker import LocalBroker, run_tool
    from lab.kafka.offset_removals import GROUPS_TOOL

    for code, what in (("", "a Python that does nothing"), (SPARK, "a Spark session that does nothing")):
        print(f"{measured(times, subprocess.run, [sys.executable, '-c', code])}  {what}", flush=True)
    with tempfile.TemporaryDirectory() as folder, LocalBroker(Path(folder) / "kafka") as broker:
        words = (GROUPS_TOOL, "--bootstrap-server", broker.bootstrap_servers, "--describe", "--all-groups")
        print(f"{measured(times, run_tool, *words)}  kafka-consumer-groups --describe --all-groups, without groups")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, nargs="*", default=[40])
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--large", type=int, metavar="GROUPS")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--python", metavar="PATH", default=sys.executable)
    asked = parser.parse_args()
    if asked.reference:
        measure_references(asked.times)
    for groups in asked.groups:
        with tempfile.TemporaryDirectory() as folder:
            end = make(Path(folder), groups, asked.partitions)
            print(f"\n{groups:,} groups, {groups * asked.partitions:,} partitions: seconds, p50, p95, of processors")
            measure(asked.python, Path(folder), asked.times, AT, end - 30 * MINUTE)
    if asked.large:
        with tempfile.TemporaryDirectory() as folder:
            make_large(Path(folder), asked.large, LARGE_PARTITIONS)
            partitions = asked.large * LARGE_PARTITIONS
            print(f"\n{asked.large:,} groups, {partitions:,} partitions, a year: seconds, p50, p95, of processors")
            measure(asked.python, Path(folder), asked.times, NOW - WEEK, NOW - 20 * WEEK)


if __name__ == "__main__":
    main()
