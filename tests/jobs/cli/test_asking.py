"""Goal: a question needs no more words than it has to, and says what was meant where it is asked wrongly."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from deltalake import write_deltalake

from groupledger.jobs.cli.completion import group_names, topic_names
from groupledger.jobs.cli.main import main
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

KNOWN_UNTIL = datetime(2026, 8, 1, tzinfo=timezone.utc)
NAMES = ["payments", "payments.audit", "pay ments", "pay;rm", "-payments", "orders"]


def write(warehouse: Path, table: str, rows: list[dict[str, Any]]) -> None:
    write_deltalake(str(warehouse / table), pa.Table.from_pylist(rows, schema_of(table)), mode="append")


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Returns a warehouse of one cluster."""
    group = {"cluster": "east", "group_type": "classic", "is_alive": True}
    write(tmp_path, "coverage", [{"cluster": "east", "kafka_partition": 0, "to_time": KNOWN_UNTIL}])
    write(tmp_path, "groups", [{**group, "group_id": name} for name in NAMES])
    write(tmp_path, "assignments", [{"cluster": "east", "group_id": "payments", "topic": "orders"}])
    return tmp_path


def run(warehouse: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--warehouse", str(warehouse)])


def test_the_only_cluster(warehouse: Path) -> None:
    """Goal: the only cluster need not be named; one that is not there is refused with those that are."""
    found = run(warehouse, "groups", "orders", "--json")
    assert [json.loads(line)["group_id"] for line in found.stdout.splitlines()] == ["orders"]
    refused = run(warehouse, "groups", "--cluster", "west")
    assert refused.exit_code == 2
    assert "has no cluster west: it has east" in refused.stderr


def test_several_clusters(warehouse: Path) -> None:
    """Goal: if a warehouse has several clusters, a question must name one, and the error lists them."""
    write(warehouse, "coverage", [{"cluster": "north", "kafka_partition": 0}])
    refused = run(warehouse, "groups")
    assert refused.exit_code == 2
    assert "it has east, north; give one with --cluster" in refused.stderr
    assert run(warehouse, "groups", "--cluster", "east").exit_code == 0


@pytest.mark.parametrize("command", ["lag --group paymets", "lag --group PAYMENTS"])
def test_did_you_mean(warehouse: Path, command: str) -> None:
    """Goal: a name that is not known is refused with the nearest."""
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    write(warehouse, "lag", [{"cluster": "east", "group_id": "orders", "sampled_at": at, "sample_date": at.date()}])
    refused = run(warehouse, *command.split())
    assert refused.exit_code == 2
    assert "did you mean payments" in refused.stderr


def test_teams(warehouse: Path, tmp_path: Path) -> None:
    """Goal: a team of the settings has its groups, and one that they lack is refused."""
    settings = tmp_path / "settings.yaml"
    settings.write_text('teams:\n  money: {groups: "pay.*"}\n')
    found = run(warehouse, "groups", "--team", "money", "--json", "--conf", str(settings))
    assert {json.loads(line)["team"] for line in found.stdout.splitlines()} == {"money"}
    refused = run(warehouse, "groups", "--team", "nobody", "--conf", str(settings))
    assert refused.exit_code == 2
    assert "there are money" in refused.stderr


def test_a_missing_warehouse(tmp_path: Path) -> None:
    """Goal: a missing warehouse is reported at once."""
    refused = run(tmp_path / "nowhere", "groups")
    assert refused.exit_code == 2
    assert "has no tables" in refused.stderr


@pytest.mark.parametrize(
    ("complete", "typed", "offered"),
    [
        (group_names, "pay", ["payments", "payments.audit"]),
        (group_names, "", ["orders", "payments", "payments.audit"]),
        (topic_names, "o", ["orders"]),
        (group_names, "x", []),
    ],
)
def test_completion(warehouse: Path, complete: Callable[..., list[str]], typed: str, offered: list[str]) -> None:
    """Goal: names that begin like it are offered, but none that a shell would take for more than a word."""
    command = click.Command("lag")
    context = click.Context(command)
    context.params = {"warehouse": str(warehouse)}
    assert complete(context, command, typed) == offered


@pytest.mark.parametrize("place", [None, "nowhere"])
def test_nothing_to_complete_from(tmp_path: Path, place: str | None) -> None:
    """Goal: without a warehouse the completion offers nothing, and prints nothing."""
    context = click.Context(click.Command("lag"))
    context.params = {"warehouse": place and str(tmp_path / place)}
    assert group_names(context, context.command, "") == []  # type: ignore[arg-type]


def test_a_zone(warehouse: Path) -> None:
    """Goal: instants are read in the zone that is asked for, and shown in it; JSON stays in UTC."""
    at = datetime(2026, 7, 1, 12, 0, tzinfo=timezone.utc)
    incident = {"cluster": "east", "group_id": "orders", "kind": "fenced", "severity": "error", "occurrences": 1}
    incident |= {"episode_id": "e", "explanation": "It was fenced.", "evidence": "observed", "is_ambiguous": False}
    for hours in (0, 1):
        begun = {"first_seen_at": at + timedelta(hours=hours), "last_seen_at": at + timedelta(hours=hours)}
        write(warehouse, "incidents", [{**incident, **begun, "incident_id": str(hours)}])
    asked = ("incidents", "--since", "2026-07-01T14:30", "--tz", "Europe/Vienna")
    (line, *_) = run(warehouse, *asked).stdout.splitlines()
    assert line.startswith("2026-07-01T15:00:00.000+02:00")
    (row,) = map(json.loads, run(warehouse, *asked, "--json").stdout.splitlines())
    assert row["first_seen_at"] == "2026-07-01T13:00:00.000Z"
    refused = run(warehouse, "incidents", "--tz", "Mars")
    assert (refused.exit_code, "is not the name of a time zone" in refused.stderr) == (2, True)


def test_an_update_of_the_only_cluster(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: `incidents --update` looks at the cluster that the warehouse has, not at the one that the settings name."""
    updated: list[str] = []

    def ledger(settings: Any, *_given: object, **_options: object) -> AbstractContextManager[SimpleNamespace]:
        return nullcontext(SimpleNamespace(cluster=settings.cluster, judged_nobody=False))

    monkeypatch.setattr("groupledger.jobs.warehouse.ledger.open_ledger", ledger)
    monkeypatch.setattr(
        "groupledger.jobs.derive.incidents.update_incidents", lambda ledger: updated.append(ledger.cluster)
    )
    write(warehouse, "incidents", [])
    run(warehouse, "incidents", "--update")
    assert updated == ["east"]


def test_trouble_without_an_incident(warehouse: Path) -> None:
    """Goal: `incidents` of all groups counts those that only their lag shows, and names the question that has them."""
    at = KNOWN_UNTIL - timedelta(minutes=1)
    incident = {"cluster": "east", "group_id": "orders", "kind": "fenced", "severity": "error", "is_open": True}
    write(warehouse, "incidents", [{**incident, "first_seen_at": at, "last_seen_at": at, "episode_id": "e"}])
    lag = {"cluster": "east", "sampled_at": at, "sample_date": at.date(), "topic": "t", "partition": 0, "flags": []}
    statuses = {"orders": "stopped", "payments": "stopped", "payments.audit": "ok"}
    write(warehouse, "lag", [{**lag, "group_id": name, "status": each, "lag": 5} for name, each in statuses.items()])
    others = "1 group is in trouble by its lag, without an open incident: `groupledger groups --why` has those, too"
    assert others in run(warehouse, "incidents", "--kind", "unknown_member").stderr
    for asked in (["orders", "--kind", "unknown_member"], ["--json"]):
        assert "in trouble" not in run(warehouse, "incidents", *asked).stderr


def test_only_some_rows(warehouse: Path) -> None:
    """Goal: `incidents --limit` lists the last incidents, and `topics` can list only topics in trouble."""
    incident = {"cluster": "east", "group_id": "payments", "kind": "unknown_member", "severity": "error"}
    times = [KNOWN_UNTIL - timedelta(hours=hours) for hours in (3, 2, 1)]
    write(
        warehouse,
        "incidents",
        [
            {**incident, "incident_id": str(at), "episode_id": str(at), "first_seen_at": at, "last_seen_at": at}
            for at in times
        ],
    )
    found = run(warehouse, "incidents", "payments", "--limit", "2", "--json")
    assert [json.loads(line)["incident_id"] for line in found.stdout.splitlines()[:2]] == [*map(str, times[1:])]
    assert "1 before these are left out" in found.stderr
    lag = {"cluster": "east", "sampled_at": times[0], "sample_date": times[0].date(), "partition": 0, "flags": []}
    rows = [
        {**lag, "group_id": "payments", "topic": topic, "status": status, "lag": 5}
        for topic, status in (("orders", "ok"), ("refunds", "stopped"))
    ]
    write(warehouse, "lag", rows)
    found = run(warehouse, "topics", "--top", "1", "--json")
    assert [json.loads(line)["topic"] for line in found.stdout.splitlines()] == ["refunds"]


def test_commits_of_a_group(warehouse: Path) -> None:
    """Goal: `committers` takes a group's NAME, as the other questions do, and refuses one that is not known."""
    at = KNOWN_UNTIL - timedelta(hours=1)
    record = {"cluster": "east", "kafka_partition": 0, "kafka_timestamp": at, "record_type": "offset_commit"}
    record |= {"is_tombstone": False, "ingest_date": at.date()}
    commit = {"topic": "orders", "partition": 0}
    rows = [
        {**record, "group_id": name, "kafka_offset": number, "offset_commit": {**commit, "offset": number}}
        for number, name in enumerate(["billing", "orders", "billing"])
    ]
    group = {"cluster": "east", "group_id": "billing", "group_type": "classic", "is_alive": True, "kafka_partition": 0}
    write(warehouse, "groups", [group])
    write(warehouse, "coordinator_records", rows)
    found = [json.loads(line) for line in run(warehouse, "committers", "billing", "--json").stdout.splitlines()]
    assert [(row["group_id"], row["commits"]) for row in found] == [("billing", 2)]
    assert len(run(warehouse, "committers", "--json").stdout.splitlines()) == 2
    refused = run(warehouse, "committers", "biling")
    assert (refused.exit_code, "did you mean billing" in refused.stderr) == (2, True)
