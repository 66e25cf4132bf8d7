"""Goal: the pages that messages and the overview link to show each episode with its root, evidence and proof."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from groupledger.jobs.serve.diagnoses import NEW_MAX, OF_GROUPS_MAX, Diagnoses
from groupledger.jobs.serve.episodes import ShownEpisode
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, Client, fill, served, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTILE = "a/<script>alert(1)</script>\u202e"
INCIDENTS = f"/clusters/{CLUSTER}/incidents"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    warehouse = tmp_path_factory.mktemp("incidents")
    for name in ("pay", HOSTILE):
        fill(warehouse, name, "orders", "pod-b")
        refused(warehouse, name)
    with served(warehouse) as found:
        yield found


def refused(warehouse: Path, name: str) -> None:
    """Writes what followed in the episode that `fill` begins, and a mild incident of the day before."""
    proofs = [{"table_name": "rebalances", "row_key": f"{name}/1/2"}]
    row = {"group_id": name, "occurrences": 2, "confidence": 0.8, "is_open": False, "proofs": proofs}
    row |= {"evidence": "inferred", "probable_root": "session_expired"}
    later: dict[str, Any] = {
        "incident_id": f"{name} later",
        "episode_id": name,
        "kind": "unknown_member",
        "severity": "error",
    }
    later |= {"first_seen_at": AT + 6 * MINUTE, "last_seen_at": AT + 7 * MINUTE}
    later |= {"explanation": "pod-b at h was refused. What it had processed is processed again.", "duplicates_max": 9}
    mild: dict[str, Any] = {"incident_id": f"{name} mild", "episode_id": f"{name} mild", "kind": "leader_never_synced"}
    mild |= {"severity": "info", "explanation": "It cost nothing.", "is_open": False}
    mild |= dict.fromkeys(("first_seen_at", "last_seen_at"), AT - 15 * 60 * MINUTE)
    write(warehouse, "incidents", row | later, row | mild)


def test_an_episode(client: Client) -> None:
    """Goal: an episode is on the page once, its diagnosis says what happened, and its root comes first."""
    page = client.get(INCIDENTS).text
    assert "2 episodes" in page
    assert page.count("<details") == 2
    assert "session_expired, unknown_member" in page
    assert "pod-b fell silent." in page
    assert "inferred (confidence 0.80)" in page
    assert page.index("<td>session_expired</td>") < page.index("<td>unknown_member</td>")
    assert "9 records read twice" in page
    assert f"/clusters/{CLUSTER}/groups/pay?at=2026-01-01T12%3A05%3A00.000Z" in page
    assert "<script>alert" not in page


def test_an_episode_in_the_words_of_its_diagnosis(client: Client) -> None:
    """Goal: the list says of an episode what the page of its group says."""
    answer = client.get(f"/api/v1/clusters/{CLUSTER}/groups/pay/why?since=2026-01-01T11:00:00Z").json
    found = answer["verdict"]["diagnosis"][0]
    assert found["cause"] == "session_timeout"
    page = client.get(INCIDENTS).text
    assert f"{found['cause']} ({found['symptom']})" in page
    assert found["explanation"].partition(". ")[0] in page


def test_a_request_makes_a_few_diagnoses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: however many episodes there are, a request diagnoses a few of the worst, and none twice."""
    asked: list[str] = []

    def made(_tables: object, _group: str, episode_id: str, *_times: object) -> None:
        asked.append(episode_id)

    monkeypatch.setattr("groupledger.jobs.serve.diagnoses.diagnosis_of", made)
    tables: Any = SimpleNamespace(cluster="c")
    row = {"incident_id": "i", "last_seen_at": AT, "evidence": "observed"}
    undiagnosed = SimpleNamespace(since=AT, cause=None, severity="warning")
    episodes: Any = [
        SimpleNamespace(episode_id=str(n), group_id="g", summary=undiagnosed, incidents=[row])
        for n in range(NEW_MAX + 5)
    ]
    diagnoses = Diagnoses()
    for expected in (NEW_MAX, NEW_MAX + 5, NEW_MAX + 5):
        assert diagnoses.of(tables, episodes) == episodes
        assert asked == [str(n) for n in range(expected)]
        assert diagnoses.are_made(tables, episodes) == (expected == len(episodes))
    row["evidence"] = "logged"
    diagnoses.of(tables, episodes[:1])
    assert asked[-1] == "0"


