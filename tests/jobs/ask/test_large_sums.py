"""Goal: sums that 64 bits can't hold, which DuckDB makes wider, are numbers in commands, pages and the API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from groupledger.jobs.cli.main import main
from groupledger.schemas.instants import INT64_MAX
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, served, write

if TYPE_CHECKING:
    from pathlib import Path

SUM = 3 * INT64_MAX + 7  # three partitions beside that of `fill`
LOST = 3 * INT64_MAX
GROUPS = ("pay", "refund")
API, PAGE = f"/api/v1/clusters/{CLUSTER}", f"/clusters/{CLUSTER}"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sums")
    for name in GROUPS:
        fill(folder, name, "orders", "pod-b")
    at = AT + MINUTE
    row = {"topic": "orders", "sampled_at": at, "sample_date": at.date(), "flags": []}
    row |= {"committed_offset": 0, "high_watermark": INT64_MAX, "lag": INT64_MAX, "messages_lost": INT64_MAX}
    row |= {"status": "stalled", "burrow_status": "STALL", "commit_interval_ms": INT64_MAX, "lag_seconds": 1e300}
    write(folder, "lag", *({**row, "group_id": name, "partition": each} for name in GROUPS for each in (1, 2, 3)))
    moved = {"group_id": "pay", "incarnation": 1, "from_generation": 2, "kafka_offset": 6, "changes": []}
    moved |= {
        "happened_at": AT,
        "generation_gap": 2**31 - 1,
        "partitions_moved": 2**31 - 1,
        "pause_upper_ms": INT64_MAX,
    }
    write(folder, "rebalances", *({**moved, "to_generation": number, "kafka_offset": number} for number in (6, 7, 8)))
    return folder


def ask(warehouse: Path, command: str, *arguments: str) -> list[Any]:
    of_cluster = () if command == "sql" else ("--cluster", CLUSTER)
    result = CliRunner().invoke(main, [command, "--warehouse", str(warehouse), *of_cluster, *arguments])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_commands(warehouse: Path) -> None:
    groups = ask(warehouse, "groups", "--json")
    by_group = ask(warehouse, "lag", "--by", "group", "--json")
    by_topic = ask(warehouse, "lag", "--by", "topic", "--json")
    assert [row["lag_sum"] for row in (*groups, *by_group, *by_topic)] == [SUM] * 6
    assert [row["messages_lost"] for row in by_group] == [LOST] * 2
    rebalances = ask(warehouse, "rebalances", "--json")
    assert rebalances[0]["partitions_moved"] == 3 * (2**31 - 1)


def test_sql(warehouse: Path) -> None:
    (row,) = ask(warehouse, "sql", "SELECT sum(lag) AS lag, max(lag) AS most FROM lag", "--format", "json")
    assert (row["lag"], row["most"]) == (2 * SUM, INT64_MAX)


def test_pages(warehouse: Path) -> None:
    with served(warehouse) as client:
        assert client.get(f"{API}/groups/pay/lag/total").json["lag"] == SUM
        first = client.get(f"{API}/groups?limit=1").json
        following = client.get(f"{API}/groups?limit=1&cursor={first['next']}").json
        assert [row["lag_sum"] for page in (first, following) for row in page["groups"]] == [SUM] * 2
        answer = client.get(f"/v3/kafka/{CLUSTER}/consumer/pay/lag").json
        assert answer["status"]["totallag"] == SUM
        for path in (PAGE, f"{PAGE}/groups/pay", f"{PAGE}/groups/pay/why?since=2026-01-01"):
            assert client.get(path).status == 200, path
