"""Goal: a value that many requests ask for is made once for a version of its tables, and from recent rows only."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.ask import table_rows
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.incidents import recent_incidents
from groupledger.jobs.ask.table_rows import DataFile, files_of
from groupledger.jobs.ask.what_if import WhatIfQuestion
from groupledger.jobs.ask.what_if_savings import FIGURES
from groupledger.jobs.ask.why import why
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.serve import forecast_routes, group_page, what_if_page
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.cached_values import CachedAnswers, CachedValues
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, served, write

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = {"setting": "static", "refusal": "Nobody knows.", "actual_setting": None, **dict.fromkeys(FIGURES)}


def test_a_value_that_is_not_final() -> None:
    """Goal: it is made again by the next request, until it is final."""
    kept, numbers = CachedValues(), iter(range(9))
    seen = [kept.get("list", (1,), lambda: next(numbers), lambda number: number >= 2) for _ in range(5)]
    assert seen == [0, 1, 2, 2, 2]


def test_made_once() -> None:
    """Goal: while the first is made, all wait for it; while another is made, all others get the first."""
    kept, made, is_making, go_on = CachedValues(), [], threading.Event(), threading.Event()

    def make() -> int:
        is_making.set()
        go_on.wait(60)
        made.append(1)
        return len(made)

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(kept.get, "list", (1,), make) for _ in range(4)]
        assert is_making.wait(60)
        go_on.set()
        assert [each.result(60) for each in waiting] == [1, 1, 1, 1]
        is_making.clear()
        go_on.clear()
        first = pool.submit(kept.get, "list", (2,), make)
        assert is_making.wait(60)
        assert [kept.get("list", (2,), make) for _ in range(3)] == [1, 1, 1]
        go_on.set()
        assert first.result(60) == 2
    assert kept.get("list", (2,), make) == 2
    assert len(made) == 2


def test_what_fails_is_not_kept() -> None:
    """Goal: after a failure the next request tries again, and nobody waits for ever."""
    kept = CachedValues()

    def fail() -> int:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            kept.get("list", (1,), fail)
    assert kept.get("list", (1,), lambda: 7) == 7


def test_lists_differ(tmp_path: Path) -> None:
    """Goal: a value that is kept for one cluster and some tables is not used for any other."""
    fill(tmp_path, "pay", "orders", "pod-b")
    warehouse, tables = Warehouse(str(tmp_path), load_settings()), ClusterRows(str(tmp_path), CLUSTER)
    assert warehouse.cached(tables, ("lag",), lambda: 1) == 1
    assert warehouse.cached(tables, ("lag", "groups"), lambda: 2) == 2
    assert warehouse.cached(ClusterRows(str(tmp_path), "west"), ("lag",), lambda: 3) == 3
    assert warehouse.cached(tables, ("lag",), lambda: 4) == 1
    write(tmp_path, "lag", {"group_id": "pay", "sampled_at": AT, "sample_date": AT.date()})
    assert warehouse.cached(ClusterRows(str(tmp_path), CLUSTER), ("lag",), lambda: 5) == 5


def test_made_of_what_is_kept() -> None:
    """Goal: a value is made once for the same objects, and again for another object, even if that is equal."""
    warehouse, groups, period = Warehouse("", load_settings()), [1], [2]
    assert warehouse.made_of((groups, period), lambda: 1, "list") == 1
    assert warehouse.made_of((groups, period), lambda: 2, "list") == 1
    assert warehouse.made_of((groups, period), lambda: 3, "other") == 3
    assert warehouse.made_of(([1], period), lambda: 4, "list") == 4


def test_a_verdict_is_made_once_for_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a group's page diagnoses once, however often it is asked for, and again as soon as a table that the
    diagnosis read has more rows, or is there at last; another instant of the same window needs no other diagnosis."""
    fill(tmp_path, "pay", "orders", "pod-b")
    path, asked = f"/clusters/{CLUSTER}/groups/pay", []

    def counted(*arguments: Any) -> Any:
        asked.append(arguments[1])
        return why(*arguments)

    monkeypatch.setattr(group_page, "why", counted)
    with served(tmp_path) as client:
        first = client.get(path).text
        of_window = [f"{path}?at=2026-01-01T12:0{minute}:00Z&until=2026-01-01T12:09Z" for minute in (7, 8)]
        assert {client.get(each).status for each in (path, *of_window)} == {200}
        assert len(asked) == 2
        write(tmp_path, "requests", {"group_id": "pay", "happened_at": AT})
        assert "pod-b fell silent." in client.get(path).text
        assert len(asked) == 3
        incident = {
            "group_id": "pay",
            "kind": "fenced_instance",
            "severity": "error",
            "is_open": False,
            "occurrences": 1,
        }
        incident |= {"incident_id": "f", "episode_id": "f", "evidence": "observed", "confidence": 1.0}
        seen = dict.fromkeys(("first_seen_at", "last_seen_at"), AT + 6 * MINUTE)
        write(tmp_path, "incidents", incident | seen | {"explanation": "Another one came."})
        assert "Another one came." in client.get(path).text
    assert "Another one came." not in first


