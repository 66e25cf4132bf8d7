"""Goal: a monitor follows objectives round by round, restarts from the tables, and reads nothing again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from prometheus_client import CollectorRegistry, generate_latest

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.objectives import objectives
from groupledger.jobs.monitor.objectives import LiveObjectives, objective_metrics
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.words import Burning
from groupledger.transforms.lag.rules import Circumstances, GroupPartition, LagRow, LagRules, lag_row
from tests.jobs.serve.serving import CLUSTER, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest
    from prometheus_client import Metric

MINUTE_MS = 60_000
BEGAN_MS = 1_767_225_600_000
OBJECTIVES = {"on-time": {"groups": "pay.*", "lag_s": 60, "target_percent": 99, "window_days": 1}}
SETTINGS = load_settings(objectives=OBJECTIVES)


def row(minute: int, group: str, seconds: float | None) -> LagRow:
    at_ms = BEGAN_MS + minute * MINUTE_MS
    none = lag_row(GroupPartition(group, "t", 0), None, None, Circumstances(sampled_at_ms=at_ms), LagRules())
    return replace(none, lag_seconds=seconds, flags=())


def followed(live: LiveObjectives, minutes: range, seconds: float | None, *groups: str) -> None:
    for minute in minutes:
        live.observe(BEGAN_MS + minute * MINUTE_MS, [row(minute, group, seconds) for group in groups or ("pay",)])


def test_an_outage_burns_and_is_over() -> None:
    live = LiveObjectives(SETTINGS)
    followed(live, range(120), 1.0, "pay", "other")
    assert [(name, reported.burning) for _, name, reported in live.standings()] == [("pay", Burning.NO)]
    followed(live, range(120, 130), 90.0)
    followed(live, range(130, 131), 1.0)
    ((_, _, reported),) = live.standings()
    assert (reported.minutes_on_time, reported.minutes_late, reported.burning) == (120, 10, Burning.FAST)
    followed(live, range(131, 160), 1.0)
    ((_, _, reported),) = live.standings()
    assert reported.burning == Burning.NO


def test_a_monitor_that_is_blind_claims_nothing() -> None:
    """Goal: while nothing is sampled, minutes become unknown; when all are, the group has no metrics."""
    live = LiveObjectives(SETTINGS)
    followed(live, range(120), 1.0)
    live.close_before(BEGAN_MS + 180 * MINUTE_MS)
    ((_, _, reported),) = live.standings()
    assert (reported.minutes_on_time, reported.burn_rates["1h"], reported.burning) == (120, None, Burning.UNKNOWN)
    live.close_before(BEGAN_MS + (120 + 3 * 1_440) * MINUTE_MS)
    assert [*live.standings()] == []


def table_row(each: LagRow) -> dict[str, Any]:
    at = instant_of_ms(each.sampled_at_ms)
    found = {"group_id": each.group_id, "topic": "t", "partition": 0, "sampled_at": at, "sample_date": at.date()}
    return found | {"lag_seconds": each.lag_seconds, "flags": []}


def test_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a monitor that starts again has the tables' figures, which are those of a monitor that never stopped; after
    that it reads no table."""
    rows = [row(minute, "pay", 90.0 if minute % 50 < 3 else 1.0) for minute in range(300) if minute % 70]
    rows.append(row(300, "pay", None))
    write(tmp_path, "lag", *map(table_row, rows))
    tables = ClusterRows(str(tmp_path), CLUSTER)
    before, after = LiveObjectives(SETTINGS), LiveObjectives(SETTINGS)
    for each in rows:
        before.observe(each.sampled_at_ms, [each])
    after.restore(tables, ["pay", "other"], rows[-1].sampled_at_ms)
    monkeypatch.setattr(DeltaTable, "__init__", refuse)
    for minute in range(301, 400):
        for live in (before, after):
            followed(live, range(minute, minute + 1), 1.0)
        assert [*before.standings()] == [*after.standings()]
    monkeypatch.undo()
    write(tmp_path, "lag", *(table_row(row(minute, "pay", 1.0)) for minute in range(301, 400)))
    _, (reported,) = objectives(ClusterRows(str(tmp_path), CLUSTER), SETTINGS, ["pay"])
    ((_, _, of_monitor),) = after.standings()
    assert (reported["minutes_on_time"], reported["minutes_late"]) == (
        of_monitor.minutes_on_time,
        of_monitor.minutes_late,
    )


def refuse(*_arguments: object, **_others: object) -> None:
    raise AssertionError("a round reads a table")


def test_groups_are_bounded() -> None:
    """Goal: names that clients invent take no more memory than metrics.groups_max of them; a group that is left out by
    `selection` is not followed."""
    limits = {**SETTINGS.metrics.model_dump(), "groups_max": 3}
    nothing: dict[str, list[str]] = {"include": [], "exclude": []}
    selection = {"groups": {**nothing, "exclude": ["pay-0"]}, "topics": nothing, "partitions": nothing}
    live = LiveObjectives(load_settings(objectives=OBJECTIVES, metrics=limits, selection=selection))
    followed(live, range(2), 1.0, *(f"pay-{number}" for number in range(10)))
    assert [name for _, name, _ in live.standings()] == ["pay-1", "pay-2", "pay-3"]


class Served:
    def __init__(self, live: LiveObjectives) -> None:
        self._live = live

    def collect(self) -> Iterator[Metric]:
        yield from objective_metrics("c", [*self._live.standings()])


def test_metrics() -> None:
    """Goal: ratios, burn rates and burning objectives are published for each group; nothing is published if nothing is
    known."""
    live = LiveObjectives(SETTINGS)
    followed(live, range(100), 90.0)
    followed(live, range(100, 101), 1.0)
    registry = CollectorRegistry()
    registry.register(Served(live))
    text = generate_latest(registry).decode()
    labels = 'cluster_name="c",group="pay",objective="on-time"'
    for line in (
        f'groupledger_objective_minutes{{{labels},state="late"}} 100.0',
        f'groupledger_objective_minutes{{{labels},state="unknown"}} 1340.0',
        f"groupledger_objective_attained_ratio{{{labels}}} 0.0",
        f"groupledger_objective_budget_left_ratio{{{labels}}} -99.0",
        f'groupledger_objective_burn_rate{{{labels},window="1h"}} 100.0',
        f'groupledger_objective_burning{{burning="fast",{labels}}} 1.0',
        'groupledger_objective_target_ratio{cluster_name="c",objective="on-time"} 0.99',
    ):
        assert line in text, line
    assert 'window="6h"' not in text  # less than a third of it is known
