"""Goal: commands, JSON and page show the deployments of the shipped day with their cost, and say what is not known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.deploys import deploy_at
from groupledger.jobs.cli.main import main
from groupledger.jobs.demo.shipped import unpack
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, served, write
from tools.api_examples import END

if TYPE_CHECKING:
    from pathlib import Path

SOFTWARE = ("3.9", "4.0")


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("day")
    unpack(place, END)
    return place


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Returns a group of two members that fell silent one after the other, and came back with another version."""
    fill(tmp_path, "pay", "orders", "m0")
    member = {"group_id": "pay", "incarnation": 2, "client_id": "c", "client_host": "/10.0.0.1"}
    old = {
        **member,
        "from_offset": 30,
        "joined_at": AT - 20 * MINUTE,
        "is_start_known": True,
        "is_end_known": True,
        "is_open": 0,
    }
    old |= {"leave_cause": "session_expired", "leave_cause_confidence": 1.0}
    new = {**member, "is_start_known": True, "is_open": 1}
    write(
        tmp_path,
        "members",
        *(
            {**old, "member_id": f"old{number}", "to_offset": 50 + number, "left_at": AT + (4 + number) * MINUTE}
            for number in (1, 2)
        ),
        *(
            {**new, "member_id": f"new{number}", "from_offset": 55 + number, "joined_at": AT + (4.5 + number) * MINUTE}
            for number in (1, 2)
        ),
    )
    return tmp_path


def run(warehouse: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--warehouse", str(warehouse)])


def rows(warehouse: Path, *words: str) -> list[dict[str, Any]]:
    done = run(warehouse, *words, "--json")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_deployments_of_a_day(day: Path) -> None:
    """Goal: each rolling restart and each round of a change of protocol is listed once, and no crash, scaling or crash
    loop of the day is listed."""
    found = [row for row in rows(day, "deploys") if row["is_deploy"]]
    assert sorted(row["group_id"] for row in found) == sorted(
        ["supplier-feed", "image-resizer", "invoice-mailer", "search-indexer", "push-notifications"]
        + ["delivery-slots"]
        + ["order-archive"] * 2
    )
    assert {row["members_replaced"] for row in found} == {3}
    static = [row for row in found if row["group_id"] in {"image-resizer", "search-indexer", "delivery-slots"}]
    assert {row["rebalances"] for row in static} == {0}
    assert all(row["lag_peak"] is not None for row in found)
    (unknown,) = (row for row in rows(day, "deploys") if row["is_deploy"] is None)
    assert (unknown["rebalances"], "not all known" in unknown["reason"]) == (None, True)


def test_one_deployment(day: Path) -> None:
    """Goal: the deployment of an instant, or the last one before it, is compared with the one before; a crash loop is
    reported as no deployment."""
    (second,) = rows(day, "deploy", "order-archive", "--at", "2026-11-25T11:40Z")
    (first,) = rows(day, "deploy", "order-archive", "--at", "2026-11-25T10:50Z")
    assert (first["before"], second["before"]["deploys"]) == (None, 1)
    assert second["before"]["rebalances"] == first["rebalances"]
    text = run(day, "deploy", "order-archive", "--at", "2026-11-25T11:40Z").stdout
    replaced = "3 of 3 members were replaced in 6 min 7 s.\nIt cost 3 rebalances, at least 26"
    assert text.startswith(f"order-archive, 2026-11-25T11:07:57.634Z: {replaced}")
    assert "The one before it took 5 min 4 s, 3 rebalances, a lag of 599 records at its peak." in text
    loop = run(day, "deploy", "feature-store", "--at", "2026-11-25T10:45Z")
    assert (loop.exit_code, loop.stdout) == (0, "")
    assert "was no deployment: members came and left again, as in a crash loop" in loop.stderr
    assert run(day, "deploy", "nobody").exit_code == 2


def test_members_are_read_once(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: one read of the group's members answers the question about the cost of a deployment."""
    read: list[str] = []
    rows_of = ClusterRows.rows

    def noted(self: ClusterRows, table: str, *filters: Any, **more: Any) -> list[dict[str, Any]]:
        read.append(table)
        return rows_of(self, table, *filters, **more)

    monkeypatch.setattr(ClusterRows, "rows", noted)
    found, other = deploy_at(ClusterRows(str(day), "demo"), "order-archive", END)
    assert (found is not None, other) == (True, None)
    assert read.count("members") == 1


def test_clients_that_fall_silent(warehouse: Path) -> None:
    """Goal: without a request log nobody knows whether they crashed; with one, another version is a deployment."""
    (row,) = rows(warehouse, "deploys", "pay")
    assert (row["is_deploy"], "fell silent" in row["reason"], row["lag_peak"]) == (None, True, None)
    request: dict[str, Any] = {"source_file": "f", "api": "API_VERSIONS", "client_id": "c", "client_host": "10.0.0.1"}
    request |= {"client_software_name": "apache-kafka-java", "happened_date": AT.date()}
    write(
        warehouse,
        "requests",
        *(
            {**request, "line_number": number, "client_software_version": version, "happened_at": AT + at * MINUTE}
            for number, (version, at) in enumerate(zip(SOFTWARE, (0, 5.2), strict=True))
        ),
    )
    (row,) = rows(warehouse, "deploys", "pay")
    assert (row["is_deploy"], row["reason"]) == (True, None)
    assert (row["versions_before"], row["versions_after"]) == (["apache-kafka-java 3.9"], ["apache-kafka-java 4.0"])
    assert (
        "clients changed from apache-kafka-java 3.9 to apache-kafka-java 4.0" in run(warehouse, "deploy", "pay").stdout
    )
    with served(warehouse) as client:
        page = client.get(f"/clusters/{CLUSTER}/groups/pay/deploys")
        assert (page.status, "apache-kafka-java 3.9 to apache-kafka-java 4.0" in page.text) == (200, True)
        assert "No deployment of the group before it is known." in page.text
        then = client.get(f"/api/v1/clusters/{CLUSTER}/groups/pay/deploy?at=2026-01-01T12:06:00Z").json
        assert then["deploy"]["is_deploy"] is True
        assert len(client.get(f"/api/v1/clusters/{CLUSTER}/deploys").json["deploys"]) == 1
        assert client.get(f"/clusters/{CLUSTER}/deploys").status == 200
