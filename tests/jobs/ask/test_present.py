"""Goal: the groups in trouble are listed with their present diagnoses, the most severe first, at a limited cost."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, cast

from click.testing import CliRunner

from groupledger.jobs.ask import present
from groupledger.jobs.ask.present import present_diagnoses, present_lines
from groupledger.jobs.ask.troubled import MEANS
from groupledger.jobs.cli.main import main
from groupledger.jobs.demo.shipped import unpack
from tests.jobs.summaries import summary

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.verdict import EpisodeSummary

END = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)


def crash_loop(severity: str) -> EpisodeSummary:
    return summary(
        severity=severity,
        cause="crash_loop",
        fault="client",
        title="crash_loop (behind)",
        what="evil\x1b[31m came and went.",
        who="evil\x1b[31m",
        since=END,
        harms=["9 records"],
        advice="Look.",
        known="by topic",
    )


def troubled(name: str, status: str, severity: str | None) -> dict[str, Any]:
    return {"group_id": name, "status": status, "lag_sum": 9, "open_incidents": 2, "incident_severity": severity}


def test_the_cost_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: only the first groups in trouble are diagnosed, and the others are counted."""
    made = {"slow": crash_loop("info"), "loop": crash_loop("error")}
    asked: list[str] = []

    def diagnosed(_tables: object, name: str, _until: datetime) -> EpisodeSummary | None:
        asked.append(name)
        return made.get(name)

    monkeypatch.setattr(present, "diagnosis_of_group", diagnosed)
    rows = [
        troubled("slow", "stopped", None),
        troubled("loop", "ok", "warning"),
        troubled("unexplained", "growing", None),
        troubled("open", "ok", "warning"),
        troubled("well", "ok", None),
        troubled("more", "ok", "warning"),
    ]
    found, others = present_diagnoses(cast("ClusterRows", None), rows, END, 4)
    assert (asked, others) == (["slow", "loop", "unexplained", "open"], 1)
    assert [(row["group_id"], row["severity"], row["cause"]) for row in found] == [
        ("loop", "error", "crash_loop"),
        ("unexplained", "warning", None),
        ("open", "warning", None),
        ("slow", "info", "crash_loop"),
    ]
    assert [row["what"] for row in found[1:3]] == [MEANS["growing"], "Incidents that are open: 2."]
    assert [*present_lines(found[0])][1:] == ["    evil\\x1b[31m came and went.", "    harm: 9 records"]
    assert [*present_lines(found[2])][1:] == ["    Incidents that are open: 2."]


def test_present_diagnoses(tmp_path: Path) -> None:
    """Goal: the command lists the group in trouble with the diagnosis that `why` begins with."""
    unpack(tmp_path, END)

    def run(*words: str) -> str:
        found = CliRunner().invoke(main, [*words, "--warehouse", str(tmp_path)])
        assert found.exit_code == 0, found.output
        return str(found.stdout)

    (row,) = map(json.loads, run("groups", "--why", "--json").splitlines())
    first = run("groups", "--why").splitlines()[0]
    assert first.startswith(f"{row['severity'].upper()}  {row['group_id']}  {row['cause']} (")
    assert run("why", row["group_id"]).startswith(f"{row['severity'].upper()}  {row['title']}")
    assert run("groups", "--why", "no-such") == ""
