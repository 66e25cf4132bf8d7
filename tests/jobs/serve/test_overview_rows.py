"""Goal: rows that another engine wrote into a table do not break the overview, and present trouble comes first."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

from groupledger.jobs.serve.overview_page import usual_window
from groupledger.jobs.serve.overview_rows import coverage, newest_trouble

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def test_a_row_of_nulls_says_nothing() -> None:
    known = {"kafka_partition": 3, "from_offset": 0, "from_time": AT, "completeness": "complete"}
    found = coverage([dict.fromkeys(known), known])
    assert (found["complete"], found["complete_from"], found["holes"]) == (1, AT, [])


def test_what_has_stopped_stands_first() -> None:
    """Goal: a group that has stopped without an incident comes before one that works again after an error, and one
    whose lag grows before one with a warning that works."""

    def row(name: str, status: str, severity: str | None) -> dict[str, Any]:
        worst = None if severity is None else SimpleNamespace(summary=SimpleNamespace(severity=severity))
        return {"group_id": name, "status": status, "worst": worst, "trouble_at": AT, "is_alive": True, "lag_sum": 9}

    rows = [
        row("warned", "ok", "warning"),
        row("failed", "ok", "error"),
        row("grows", "growing", None),
        row("stopped", "stopped", None),
        row("both", "stopped", "error") | {"lag_sum": 99},
    ]
    found = [each["group_id"] for each in sorted(rows, key=newest_trouble)]
    assert found == ["both", "stopped", "failed", "grows", "warned"]


def test_the_window_of_a_young_ledger() -> None:
    """Goal: the window that nobody chose is as short as shows all that there is, and at most a day."""
    groups: list[dict[str, Any]] = [
        {"first_seen_at": AT},
        {"first_seen_at": None},
        {"first_seen_at": AT + timedelta(hours=9)},
    ]
    lasts = {minutes: usual_window(groups, AT + timedelta(minutes=minutes)) for minutes in (4, 61, 24 * 60, 99 * 60)}
    assert lasts == {4: "1h", 61: "6h", 24 * 60: "1d", 99 * 60: "1d"}
    assert usual_window([], AT) == usual_window(groups, None) == "1d"
