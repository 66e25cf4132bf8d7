"""Goal: a pass looks back as far as it has to, and not further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from groupledger.jobs.derive.reach import Piece, Plan, Reach, ToJudge
from groupledger.jobs.process.clock import DAY_MS
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.kinds.incidents import LEADER_NEVER_SYNCED, OFFSET_REWIND
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.requests import REQUESTS
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from groupledger.jobs.warehouse.ledger import Ledger

AFTER_DAYS, NOW_DAY = 7, 100
FINAL, NEAR = NOW_DAY - AFTER_DAYS, NOW_DAY - 2 * AFTER_DAYS
"""The day since which incidents are not final, and that since which a pass reads."""


def reach(since_day: int) -> Reach:
    return Reach(since_day * DAY_MS, FINAL * DAY_MS)


def incident(group: str, first_day: int, last_day: int, **values: Any) -> dict[str, Any]:
    return {
        "cluster": "test",
        "incident_id": f"{group}/{first_day}",
        "episode_id": f"{group}/{first_day}",
        "group_id": group,
        "first_seen_at": instant_of_ms(first_day * DAY_MS),
        "last_seen_at": instant_of_ms(last_day * DAY_MS),
        "is_open": False,
        **values,
    }


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_test_ledger(None, tmp_path) as opened:  # type: ignore[arg-type]
        opened.create(INCIDENTS)
        rows = [
            incident("settled", 40, 41),
            incident("new", 94, 95),
            incident("long", 80, 95),
            incident("open", 85, 92, is_open=True),
            incident("kinds", 85, 86, episode_id="of both"),
            incident("kinds", 95, 96, episode_id="of both"),
        ]
        opened.commits.append(INCIDENTS, pa.Table.from_pylist(rows, arrow_schema(INCIDENTS.schema)))
        yield opened


def plan(ledger: Ledger, groups: ToJudge, **away: int) -> Plan:
    since = {name: day * DAY_MS for name, day in away.items()}
    return Plan(ledger, groups, NOW_DAY * DAY_MS, since, AFTER_DAYS * DAY_MS)


def test_groups_with_something_that_began_long_ago(ledger: Ledger) -> None:
    """Goal: of each group a pass reads at least a week before the first thing that is not final."""
    names = {"settled", "new", "long", "open", "kinds", "away", "whole", "late"}
    found = [*plan(ledger, ToJudge(names, {"whole"}), away=60, late=98, other=20).pieces()]
    assert found == [
        Piece(reach(NEAR), ["late", "new", "settled"]),
        Piece(reach(FINAL - 8 * AFTER_DAYS), ["away"]),
        Piece(reach(FINAL - 4 * AFTER_DAYS), ["kinds", "long", "open"]),
        Piece(Reach(), ["whole"]),
    ]


def test_all_groups(ledger: Ledger) -> None:
    near, *others = plan(ledger, ToJudge(None, {"whole"})).pieces()
    assert near == Piece(reach(NEAR), None, {"long", "open", "kinds", "whole"})
    assert [each.names for each in others] == [["kinds", "long", "open"], ["whole"]]
    assert [*plan(ledger, ToJudge()).pieces()] == [Piece(Reach(), None)]


def test_what_is_read() -> None:
    """Goal: rows that are open are read whenever they began, and tables without a past as a whole."""
    rows = pa.table(
        {
            "ended_at": [None, instant_of_ms((NEAR - 1) * DAY_MS), instant_of_ms(NEAR * DAY_MS)],
            "is_open": [1, 0, 0],
            "happened_at": [instant_of_ms((NEAR - 1) * DAY_MS), *[instant_of_ms(NEAR * DAY_MS)] * 2],
        }
    )
    read = rows.filter(reach(NEAR).within(GENERATIONS)(pc.field))
    assert read["is_open"].to_pylist() == [1, 0]
    assert rows.filter(reach(NEAR).within(REQUESTS)(pc.field)).num_rows == 2
    assert reach(NEAR).within(GROUPS)(pc.field) is True
    assert Reach().within(GENERATIONS)(pc.field) is True


def test_what_is_replaced(ledger: Ledger) -> None:
    """Goal: a pass replaces what is not final, and the other rows of an episode that it found; no older row."""
    rows = ledger.arrow(INCIDENTS)
    replaced = rows.filter(reach(NEAR).replaced({"of both", "settled/40"}))
    assert {*replaced["incident_id"].to_pylist()} == {"new/94", "long/80", "open/85", "kinds/85", "kinds/95"}
    assert rows.filter(Reach().replaced(())).num_rows == rows.num_rows
    assert {*reach(NEAR).judged(rows)["incident_id"].to_pylist()} == {*replaced["incident_id"].to_pylist()}


def test_an_episode_with_the_id_of_one_before_all_that_is_read(ledger: Ledger) -> None:
    groups = plan(ledger, ToJudge({"settled", "new"}, ()))
    rows = [incident("settled", 98, 99, episode_id="settled/40"), incident("new", 98, 99, episode_id="new/94")]
    schema = arrow_schema(INCIDENTS.schema)

    def met(read: Reach, **values: str) -> set[str]:
        return groups.met_before(pa.Table.from_pylist([row | values for row in rows], schema), read)

    assert met(reach(NEAR), member_id="m") == {"settled"}
    assert met(reach(NEAR), kind=LEADER_NEVER_SYNCED.name) == {"settled"}
    assert met(reach(30), member_id="m") == met(Reach(), member_id="m") == set()
    assert met(reach(NEAR), kind=OFFSET_REWIND.name) == set()
