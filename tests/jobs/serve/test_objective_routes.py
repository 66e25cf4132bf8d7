"""Goal: the page and the JSON of objectives have what the command prints; without objectives there is no link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.process.settings import load_settings
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, served, write

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "pay <b>"
PAGE = f"/clusters/{CLUSTER}/objectives"
SETTINGS = {"groups": "pay.*", "lag_s": 60, "target_percent": 99, "window_days": 1}


def test_objectives_of_groups(tmp_path: Path) -> None:
    fill(tmp_path, EVIL, "orders", "pod-b")
    fill(tmp_path, "other", "orders", "pod-c")
    lag = {"group_id": EVIL, "topic": "orders", "partition": 0, "flags": [], "sample_date": AT.date()}
    write(tmp_path, "lag", *({**lag, "sampled_at": AT + each * MINUTE, "lag_seconds": 90.0} for each in range(2, 62)))
    with served(tmp_path, settings=load_settings(objectives={"on-time": SETTINGS})) as client:
        answer = client.get(f"/api/v1{PAGE}").json
        (found,) = answer["objectives"]
        assert (found["objective"], found["group_id"], found["minutes_late"]) == ("on-time", EVIL, 59)
        assert (found["minutes_unknown"], found["attained_percent"], found["burning"]) == (1_440 - 59, 0.0, "fast")
        assert answer["counted_until"] == "2026-01-01T13:01:00.000Z"
        page = client.get(PAGE)
        assert page.status == 200
        assert "pay &lt;b&gt;" in page.text
        assert EVIL not in page.text
        early = client.get(f"{PAGE}?until=2026-01-01T12:02:00Z")
        assert early.status == 200
        assert '<td class="w ">unknown</td>' in early.text
        assert client.get(f"{PAGE}?group=other").text.count("No objective is about it.") == 1
        assert client.get(f"/api/v1{PAGE}?group=nobody").status == 404
        assert f'href="{PAGE}?group=other"' in client.get(f"/clusters/{CLUSTER}/groups/other").text


def test_settings_without_objectives(tmp_path: Path) -> None:
    fill(tmp_path, "pay", "orders", "pod-b")
    with served(tmp_path) as client:
        assert client.get(f"/api/v1{PAGE}").json["objectives"] == []
        assert "The settings of this server have no objectives." in client.get(PAGE).text
        assert PAGE not in client.get(f"/clusters/{CLUSTER}/groups/pay").text
