"""Goal: while a static member of a KIP-848 group is away, all who tell of owners say what is reserved for it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.group_diff import group_diff
from groupledger.jobs.ask.group_timeline import owners_now
from groupledger.jobs.ask.owner import owner
from groupledger.jobs.ask.owner_changes import owner_changes
from groupledger.jobs.ask.owners import owners_of, read_history
from groupledger.jobs.report.queries import Limits
from groupledger.jobs.report.selection import Selection
from groupledger.jobs.serve.lanes import Window, draw
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.words import MemberState, Ownership
from lab.truth.histories import stretch
from tests.transforms.history.rules.consumer_groups import consumer_groups, event, of_group, tables_of, topic_names

if TYPE_CHECKING:
    from pathlib import Path

GROUP, EAST = "static", "east"
LOG = of_group(consumer_groups(), GROUP)
SECOND = timedelta(seconds=1)
AWAY, BACK, GONE = "i1 goes away", "i1 comes back", "i0 and i1 go away and their sessions end"


def at(after_ms: int) -> datetime:
    return datetime.fromtimestamp(after_ms / 1_000, timezone.utc)


def told_at(step: str, epoch: int | None = None) -> datetime:
    """Returns when the first record of a step was written, or the first one with a member epoch."""
    of_step = (record for record in LOG if record["step"] == step)
    if epoch is not None:
        of_step = (record for record in of_step if record["value"] and record["value"].get("member_epoch") == epoch)
    return at(next(of_step)["after_ms"])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> ClusterRows:
    """The tables of a real broker's log up to the instant at which both members are away."""
    folder = tmp_path_factory.mktemp("warehouse")
    until = max(n for n, record in enumerate(LOG) if record["value"] and record["value"].get("member_epoch") == -2)
    names = topic_names(consumer_groups())
    rows: dict[str, list[dict[str, Any]]] = {
        name: [*table.values()]
        for name, table in tables_of(GROUP, [[event(record, names) for record in LOG[: until + 1]]]).items()
    }
    rows["coverage"] = [{"kafka_partition": 0, **stretch(0, 10_000, (0, 60_000), "complete")}]
    for name, of_table in rows.items():
        is_open = {"is_open": 1} if "is_open" in schema_of(name).names else {}
        ended = [key for key in ("valid_to", "left_at", "ended_at") if key in schema_of(name).names]
        written = [
            {"cluster": EAST, **row, **(is_open if not any(row[key] for key in ended) else {"is_open": 0})}
            for row in of_table
        ]
        write(folder, name, written)
    return ClusterRows(str(folder), EAST)


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    known = {*schema_of(name).names}
    chosen = [{key: value for key, value in row.items() if key in known} for row in rows]
    write_deltalake(str(folder / name), pa.Table.from_pylist(chosen, schema_of(name)))


@pytest.fixture(scope="module")
def member_ids(tables: ClusterRows) -> dict[str, list[str]]:
    """The ids of each instance, in the order of their tenures."""
    found: dict[str, list[str]] = {}
    for row in sorted(tables.rows("members"), key=lambda row: row["from_offset"]):
        found.setdefault(row["group_instance_id"], []).append(row["member_id"])
    return found


def test_owner(tables: ClusterRows, member_ids: dict[str, list[str]]) -> None:
    """Goal: before, meanwhile and after: owned, reserved for the member that is away, and owned by who came for it."""
    (first, second) = member_ids["i1"]
    told = [owner(tables, GROUP, GROUP, 1, when) for when in (told_at(AWAY) - SECOND, told_at(AWAY), told_at(BACK))]
    found = [(row["status"], row["member_id"]) for (row,) in told]
    assert found == [(Ownership.OWNED, first), (Ownership.RESERVED, first), (Ownership.OWNED, second)]
    (reserved,) = told[1]
    assert (reserved["since"], reserved["until"]) == (told_at(AWAY), told_at(BACK))
    assert (reserved["group_instance_id"], reserved["generation"]) == ("i1", 2)
    assert "away" in reserved["reason"]
    assert told[0][0]["reason"] is None


def test_all_partitions(tables: ClusterRows, member_ids: dict[str, list[str]]) -> None:
    """Goal: so say the list of partitions that pages and JSON have, the members' list, and what differs."""
    (keeps,) = member_ids["i0"]
    (first, second) = member_ids["i1"]
    _, rows = owners_of(tables, GROUP, told_at(AWAY))
    assert [(row["partition"], row["status"], row["member_id"], row["group_instance_id"]) for row in rows] == [
        (0, Ownership.OWNED, keeps, "i0"),
        (1, Ownership.RESERVED, first, "i1"),
    ]
    assert {row["member_id"]: row["owns"] for row in owners_now(tables, GROUP)} == {
        keeps: "reserved: static 0",
        second: "reserved: static 1",
    }
    _, differences = group_diff(tables, GROUP, told_at(AWAY) - SECOND, told_at(AWAY))
    assert [(row["what"], row["then"], row["now"]) for row in differences] == [
        ("owner", first, f"reserved for {first}")
    ]


def test_changes(tables: ClusterRows, member_ids: dict[str, list[str]]) -> None:
    """Goal: who goes away gives nothing up, and who comes back takes it from there."""
    (first, second) = member_ids["i1"]
    found = dict(owner_changes(tables, GROUP, told_at(AWAY), None))
    assert found[told_at(AWAY)] == f"{first} is away, and static 1 stays reserved for it"
    assert found[told_at(BACK)] == f"{second} took static 1 from {first}"
    assert found[told_at(GONE)] == f"{second} is away, and static 1 stays reserved for it"


def test_pictures(tables: ClusterRows, member_ids: dict[str, list[str]]) -> None:
    """Goal: the page of the group and the report draw what is reserved apart, and say for whom."""
    first, _ = member_ids["i1"]
    since, until = told_at(AWAY) - SECOND, told_at(BACK)
    drawing = draw(read_history(tables, GROUP), Window(since, until), (), (), (), until)
    (drawn,) = (each for each in drawing.rectangles if each.style == Ownership.RESERVED)
    assert drawn.text.startswith(f"static 1: reserved for {first} (static-i1")
    selection = Selection(tables, since, until, Limits(), ())
    data: Any
    (data,) = selection.group_data(selection.ranked())
    (bar,) = (each for each in data["bars"] if each["owner"] == Ownership.RESERVED)
    assert data["units"][bar["unit"]]["partition"] == 1
    assert data["members"][bar["reserved_for"]]["member_id"] == first
    assert bar["length"] == (told_at(BACK) - told_at(AWAY)) / timedelta(milliseconds=1)


def test_the_steps_say_so(tables: ClusterRows) -> None:
    """Goal: the tables are those of three absences."""
    away = [row for row in tables.rows("member_epochs") if row["state"] == MemberState.AWAY]
    assert len(away) == 3
