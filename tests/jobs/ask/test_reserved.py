"""Goal: while a static member of a KIP-848 group is away, all answers about owners say what is reserved for it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.group_diff import group_diff
from groupledger.jobs.ask.group_timeline import group_timeline, lines, owners_now
from groupledger.jobs.ask.owner import owner
from groupledger.jobs.ask.owner_changes import owner_changes
from groupledger.jobs.ask.owners import owners_of, read_history
from groupledger.jobs.serve.axis import Window
from groupledger.jobs.serve.group_rows import read_groups
from groupledger.jobs.serve.lanes import draw
from groupledger.schemas.words import MemberState, Ownership
from tests.jobs.ask.real_groups import EAST, at, write_group
from tests.transforms.history.rules.consumer_groups import consumer_groups, of_group, topic_names

if TYPE_CHECKING:
    from datetime import datetime

GROUP = "static"
LOG = of_group(consumer_groups(), GROUP)
SECOND = timedelta(seconds=1)
AWAY, BACK, GONE = "i1 goes away", "i1 comes back", "i0 and i1 go away and their sessions end"


def instant_of(step: str) -> datetime:
    """Returns when the first record of a step was written."""
    return at(next(record for record in LOG if record["step"] == step)["after_ms"])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> ClusterRows:
    """The tables of a real broker's log up to the instant at which both members are away."""
    folder = tmp_path_factory.mktemp("warehouse")
    until = max(n for n, record in enumerate(LOG) if record["value"] and record["value"].get("member_epoch") == -2)
    write_group(folder, GROUP, LOG[: until + 1], topic_names(consumer_groups()))
    return ClusterRows(str(folder), EAST)


@pytest.fixture(scope="module")
def member_ids(tables: ClusterRows) -> dict[str, list[str]]:
    """The ids of each instance, in the order of their tenures."""
    found: dict[str, list[str]] = {}
    for row in sorted(tables.rows("members"), key=lambda row: row["from_offset"]):
        found.setdefault(row["group_instance_id"], []).append(row["member_id"])
    return found


def test_owner(tables: ClusterRows, member_ids: dict[str, list[str]]) -> None:
    """Goal: a partition is owned before, reserved for the member while that is away, and then owned by the member that
    came for it."""
    (first, second) = member_ids["i1"]
    answer = [
        owner(tables, GROUP, GROUP, 1, when) for when in (instant_of(AWAY) - SECOND, instant_of(AWAY), instant_of(BACK))
    ]
    found = [(row["status"], row["member_id"]) for (row,) in answer]
    assert found == [(Ownership.OWNED, first), (Ownership.RESERVED, first), (Ownership.OWNED, second)]
    (reserved,) = answer[1]
    assert (reserved["since"], reserved["until"]) == (instant_of(AWAY), instant_of(BACK))
    assert (reserved["group_instance_id"], reserved["generation"]) == ("i1", 2)
    assert "away" in reserved["reason"]
    assert answer[0][0]["reason"] is None


def test_all_partitions(tables: ClusterRows, member_ids: dict[str, list[str]]) -> None:
    """Goal: the list of partitions of pages and JSON, the members' list, and `diff` show the partition as reserved,
    too."""
    (keeps,) = member_ids["i0"]
    (first, second) = member_ids["i1"]
    _, rows = owners_of(tables, GROUP, instant_of(AWAY))
    assert [(row["partition"], row["status"], row["member_id"], row["group_instance_id"]) for row in rows] == [
        (0, Ownership.OWNED, keeps, "i0"),
        (1, Ownership.RESERVED, first, "i1"),
    ]
    assert {row["member_id"]: (row["owns"], row["owned"], row["reserved"]) for row in owners_now(tables, GROUP)} == {
        keeps: ("reserved: static 0", [], [{"topic": "static", "partitions": [0]}]),
        second: ("reserved: static 1", [], [{"topic": "static", "partitions": [1]}]),
    }
    _, differences = group_diff(tables, GROUP, instant_of(AWAY) - SECOND, instant_of(AWAY))
    assert [(row["what"], row["then"], row["now"]) for row in differences] == [
        ("owner", first, f"reserved for {first}")
    ]


def test_convergence(tables: ClusterRows) -> None:
    """Goal: how long an epoch took to converge is reported once, and not of the revision that the return is."""
    _, entries, _ = group_timeline(tables, GROUP, None, None, 100)
    assert [entry["revision"] for entry in entries] == [0, 0, 1]
    reported = [line.strip() for entry in entries for line in lines(entry) if "converged" in line]
    assert reported == ["converged: after 0 ms", "converged: after 508 ms"]


def test_changes(tables: ClusterRows, member_ids: dict[str, list[str]]) -> None:
    """Goal: a static member that goes away gives nothing up, and its partitions pass from it to the member that comes
    back."""
    (first, second) = member_ids["i1"]
    found = dict(owner_changes(tables, GROUP, instant_of(AWAY), None))
    assert found[instant_of(AWAY)] == f"{first} is away, and static 1 stays reserved for it"
    assert found[instant_of(BACK)] == f"{second} took static 1 from {first}"
    assert found[instant_of(GONE)] == f"{second} is away, and static 1 stays reserved for it"


def test_pictures(tables: ClusterRows, member_ids: dict[str, list[str]]) -> None:
    """Goal: the picture of the group draws what is reserved apart, and says for whom."""
    first, _ = member_ids["i1"]
    since, until = instant_of(AWAY) - SECOND, instant_of(BACK)
    (rows,) = read_groups(tables, [read_history(tables, GROUP)], since, until, until)
    (topic,) = draw(rows, Window(since, until), until).topics
    shapes = (each for lane in topic.lanes for each in lane.shapes)
    (drawn,) = (each for each in shapes if each.style == Ownership.RESERVED)
    assert drawn.text.startswith(f"static 1: reserved for {first} (static-i1")


def test_the_steps_say_so(tables: ClusterRows) -> None:
    """Goal: the tables are those of three absences."""
    away = [row for row in tables.rows("member_epochs") if row["state"] == MemberState.AWAY]
    assert len(away) == 3
