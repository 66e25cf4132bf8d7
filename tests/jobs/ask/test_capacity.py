"""Goal: command, JSON and page say what the kept rounds show of a group's capacity, and that nothing is known where no
round shows it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from groupledger.jobs.ask.capacity import capacity_of, sentences
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.cli.main import main
from groupledger.schemas.words import CapacityFinding
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, served, write

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "pay <b>"
ROUND = timedelta(seconds=15)
PACE, PRODUCED = 100, 80  # records per second: of a member, and in each partition


def rounds(group: str, *, backlog: bool) -> list[dict[str, Any]]:
    """Half an hour of two members with two partitions each; with a backlog they can't keep up."""
    rows: list[dict[str, Any]] = []
    for number in range(121):
        at = AT + 2 * MINUTE + number * ROUND
        elapsed_s = number * ROUND.total_seconds()
        for partition in range(4):
            end = round(elapsed_s * PRODUCED)
            committed = round(elapsed_s * PACE / 2) - 90_000 if backlog else end
            row: dict[str, Any] = {
                "group_id": group,
                "topic": "orders",
                "partition": partition,
                "sampled_at": at,
                "flags": [],
            }
            row |= {"sample_date": at.date(), "committed_offset": committed, "high_watermark": end}
            row |= {"lag": end - committed, "lag_seconds": 900.0 if backlog else 0.0, "commit_interval_ms": 5_000}
            row |= {"owner": f"member-{partition % 2}", "client_id": "c", "client_host": "/h", "status": "ok"}
            rows.append(row | {"group_state": "Stable"})
    at = rows[-1]["sampled_at"]
    state = {"group_id": group, "sampled_at": at, "sample_date": at.date(), "group_type": "classic"}
    STATES.append(state | {"protocol": "range", "member_count": 2, "state": "Stable"})
    return rows


STATES: list[dict[str, Any]] = []


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("capacity")
    for name, backlog in ((EVIL, True), ("quiet", False)):
        fill(folder, name, "elsewhere", "member-9")
        write(folder, "lag", *rounds(name, backlog=backlog))
    fill(folder, "silent", "elsewhere", "member-9")
    write(folder, "group_states", *STATES)
    return folder


def reported(warehouse: Path, name: str, *asked: int) -> dict[str, Any]:
    return capacity_of(ClusterRows(str(warehouse), CLUSTER), name, "latest", asked=asked)


def test_too_few_members(warehouse: Path) -> None:
    """Goal: each member does 100 records a second and gets 160; four members would do, since each would get 80."""
    found = reported(warehouse, EVIL, 4, 8)
    assert (found["members"], found["partitions"], found["produced_per_second"]) == (2, 4, 320.0)
    assert (found["pace_per_second"], found["members_needed"]) == (100.0, 4)
    assert found["findings"] == [CapacityFinding.MORE_NEEDED]
    four, eight = found["asked"]
    assert (four["load"], four["idle_members"], eight["idle_members"]) == (0.8, 0, 4)
    assert four["catch_up_seconds"] == pytest.approx(found["lag"] / 80)
    assert found["even_members"] == [1, 2, 4]
    assert (found["partitions_with_lag"], found["lag_without_stuck"]) == (4, found["lag"])


def test_without_a_backlog(warehouse: Path) -> None:
    """Goal: nobody knows how fast members are that keep up: two carry the load, and fewer are not promised."""
    found = reported(warehouse, "quiet")
    assert (found["pace_per_second"], found["pace_at_least_per_second"]) == (None, 160.0)
    assert (found["members_needed"], found["members_needed_at_most"]) == (None, 2)
    assert found["findings"] == [CapacityFinding.ENOUGH]


def test_where_no_round_shows_anything(warehouse: Path) -> None:
    """Goal: every figure of a group without rounds in the time is unknown."""
    found = reported(warehouse, "silent")
    assert found["findings"] == [CapacityFinding.UNKNOWN]
    assert found["members_needed"] is found["pace_per_second"] is found["produced_per_second"] is None
    (sentence,) = sentences(found)
    assert "is not known" in sentence


def test_command_and_json(warehouse: Path) -> None:
    """Goal: both give the same, and the page has it in a line, with names made harmless."""
    words = ["capacity", EVIL, "--warehouse", str(warehouse), "--cluster", CLUSTER, "--members", "4"]
    printed = CliRunner().invoke(main, words)
    assert printed.exit_code == 0, printed.output
    assert (
        "4 members would be enough, and there are 2: each then has to process at most 80% of what it can (100.0"
        " records/s)." in printed.stdout
    )
    found = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    with served(warehouse) as client:
        path = "/groups/pay%20%3Cb%3E"
        answer = client.get(f"/api/v1/clusters/{CLUSTER}{path}/capacity?members=4").json
        assert {name: answer[name] for name in found if name != "known_until"} == {
            name: value for name, value in found.items() if name != "known_until"
        }
        assert answer["sentences"][0].startswith("4 members would be enough")
        assert "4 members would be enough" in client.get(f"/clusters/{CLUSTER}{path}").text
        assert client.get(f"/api/v1/clusters/{CLUSTER}{path}/capacity?members=0").status == 400
        assert client.get(f"/api/v1/clusters/{CLUSTER}/groups/nobody/capacity").status == 404


def test_one_is_singular(warehouse: Path) -> None:
    """Goal: a sentence about one member is English."""
    found = reported(warehouse, "quiet") | {"findings": [CapacityFinding.IDLE_MEMBERS, CapacityFinding.ENOUGH]}
    idle, enough = sentences(found | {"members": 1, "idle_members": 1})
    assert idle == "1 member has no partition: there are 2 members and 4 partitions."
    assert enough == "1 member carries the load."


@pytest.mark.parametrize(("state", "idle"), [("CompletingRebalance", 0), ("Stable", 3)])
def test_members_of_a_rebalance(tmp_path: Path, state: str, idle: int) -> None:
    """Goal: members that wait for the end of a rebalance are not counted beside the owners before it."""
    rows = [row | {"group_state": state} for row in rounds("g", backlog=False)]
    fill(tmp_path, "g", "elsewhere", "member-9")
    write(tmp_path, "lag", *rows)
    write(tmp_path, "group_states", STATES.pop() | {"state": state, "member_count": 5})
    found = reported(tmp_path, "g")
    assert (found["members"], found["idle_members"]) == (2, idle)
    assert (CapacityFinding.IDLE_MEMBERS in found["findings"]) == bool(idle)
