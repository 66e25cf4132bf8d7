"""Goal: the list of groups has one row for each group, sums that agree with the rules of lag, and those asked for."""

from __future__ import annotations

import random
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.group_list import GroupFilter, group_list, groups_without_history, matching
from groupledger.jobs.ask.lag_answers import lag_at
from groupledger.jobs.ask.lag_sums import sums_of_round
from groupledger.jobs.ask.troubled import is_troubled
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.words import BurrowStatus, LagFlag, LagStatus, words_of
from groupledger.transforms.lag.rules import rollup

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
OF_ROUND = {"sampled_at": AT, "sample_date": AT.date()}
SUMS = (
    *("partitions", "lag_sum", "lag_max", "worst_topic", "worst_partition", "lag_seconds_max"),
    *("lag_seconds_lower_bound", "status", "burrow_status"),
)
FLAGS = (LagFlag.UNSUBSCRIBED,)
BURROW = [each for each in words_of(BurrowStatus) if each != BurrowStatus.ERR]


def write(warehouse: Path, table: str, rows: list[dict[str, Any]]) -> None:
    found = pa.Table.from_pylist([{"cluster": "c", **row} for row in rows], schema_of(table))
    write_deltalake(str(warehouse / table), found, mode="append")


def group(name: str, **columns: Any) -> dict[str, Any]:
    return {"group_id": name, "group_type": "classic", "is_alive": True, "member_count": 1, **columns}


def ask(warehouse: Path, teams: dict[str, str] | None = None, **wanted: Any) -> list[dict[str, Any]]:
    return group_list(ClusterRows(str(warehouse), "c"), GroupFilter(**wanted), teams or {})


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["group_id"] for row in rows]


def key_of(row: dict[str, Any]) -> tuple[str, str]:
    return row["group_id"], row["topic"] or ""


def test_groups_that_the_history_does_not_have_yet(tmp_path: Path) -> None:
    """Goal: a group that only the newest round of lag has is counted, and one of an earlier round is not."""
    write(tmp_path, "groups", [group("old")])
    write(
        tmp_path,
        "lag",
        [
            *({**OF_ROUND, "group_id": name, "topic": "t", "partition": n} for name in ("old", "new") for n in (0, 1)),
            {"sampled_at": AT - timedelta(minutes=1), "sample_date": AT.date(), "group_id": "gone", "topic": "t"},
        ],
    )
    tables = ClusterRows(str(tmp_path), "c")
    assert groups_without_history(tables) == 1
    assert names(group_list(tables, GroupFilter(), {})) == ["old"]


def test_sums(tmp_path: Path) -> None:
    """Goal: the sums and statuses of 300 random groups are those of `rollup`."""
    dice = random.Random(1)
    rows = [
        {
            **OF_ROUND,
            "group_id": f"g{number}",
            "topic": dice.choice("st"),
            "partition": partition,
            "lag": dice.choice([None, 0, 5, 5, dice.randrange(1 << 60)]),
            "lag_seconds": dice.choice([None, 0.0, dice.random()]),
            "lag_seconds_lower_bound": dice.choice([None, dice.random()]),
            "status": dice.choice(words_of(LagStatus)),
            "burrow_status": dice.choice([None, *BURROW]),
            "messages_lost": dice.choice([None, 0, 7]),
            "lag_per_second": dice.choice([None, -0.5, 2.0]),
            "committed_at": dice.choice([None, AT - timedelta(seconds=5), AT + timedelta(seconds=1)]),
            "commit_interval_ms": dice.choice([None, 1_000, 5_000, 60_000]),
            "group_state": "Stable" if number % 3 else "PreparingRebalance",
            "flags": dice.choice([None, [], [LagFlag.UNSUBSCRIBED], [LagFlag.UNSUBSCRIBED, "other"], ["other"]]),
        }
        for number in range(300)
        for partition in range(dice.randrange(1, 5))
    ]
    write(tmp_path, "groups", [group(f"g{number}") for number in range(300)])
    write(tmp_path, "lag", rows)
    tables = ClusterRows(str(tmp_path), "c")
    expected = {each.group_id: each for each in rollup(lag_at(tables, None, None)[1]) if each.topic is None}
    for by_topic in (False, True):
        of_rule = [
            asdict(each) for each in rollup(lag_at(tables, None, None)[1]) if (each.topic is not None) == by_topic
        ]
        sums = sums_of_round(tables, AT, None, by_topic=by_topic)
        assert sorted(sums, key=key_of) == sorted(of_rule, key=key_of)
    found = {row["group_id"]: row for row in ask(tmp_path)}
    assert {name: [row[column] for column in SUMS] for name, row in found.items()} == {
        name: [getattr(row, column) for column in SUMS] for name, row in expected.items()
    }


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    write(
        tmp_path,
        "groups",
        [
            group("pay"),
            group("pay.audit", group_type="consumer"),
            group("empty", member_count=0),
            group("gone", is_alive=False),
            group("a*b", member_count=None),
        ],
    )
    lag = {"topic": "t", "partition": 0, "flags": []}
    write(
        tmp_path,
        "lag",
        [
            {**OF_ROUND, **lag, "group_id": "pay", "lag": 5, "status": "ok"},
            {**OF_ROUND, **lag, "group_id": "pay.audit", "lag": 2, "status": "stopped"},
            {
                **(lag | {"sampled_at": AT - timedelta(minutes=1), "sample_date": AT.date()}),
                "group_id": "empty",
                "lag": 1,
                "status": "stopped",
            },
        ],
    )
    write(tmp_path, "group_states", [{**OF_ROUND, "group_id": "pay", "state": "PreparingRebalance"}])
    incident = {"group_id": "pay", "is_open": True, "severity": "error", "first_seen_at": AT}
    write(
        tmp_path,
        "incidents",
        [incident, incident | {"is_open": False}, incident | {"severity": "info"}, incident | {"group_id": None}],
    )
    return tmp_path


