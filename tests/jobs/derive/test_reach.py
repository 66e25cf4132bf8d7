"""Goal: a pass looks back as far as it has to, and not further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from groupledger.jobs.derive.judged_groups import Judged
from groupledger.jobs.derive.reach import Piece, Plan, Reach, ToJudge
from groupledger.jobs.process.clock import DAY_MS
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.transforms.incidents.rules import incidents
from groupledger.transforms.incidents.rules.facts import CommitStep
from lab.truth.made import RULES, T, commit, facts, generation, interval, rebalance, tenure
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.transforms.incidents.rules import GroupFacts

DAY_S = DAY_MS // 1_000
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
            incident("kinds", 88, 89, episode_id="of both"),
            incident("kinds", 95, 96, episode_id="of both"),
        ]
        opened.commits.append(INCIDENTS, pa.Table.from_pylist(rows, arrow_schema(INCIDENTS.schema)))
        yield opened


def plan(ledger: Ledger, groups: ToJudge, **away: int) -> Plan:
    lost = {name: [["orders", 0, day * DAY_MS]] for name, day in away.items()}
    return Plan(ledger, groups, Judged(until_ms=NOW_DAY * DAY_MS, away=lost), AFTER_DAYS * DAY_MS)


def test_groups_with_something_that_began_long_ago(ledger: Ledger) -> None:
    """Goal: of each group a pass reads at least a week before the first thing that is not final."""
    names = {"settled", "new", "long", "open", "kinds", "away", "stays", "whole", "late"}
    lost = {"away": 60, "stays": 60, "late": 98, "other": 20}
    found = [*plan(ledger, ToJudge(names, {"whole"}, {"away", "late", "other"}), **lost).pieces()]
    assert found == [
        Piece(reach(NEAR), ["late", "new", "settled", "stays"]),
        Piece(reach(FINAL - 8 * AFTER_DAYS), ["away"]),
        Piece(reach(FINAL - 4 * AFTER_DAYS), ["long", "open"]),
        Piece(reach(FINAL - 2 * AFTER_DAYS), ["kinds"]),
        Piece(Reach(), ["whole"]),
    ]


def test_all_groups(ledger: Ledger) -> None:
    near, *others = plan(ledger, ToJudge(None, {"whole"})).pieces()
    assert near == Piece(reach(NEAR), None, {"long", "open", "kinds", "whole"})
    assert [each.names for each in others] == [["long", "open"], ["kinds"], ["whole"]]
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
    """Goal: a pass replaces what is not final, and what it found again; no row that is older than what it read, or than
    the history."""
    rows = ledger.arrow(INCIDENTS)

    def ids(some: pa.Table) -> set[str]:
        return {*some["incident_id"].to_pylist()}

    not_final = {"new/94", "long/80", "open/85", "kinds/95"}
    assert ids(rows.filter(reach(NEAR).replaced({"kinds/88", "settled/40"}))) == not_final | {"kinds/88"}
    assert ids(reach(NEAR).judged(rows)) == not_final
    assert ids(rows.filter(Reach().replaced(()))) == ids(rows) == ids(Reach().judged(rows))
    assert ids(rows.filter(Reach(floor_ms=60 * DAY_MS).replaced(()))) == ids(rows) - {"settled/40"}


def test_an_incident_with_the_id_of_one_before_all_that_is_read(ledger: Ledger) -> None:
    groups = plan(ledger, ToJudge({"settled", "new"}, ()))
    rows = [incident("settled", 98, 99, incident_id="settled/40"), incident("new", 98, 99, incident_id="new/94")]
    schema = arrow_schema(INCIDENTS.schema)

    def met(read: Reach, member_id: str | None) -> set[str]:
        return groups.met_before(pa.Table.from_pylist([row | {"member_id": member_id} for row in rows], schema), read)

    assert met(reach(NEAR), "m") == {"settled"}
    assert met(reach(30), "m") == met(Reach(), "m") == met(reach(NEAR), None) == set()


def as_table(rows: list[dict[str, Any]]) -> pa.Table:
    names = ("incident_id", "kind", "is_open", "first_seen_at", "last_seen_at")
    found = [{name: row[name] for name in names} for row in rows]
    times = {name: [instant_of_ms(row[name] // 1_000) for row in found] for name in names if name.endswith("_at")}
    return pa.table({name: times.get(name, [row[name] for row in found]) for name in names})


def member_with_a_gap(now_day: int, left_day: int | None) -> GroupFacts:
    """Returns a group whose only member had a gap in its commits on day 40, and perhaps expired on a later one."""
    left_s = None if left_day is None else left_day * DAY_S
    gone = {"to_generation": 4, "leave_cause": "session_expired", "leave_cause_confidence": 0.9}
    begin, end = 40 * DAY_S, 40 * DAY_S + 3_600
    step = CommitStep(
        commit=commit(100, T + begin * 1_000, begin),
        next_commit=commit(200, T + end * 1_000, end),
        interval_ms=5_000.0,
        high_watermark=500,
        waiting_from_ms=T + begin * 1_000 + 1_000,
    )
    return facts(
        generations=[generation(4, 50, left_s), *([] if left_s is None else [generation(5, left_s, None)])],
        rebalances=[] if left_s is None else [rebalance(5, left_s)],
        members=[tenure("m-2", 10, left_s, **({} if left_s is None else gone))],
        assignments=[interval("m-2", 0, 50, left_s)],
        steps=[step],
        as_of_ms=T + now_day * DAY_MS,
    )


def test_a_final_incident_whose_episode_goes_on() -> None:
    """Goal: a member that drops out now does not bring its gap of three weeks ago into the table once more."""
    stored = as_table(incidents(member_with_a_gap(60, None), RULES))
    computed = as_table(incidents(member_with_a_gap(62, 61), RULES))
    read = Reach(T + 34 * DAY_MS, T + 48 * DAY_MS)
    found = read.judged(computed)
    kept = stored.filter(~read.replaced(found["incident_id"].to_pylist()))
    assert stored["kind"].to_pylist() == ["commit_gap"]
    assert computed["kind"].to_pylist() == ["commit_gap", "session_expired"]
    assert [*kept["kind"].to_pylist(), *found["kind"].to_pylist()] == ["commit_gap", "session_expired"]
