"""Goal: the live table shows the worst groups of a round, and nothing that a terminal would obey."""

from __future__ import annotations

import io

from rich.console import Console

from groupledger.jobs.monitor.lag_screen import LagScreen, duration, table_of
from groupledger.jobs.monitor.monitor import looked_for
from groupledger.transforms.lag.rules import Rollup

EVIL = "\x1b[2Jgone\u202e"


def group(name: str, status: str, lag: int | None, topic: str | None = None, without: int = 0) -> Rollup:
    return Rollup(
        sampled_at_ms=0,
        group_id=name,
        topic=topic,
        group_state="Stable",
        partitions=1,
        partitions_without_lag=without,
        partitions_unsubscribed=0,
        lag_sum=lag,
        lag_max=lag,
        worst_topic=EVIL,
        worst_partition=0,
        lag_seconds_max=90.0,
        lag_seconds_lower_bound=90.0,
        messages_lost=0,
        lag_per_second=-1.0,
        catch_up_seconds=7_300.0,
        commit_age_ms=61_000,
        commit_interval_ms=None,
        status=status,
        burrow_status="OK",
    )


def shown(*groups: Rollup, lines: int = 10) -> str:
    text = io.StringIO()
    Console(file=text, width=200).print(table_of("Lag", groups, lines))
    return text.getvalue()


def test_worst_first() -> None:
    """Goal: groups are ordered by status, then by lag; topics are not among them; groups for which there is no room are
    counted."""
    groups = (group("a", "ok", 9), group("b", "stopped", 1), group("c", "ok", 10), group("b", "stopped", 1, "topic"))
    text = shown(*groups, lines=2)
    assert text.index(" b ") < text.index(" c ")
    assert " a " not in text
    assert "and 1 more" in text
    assert "> 90" in text


def test_what_is_not_in_the_sum() -> None:
    """Goal: the number of partitions without a known lag is beside the sum."""
    heads, first, second = (
        [cell.strip() for cell in line.replace("┃", "│").split("│")]
        for line in shown(group("a", "ok", 9), group("b", "ok", 5, without=1_234)).splitlines()
        if "│" in line or "┃" in line
    )
    place = heads.index("WITHOUT-LAG")
    assert (first[place - 1 : place + 1], second[place - 1 : place + 1]) == (["9", "0"], ["5", "1,234"])


def test_hostile_names() -> None:
    """Goal: names are text."""
    text = shown(group(EVIL, "ok", None))
    assert text.replace("\n", "").isprintable()
    assert "gone" in text


def test_only_on_a_terminal() -> None:
    """Goal: a log file gets no table, a terminal one at a time."""
    for is_terminal in (True, False):
        text = io.StringIO()
        with LagScreen(Console(file=text, force_terminal=is_terminal, width=200, height=20)) as screen:
            screen.show("east", "Lag", [group("a", "ok", 1)])
        assert ("STATUS" in text.getvalue()) == is_terminal


def test_clusters_share_the_lines() -> None:
    """Goal: the tables of two clusters are below each other, and fit together."""
    text = io.StringIO()
    with LagScreen(Console(file=text, force_terminal=True, width=200, height=20)) as screen:
        for cluster in ("east", "west"):
            screen.show(cluster, f"of {cluster}", [group(f"{cluster}-{number}", "ok", 1) for number in range(9)])
    last = text.getvalue()[text.getvalue().rindex("of east") :]
    assert "of west" in last
    assert last.count("and 4 more") == 2


def test_duration() -> None:
    """Goal: a duration has one unit, the largest that fits at least twice."""
    assert [duration(seconds) for seconds in (None, 0.4, 119, 120, 7_199, 7_200, 200_000)] == [
        *(None, "0s", "119s", "2m", "120m", "2h", "2d")
    ]


def test_before_the_first_search() -> None:
    """Goal: a screen says until when incidents were looked for, and that nobody has while that is so."""
    assert looked_for(None) == "incidents not looked for yet"
    assert looked_for(0) == "incidents until 1970-01-01T00:00:00.000Z"
