"""Measures how long questions take: as commands, each in a process of its own, and as pages of a server that runs.

    python -m bench.asking [--groups 40 10000] [--partitions 10]

A warehouse of so many groups is made by delta-rs: with three rounds of lag, and 50 rebalances of one group. Two times
are the reference: that of a Python that does nothing, and that of a Spark session which is started and stopped, so what
any answer by Spark takes at least. Each figure is the median of five.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable

CLUSTER, TIMES = "east", 5
AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
ROUNDS, REBALANCES = 3, 50
SPARK = "from groupledger.jobs.process.session import spark_session; spark_session('nothing').stop()"
COMMANDS = (
    "groups",
    "groups g-7*",
    "lag --group g-7",
    "lag --by group",
    "owner g-7 orders-7 3 --at 2026-01-01T12:30:00Z",
    "group g-7",
    "rebalances",
    "incidents",
    "why g-7 --since 2026-01-01",
    "diff g-7 --from 2026-01-01T12:10:00Z",
)
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
            for each in range(REBALANCES)
        ],
    )
    incident = {"kind": "session_expired", "severity": "warning", "is_open": True, "occurrences": 1}
    incident |= {"episode_id": "e", "first_seen_at": AT, "last_seen_at": AT, "explanation": "It fell silent."}
    incident |= {"evidence": "inferred", "confidence": 0.9, "is_ambiguous": False, "probable_root": "session_expired"}
    write("incidents", [{"group_id": name, "incident_id": name, **incident} for name in names[: groups // 20]])
    return end


def seconds(action: Callable[..., object], *arguments: object) -> float:
    found = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        action(*arguments)
        found.append(time.perf_counter() - begin)
    return median(found)


def command(warehouse: Path, words: str) -> None:
    environment = {**os.environ, "GROUPLEDGER_WAREHOUSE": str(warehouse)}
    arguments = [sys.executable, "-m", "groupledger.jobs.cli.main", *words.split()]
    subprocess.run(arguments, env=environment, check=True, capture_output=True)


def served(warehouse: Path) -> tuple[subprocess.Popen[str], int, float]:
    """Returns a server, its port, and how long it took until it answered."""
    begin = time.perf_counter()
    arguments = ("serve", "--warehouse", str(warehouse), "--listen", "127.0.0.1:0")
    server = subprocess.Popen(
        [sys.executable, "-m", "groupledger.jobs.cli.main", *arguments], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    said = server.stderr.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)", said)
    if found is None:
        raise RuntimeError(f"the server did not start: {said}")
    get(int(found[1]), "/livez")
    return server, int(found[1]), time.perf_counter() - begin


def get(port: int, path: str) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == HTTPStatus.OK, (path, answer.status)
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[40, 10_000])
    parser.add_argument("--partitions", type=int, default=10)
    asked = parser.parse_args()
    nothing = seconds(subprocess.run, [sys.executable, "-c", ""])
    print(f"a Python that does nothing: {nothing:.2f} s")
    nothing = seconds(subprocess.run, [sys.executable, "-c", SPARK])
    print(f"a Spark session that does nothing: {nothing:.2f} s")
    for groups in asked.groups:
        with tempfile.TemporaryDirectory() as folder:
            warehouse = Path(folder)
            make(warehouse, groups, asked.partitions)
            print(f"\n{groups:,} groups, {groups * asked.partitions:,} partitions: seconds")
            for words in COMMANDS:
                print(f"{seconds(command, warehouse, words):8.2f}  {words}")
            server, port, ready = served(warehouse)
            try:
                print(f"{ready:8.2f}  serve: until it answers")
                for path in PATHS:
                    print(f"{seconds(get, port, path):8.3f}  {path}")
            finally:
                server.terminate()
                server.wait(timeout=60)


if __name__ == "__main__":
    main()