def test_the_list(warehouse: Path) -> None:
    """Goal: those in trouble come first; lag is of the newest round, and states are sampled or follow from the log."""
    found = ask(warehouse, with_ended=True)
    assert [(row["group_id"], row["state"], row["lag_sum"], row["status"], row["open_incidents"]) for row in found] == [
        ("pay", "PreparingRebalance", 5, "ok", 1),
        ("pay.audit", None, 2, "stopped", 0),
        ("a*b", None, None, None, 0),
        ("empty", "Empty", None, None, 0),
        ("gone", "Dead", None, None, 0),
    ]


# The groups in order of trouble: the status of the lag, its sum, and the severities of the open incidents.
BY_TROUBLE: dict[str, tuple[str | None, int, list[str]]] = {
    "stopped and an error": ("stopped", 1, ["error", "warning"]),
    "an error": ("ok", 1, ["error"]),
    "stopped and a warning": ("stopped", 1, ["warning"]),
    "stopped": ("stopped", 9, []),
    "stopped, with less lag": ("stopped", 1, ["info"]),
    "stalled": ("stalled", 99, []),
    "unsubscribed": ("unsubscribed", 9, []),
    "a warning": ("ok", 1, ["warning", "warning"]),
    "growing": ("growing", 99, []),
    "no commit": ("no_commit", 99, []),
    "well": ("ok", 1, ["info"]),
}


def test_the_order_of_trouble(tmp_path: Path) -> None:
    """Goal: an open incident of severity error comes before a status alone, however much lag there is, in the list and
    on the overview."""
    lag = {**OF_ROUND, "topic": "t", "partition": 0}
    write(tmp_path, "groups", [group(name) for name in sorted(BY_TROUBLE)])
    rows = [
        lag | {"group_id": name, "status": status, "lag": records, "flags": [each for each in FLAGS if each == status]}
        for name, (status, records, _) in BY_TROUBLE.items()
    ]
    write(tmp_path, "lag", rows)
    incident = {"is_open": True, "first_seen_at": AT}
    write(
        tmp_path,
        "incidents",
        [incident | {"group_id": name, "severity": one} for name, (*_, each) in BY_TROUBLE.items() for one in each],
    )
    found = ask(tmp_path)
    assert names(found) == [*BY_TROUBLE]
    assert [row["incident_severity"] for row in found][:5] == ["error", "error", "warning", None, None]
    assert [is_troubled(row) for row in found] == [True] * 9 + [False] * 2


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, ["pay", "pay.audit", "a*b", "empty"]),
        ({"pattern": "pay"}, ["pay", "pay.audit"]),
        ({"pattern": "*pay"}, ["pay"]),
        ({"pattern": "*.a*"}, ["pay.audit"]),
        ({"pattern": "gon", "with_ended": True}, ["gone"]),
        ({"statuses": ["stopped", "growing"]}, ["pay.audit"]),
        ({"group_types": ["classic"]}, ["pay", "a*b", "empty"]),
        ({"team": "money"}, ["pay", "pay.audit"]),
        ({"team": "rest"}, ["a*b", "empty"]),
    ],
)
def test_which_are_wanted(warehouse: Path, wanted: dict[str, Any], expected: list[str]) -> None:
    """Goal: each filter leaves its groups; a team has those that no earlier team's pattern matches."""
    assert names(ask(warehouse, {"money": "pay.*", "rest": ".*"}, **wanted)) == expected


def test_without_other_tables(tmp_path: Path) -> None:
    """Goal: groups are listed where nothing was sampled."""
    write(tmp_path, "groups", [group("g")])
    (row,) = ask(tmp_path)
    assert (row["status"], row["lag_sum"], row["open_incidents"], row["team"]) == (None, None, 0, None)


@pytest.mark.parametrize("text", ["a.b", "a(b", "\\d", "[", "a\nb", "ü\U0001f600", "{2}", "x\0"])
def test_characters_of_a_pattern(text: str) -> None:
    """Goal: but for the *, each character of a pattern means itself."""
    assert matching(f"{text}*", [f"{text}c", text, "other"]) == {f"{text}c", text}