def test_one_diagnosis_of_several_episodes_stands_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: two members who are refused alike are one line of the list, with the incidents of both."""
    rows = [
        {"incident_id": name, "episode_id": name, "kind": "refused", "evidence": "observed"}
        | {"first_seen_at": AT, "last_seen_at": AT}
        for name in "ab"
    ]
    reported = SimpleNamespace(since=AT, cause="refused", severity="error", episode_ids=["a", "b"])
    monkeypatch.setattr("groupledger.jobs.serve.diagnoses.diagnosis_of", lambda *_: reported)
    undiagnosed: Any = SimpleNamespace(since=AT, cause=None, severity="error")
    episodes = [
        ShownEpisode(
            episode_id=name, summary=undiagnosed, group_id=group, root=None, kinds=["refused"], incidents=[row]
        )
        for group in ("pay", "other")
        for name, row in zip("ab", rows, strict=True)
    ]
    tables: Any = SimpleNamespace(cluster="c")
    found = Diagnoses().of(tables, episodes)
    assert [(each.group_id, each.episode_id, len(each.incidents)) for each in found] == [
        ("pay", "a", 2),
        ("other", "a", 2),
    ]


def test_the_order_is_that_of_the_severities_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: if a diagnosis is milder than its incidents, its episode does not stand before an error."""
    found = {"a": SimpleNamespace(since=AT, cause="slow", severity="warning", episode_ids=["a"])}
    monkeypatch.setattr("groupledger.jobs.serve.diagnoses.diagnosis_of", lambda *asked: found.get(asked[2]))
    row = {"incident_id": "i", "last_seen_at": AT, "evidence": "observed"}
    undiagnosed: Any = SimpleNamespace(since=AT, cause=None, severity="error")
    episodes: Any = [
        ShownEpisode(episode_id=name, summary=undiagnosed, group_id="g", root=None, kinds=["k"], incidents=[row])
        for name in "abc"
    ]
    tables: Any = SimpleNamespace(cluster="c")
    assert [each.episode_id for each in Diagnoses().of(tables, episodes)] == ["b", "c", "a"]


def test_a_group_without_an_incident_is_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a list says of a group in trouble what is wrong, of a few new ones in a request; another status, and some
    minutes, make it look again."""
    asked: list[str] = []

    def made(_tables: object, group: str, _at: object) -> SimpleNamespace:
        asked.append(group)
        return SimpleNamespace(what="All members left.")

    monkeypatch.setattr("groupledger.jobs.serve.diagnoses.diagnosis_of_group", made)
    tables: Any = SimpleNamespace(cluster="c")
    over, open_one = (SimpleNamespace(summary=SimpleNamespace(what="Old.", until=until)) for until in (AT, None))
    none = {"incident_severity": None}
    rows: Any = [none | {"group_id": str(n), "status": "stopped", "worst": over} for n in range(OF_GROUPS_MAX + 2)]
    others: Any = [none | {"group_id": "well", "status": "ok", "worst": None}, {"status": "stopped", "worst": open_one}]
    diagnoses = Diagnoses()
    for expected in (OF_GROUPS_MAX, 2 * OF_GROUPS_MAX, OF_GROUPS_MAX + 2):
        found = diagnoses.of_groups(tables, [*others, *rows], AT)
        assert found[:2] == others
        assert sum(row["worst"].summary.what != "Old." for row in found[2:]) == expected == len(asked)
    assert found[2]["worst"].summary.what == "All members left."
    diagnoses.of_groups(tables, [rows[0] | {"status": "stalled"}], AT)
    diagnoses.of_groups(tables, [rows[0]], AT + 6 * MINUTE)
    assert asked[-2:] == ["0", "0"]


def test_filters(client: Client) -> None:
    """Goal: kind, group, severity and time narrow the list, and an empty one says how to widen it."""
    assert "1 episode," in client.get(f"{INCIDENTS}?group=pay&kind=unknown_member&team=").text
    assert "4 episodes" in client.get(f"{INCIDENTS}?severity=info").text
    assert "Thursday, 1 January 2026" in client.get(INCIDENTS).text
    none = client.get(f"{INCIDENTS}?until=2026-01-01T00:00:00Z").text
    assert "0 episodes" in none
    assert "None in this time." in none
    assert client.get(f"{INCIDENTS}?severity=grave").status == 400
    assert "0 episodes" in client.get(f"{INCIDENTS}?kind=%3Cb%3E").text


@pytest.mark.parametrize("name", ["pay", HOSTILE])
def test_a_proof(client: Client, name: str) -> None:
    """Goal: the row that proves an incident is one link away, also where the name of its group has a slash."""
    address = f"/clusters/{CLUSTER}/rows/rebalances?key={quote(name, '')}%2F1%2F2"
    assert address in client.get(INCIDENTS).text
    row = client.get(address)
    assert (row.status, "inferred_trigger" in row.text, "<script>alert" in row.text) == (200, True, False)


@pytest.mark.parametrize("asked", ["rebalances?key=pay/1/9", "rebalances?key=pay", "rebalances?key=pay/x/2"])
def test_no_such_row(client: Client, asked: str) -> None:
    """Goal: an unknown row, and a text that names no row, are errors of the asker."""
    assert client.get(f"/clusters/{CLUSTER}/rows/{asked}").status == 404
    assert client.get(f"/clusters/{CLUSTER}/rows/..%2Fx?key=1").status == 404
    assert client.get(f"/clusters/{CLUSTER}/rows/lag?key={1 << 70}/pay/orders/0").status == 404
