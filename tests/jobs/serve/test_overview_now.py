"""Goal: the first lines of the overview say what is wrong now, whether an incident says so or only the lag does."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.ask.troubled import MEANS, TROUBLED, is_troubled
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.serve import overview_page
from groupledger.jobs.serve.overview_now import OLD, in_trouble, overview_now
from groupledger.schemas.instants import ms_of
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, Client, fill, served, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OVERVIEW = f"/clusters/{CLUSTER}"
GROUP = {"group_type": "classic", "kafka_partition": 7, "incarnation": 1, "first_seen_at": AT, "is_alive": True}
HEADING = re.compile(r"<h1[^>]*>([^<]*)")
NOW = re.compile(r'<section class="now".*?</section>', re.DOTALL)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Serves `pay` with an incident that goes on, `waits` without any, where one of two partitions has stopped, and
    `well`."""
    warehouse = tmp_path_factory.mktemp("now")
    fill(warehouse, "pay", "orders", "pod-b")
    write(warehouse, "groups", *(GROUP | {"group_id": name, "last_seen_at": AT} for name in ("waits", "well")))
    lag = {"sampled_at": AT + MINUTE, "sample_date": AT.date(), "topic": "orders", "flags": [], "partition": 0}
    write(
        warehouse,
        "lag",
        lag | {"group_id": "well", "lag": 3, "status": "ok"},
        lag | {"group_id": "waits", "lag": 90, "status": "stopped"},
        lag | {"group_id": "waits", "lag": 1, "status": "ok", "partition": 1},
    )
    with served(warehouse) as found:
        yield found


def page(client: Client, asked: str = "") -> str:
    return client.get(OVERVIEW + asked).text


def test_what_is_wrong_now(client: Client) -> None:
    """Goal: the heading counts the groups in trouble, and under it each group has its severity, its trouble and a link
    to it; if its partitions differ, how many are in that status. A group that is listed there is not listed again
    below."""
    found = page(client)
    (now,) = NOW.findall(found)
    assert HEADING.findall(found) == ["2 of 3 groups were in trouble "]
    matches = re.findall(r'<b>(\w+)</b> <span class="what">([^<]+)</span>', now)
    assert [name for name, _ in matches] == ["waits", "pay"]
    assert "stopped: 1 of 2 partitions; lag 91" in now
    assert "pod-b fell silent." in now
    assert f'href="{OVERVIEW}/groups/waits"' in now
    assert "What hurt" not in found
    assert "1 of 2 partitions</span></td>" in found


def test_a_time_of_the_past_has_no_now(client: Client) -> None:
    """Goal: a window that ends in the past names its end, and claims nothing of now."""
    found = page(client, "?until=2026-01-01T12:08:00Z")
    assert HEADING.findall(found) == [f"Groups of {CLUSTER} at "]
    assert not NOW.search(found)
    assert "What hurt in this time" in found


def test_each_count_says_what_it_counts(client: Client) -> None:
    """Goal: nobody has to guess whether a number is of groups or of incidents."""
    found = re.findall(r"<h2>([^<]*)</h2>\n<dl>", page(client, "?window=6h"))
    assert found == ["Groups by lag status", "Groups by state", "Episodes within 6h"]


def test_a_group_that_ended_says_so(tmp_path: Path) -> None:
    """Goal: the status of a group that is no more is not a dash."""
    fill(tmp_path, "pay", "orders", "pod-b")
    write(tmp_path, "groups", GROUP | {"group_id": "gone", "is_alive": False, "last_seen_at": AT})
    with served(tmp_path) as client:
        assert '<td class="unknown" data-col="Status">ended</td>' in page(client, "?all=true")


@pytest.mark.parametrize(
    ("as_of", "said"),
    [
        (AT, ("None of 2 groups is in trouble", "ok")),
        (AT - OLD - MINUTE, ("None of 2 groups was in trouble", "unknown")),
        (None, ("Whether a group is in trouble is not known: their lag was never sampled", "unknown")),
    ],
)
def test_without_trouble(as_of: Any, said: tuple[str, str]) -> None:
    """Goal: all is well only by a round that is recent."""
    found = overview_now(2, [], 0, as_of, AT)
    assert (found.sentence, found.severity) == said


def test_groups_without_history() -> None:
    """Goal: nothing is well while the history lacks groups of the last round."""
    found = overview_now(0, [], 0, AT, AT, waiting=2)
    words = "None of 0 groups is in trouble; the history does not have 2 more groups yet"
    assert (found.sentence, found.severity) == (words, "unknown")


def test_the_worst_are_chosen_by_severity() -> None:
    """Goal: a group with an error in progress is among the few that are shown, before those that only have a status.
    They are as many as `groups` counts, also where an incident is open and its diagnosis has ended."""

    def row(name: str, status: str, severity: str | None, until: datetime | None = None) -> dict[str, Any]:
        worst = None if severity is None else SimpleNamespace(summary=SimpleNamespace(severity=severity, until=until))
        of_incidents = {"incident_severity": severity if until is None else None}
        return {"group_id": name, "status": status, "lag_sum": 1, "worst": worst, **of_incidents}

    rows = [
        *(row(f"stopped-{n}", "stopped", None) for n in range(9)),
        row("warned", "ok", "warning"),
        row("over", "ok", "error", AT),
        row("refused", "ok", "error"),
        row("undiagnosed", "ok", "error", AT) | {"incident_severity": "warning"},
    ]
    found = [each["group_id"] for each in in_trouble(rows)]
    assert (found[:2], found[-2:]) == (["refused", "stopped-0"], ["undiagnosed", "warned"])
    assert len(found) == sum(map(is_troubled, rows)) == 12


def test_what_has_no_diagnosis_has_words() -> None:
    """Goal: a group whose diagnosis is not made yet, or finds nothing, is described by its status."""
    assert {*MEANS} == TROUBLED
    rows: list[dict[str, Any]] = [
        {"is_alive": True, "status": status, "worst": None, "incident_severity": None, "open_incidents": 0}
        for status in ("growing", "stopped")
    ]
    rows.append(rows[0] | {"status": "ok", "incident_severity": "warning", "open_incidents": 1})
    found = overview_now(9, rows, 3, AT, AT)
    assert [(each.severity, each.what) for each in found.groups] == [
        ("error", MEANS["stopped"]),
        ("warning", MEANS["growing"]),
        ("warning", "Incidents that are open: 1."),
    ]
    assert (found.sentence, found.severity) == ("6 of 9 groups are in trouble", "error")


def test_a_recent_round_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: minutes after a round the heading says `are`, not `were`."""
    fill(tmp_path, "pay", "orders", "pod-b")
    assert now_ms() > ms_of(AT)
    monkeypatch.setattr(overview_page, "now_ms", lambda: ms_of(AT + timedelta(minutes=3)))
    with served(tmp_path) as client:
        assert HEADING.findall(page(client)) == ["1 of 1 group is in trouble "]