def test_few_verdicts_are_kept(tmp_path: Path) -> None:
    """Goal: the answers that were asked for last are kept, up to a limit, however many questions clients think of."""
    fill(tmp_path, "pay", "orders", "pod-b")
    kept, tables, made = CachedAnswers(2), ClusterRows(str(tmp_path), CLUSTER), []

    def make() -> int:
        made.append(len(tables.rows("lag")))
        return len(made)

    assert [kept.get(key, tables, make) for key in (1, 2, 1, 3, 1, 2)] == [1, 2, 1, 3, 1, 4]


def test_settings_that_are_kept_with_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: pages and their JSON go by the settings that the tables were made with, as the commands do."""
    fill(tmp_path, "pay", "orders", "pod-b")
    for table in ("generations", "members", "coordinator_records"):
        write(tmp_path, table)
    kept = {"history": {"consumer_session_timeout_s": 10}, "offsets": {"retention_s": 86_400}}
    file = tmp_path / "_groupledger" / CLUSTER / "kept_settings.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(kept))
    asked: list[Any] = []

    def expiry(*arguments: Any) -> None:
        asked.append(arguments[-1])

    def ask(*arguments: Any) -> list[dict[str, Any]]:
        asked.extend(each for each in arguments if isinstance(each, WhatIfQuestion))
        return [REFUSED]

    monkeypatch.setattr(forecast_routes, "expiry", expiry)
    monkeypatch.setattr(what_if_page, "ask", ask)
    with served(tmp_path) as client:
        assert client.get(f"/api/v1/clusters/{CLUSTER}/groups/pay/forecast").status == 200
        assert client.get(f"/clusters/{CLUSTER}/groups/pay/what-if?members=static").status == 200
    retention, question = asked
    assert (retention, question.consumer_session_ms) == (timedelta(days=1), 10_000)


def test_recent_incidents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: incidents that are open or were seen in the last day are found, in files of that day alone; another
    cluster's newest incident does not matter."""
    for days, name in ((0, "open"), (0.9, "of the day"), (1.1, "old"), (40, "older")):
        seen = AT - timedelta(days=days)
        row = {"incident_id": name, "episode_id": name, "kind": "fenced", "severity": "warning", "is_open": not days}
        write(tmp_path, "incidents", row | {"first_seen_at": seen, "last_seen_at": seen})
    later = AT + timedelta(days=100)
    row = {"cluster": "west", "incident_id": "west", "severity": "error", "first_seen_at": later, "last_seen_at": later}
    write(tmp_path, "incidents", row)
    read: list[str] = []

    def recorded(*arguments: Any) -> list[DataFile]:
        found = files_of(*arguments)
        read.extend(file.path for file in found)
        return found

    monkeypatch.setattr(table_rows, "files_of", recorded)
    found = recent_incidents(ClusterRows(str(tmp_path), CLUSTER))
    assert [row["incident_id"] for row in found] == ["of the day", "open"]
    assert len(set(read)) == 2
    assert recent_incidents(ClusterRows(str(tmp_path / "nowhere"), CLUSTER)) == []
