"""Goal: metrics and messages are only about groups and topics that the settings include."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from groupledger.jobs.process.selection import chosen_incidents, chosen_names, chosen_rows
from groupledger.jobs.process.settings import NameLists, SelectionSettings, load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from groupledger.transforms.lag.rules import LagRow

SHIPPED = load_settings().selection
NAMES = {"orders", "orders-retry", "payments", "a(b\n", ""}


def lists(*include: str, exclude: tuple[str, ...] = ()) -> NameLists:
    return NameLists(include=[*include], exclude=[*exclude])


def selection(**changed: NameLists) -> SelectionSettings:
    return SHIPPED.model_copy(update=changed)


def row(group_id: str, topic: str, partition: int) -> LagRow:
    return cast("LagRow", SimpleNamespace(group_id=group_id, topic=topic, partition=partition))


def incident(group_id: str | None, *units: tuple[str, int]) -> dict[str, Any]:
    found = [{"topic": topic, "partition": partition} for topic, partition in units]
    return {"group_id": group_id, "partitions": found or None}


@pytest.mark.parametrize(
    ("of_names", "chosen"),
    [
        (lists(), NAMES),
        (lists("orders.*"), {"orders", "orders-retry"}),
        (lists("orders"), {"orders"}),
        (lists("orders", "pay.*"), {"orders", "payments"}),
        (lists(exclude=(".*-retry", "pay.*")), NAMES - {"orders-retry", "payments"}),
        (lists("orders.*", exclude=(".*-retry",)), {"orders"}),
        (lists(".*", exclude=("(?s:.*)",)), set()),
        (lists("orders|x", exclude=("x|y",)), {"orders"}),
    ],
)
def test_names(of_names: NameLists, chosen: set[str]) -> None:
    """Goal: patterns match whole names, any pattern of the list is enough, and an excluded name is out whatever
    includes it."""
    assert chosen_names(of_names, NAMES) == chosen


def test_rows_of_lag() -> None:
    """Goal: a row needs its group, its topic and its partition; a partition's name ends in its number."""
    rows = [row("a", "t", 0), row("a", "t", 10), row("b", "t", 0), row("a", "t-1", 0), row("a", "t", 1)]
    assert chosen_rows(SHIPPED, rows) is rows
    assert chosen_rows(selection(groups=lists(exclude=("b",))), rows) == [*rows[:2], *rows[3:]]
    assert chosen_rows(selection(topics=lists("t")), rows) == [*rows[:3], rows[4]]
    assert chosen_rows(selection(partitions=lists(exclude=("t-1", "t-0"))), rows) == [rows[1], rows[3]]
    assert chosen_rows(selection(groups=lists("b"), partitions=lists("t-1.*")), rows) == []


def test_incidents() -> None:
    """Goal: an incident goes with its group, and with the last of its partitions; one without a group stays."""
    of_log, of_group = incident(None), incident("a")
    of_one, of_two = incident("a", ("t", 0)), incident("a", ("t", 0), ("t", 1))
    every = [of_log, of_group, of_one, of_two]
    assert chosen_incidents(SHIPPED, every) is every
    assert chosen_incidents(selection(groups=lists("b")), every) == [of_log]
    assert chosen_incidents(selection(partitions=lists(exclude=("t-0",))), every) == [of_log, of_group, of_two]
    assert chosen_incidents(selection(topics=lists(exclude=("t",))), every) == [of_log, of_group]


def test_a_cluster_of_its_own(tmp_path: Path) -> None:
    """Goal: a list of the user takes the place of the shipped one, also for one of several clusters."""
    path = tmp_path / "settings.yaml"
    path.write_text(
        "selection: {topics: {exclude: [a]}}\n"
        "clusters: {east: {bootstrap_servers: e:1, selection: {groups: {exclude: [x]}}}}"
    )
    assert load_settings(path).selection == selection(topics=lists(exclude=("a",)))
    east = selection(topics=lists(exclude=("a",)), groups=lists(exclude=("x",)))
    assert load_settings(path, cluster="east").selection == east
