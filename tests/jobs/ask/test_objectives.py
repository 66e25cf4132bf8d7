"""Goal: objectives of lag are counted from the kept rounds as the rules say: planted outages burn, clean days don't,
and minutes without a sample are unknown."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.lag_answers import lag_rows
from groupledger.jobs.ask.objectives import known_runs, objectives
from groupledger.jobs.cli.main import main
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.held_groups import objectives_by_group
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.instants import ms_of
from groupledger.schemas.words import Burning, LagFlag, MinuteState
from groupledger.transforms.objectives.rules.burn import BURN_WINDOWS
from groupledger.transforms.objectives.rules.live import LiveWindows
from groupledger.transforms.objectives.rules.minutes import MINUTE_MS, round_state, worst

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CLUSTER = "east"
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
OBJECTIVE = {"groups": "pay.*", "lag_s": 60, "target_percent": 99, "window_days": 30}
Row = dict[str, Any]


def row(at: datetime, group: str, seconds: float | None, partition: int = 0, **fields: Any) -> Row:
    found = {"cluster": CLUSTER, "sampled_at": at, "sample_date": at.date(), "group_id": group, "topic": "t"}
    return found | {"partition": partition, "lag_seconds": seconds, "flags": [], **fields}


def rounds(group: str, begin: datetime, minutes: int, seconds: float | None) -> list[Row]:
    """Returns a round in each of so many minutes; in all of them the group was so late."""
    return [row(begin + number * MINUTE, group, seconds) for number in range(minutes)]


def tables_of(warehouse: Path, rows: Iterable[Row]) -> ClusterRows:
    found = pa.Table.from_pylist([*rows], schema_of("lag"))
    write_deltalake(str(warehouse / "lag"), found, mode="append", partition_by=["sample_date"])
    return ClusterRows(str(warehouse), CLUSTER)


def answers(tables: ClusterRows, until: datetime | None = None, **objective: Any) -> list[Row]:
    settings = load_settings(objectives={"on-time": OBJECTIVE | objective})
    return objectives(tables, settings, None, until)[1]


def answer(tables: ClusterRows, until: datetime | None = None, **objective: Any) -> Row:
    (found,) = answers(tables, until, **objective)
    return found


def test_a_clean_day(tmp_path: Path) -> None:
    """Goal: no objective burns, at any hour of the day; minutes before the first round are unknown."""
    tables = tables_of(tmp_path, rounds("payments", BEGIN, 1_440, 12.5))
    found = answer(tables, BEGIN + DAY)
    assert (found["minutes_on_time"], found["minutes_late"]) == (1_440, 0)
    assert found["minutes_unknown"] == 29 * 1_440
    assert (found["attained_percent"], found["budget_left_percent"]) == (100.0, 100.0)
    reported = {answer(tables, BEGIN + hours * HOUR)["burning"] for hours in range(1, 25)}
    assert reported == {Burning.NO}


@pytest.mark.parametrize(
    ("late_minutes", "after_minutes", "burning"),
    [
        (9, 0, Burning.FAST),  # 9 of the last 60 minutes are 15 times the 1% that is allowed, 8 are 13.3 times
        (8, 0, Burning.NO),
        (9, 5, Burning.NO),  # over: the short window is quiet
        (22, 20, Burning.STEADILY),  # 22 of the last 6 h are 6.1 times it, and 10 of the last 30 min 33 times
        (40, 35, Burning.SLOWLY),  # 40 of all 2,235 known minutes are 1.8 times it
        (40, 6 * 60, Burning.NO),
        (0, 0, Burning.NO),
    ],
)
def test_a_planted_outage(tmp_path: Path, late_minutes: int, after_minutes: int, burning: str) -> None:
    """Goal: after a clean day and a half an outage burns as fast as its minutes say, and stops when it is over."""
    began = BEGIN + DAY + 12 * HOUR
    late, on_time = rounds("payments", began, late_minutes, 300.0), began + late_minutes * MINUTE
    after = rounds("payments", on_time, after_minutes, 5.0)
    tables = tables_of(tmp_path, [*rounds("payments", BEGIN, 36 * 60, 5.0), *late, *after])
    found = answer(tables, on_time + after_minutes * MINUTE)
    assert (found["minutes_late"], found["burning"]) == (late_minutes, burning)


def test_what_was_not_sampled_is_unknown(tmp_path: Path) -> None:
    """Goal: a gap counts as neither; a gap that hides an hour makes its burn rate unknown; so does a lag without a
    time. A single late minute after a long gap alerts nobody."""
    rows = [*rounds("payments", BEGIN, 600, 5.0), *rounds("payments", BEGIN + 600 * MINUTE, 100, None)]
    rows += rounds("payments", BEGIN + 800 * MINUTE, 3, 300.0)
    found = answer(tables_of(tmp_path, rows), BEGIN + 803 * MINUTE, window_days=1)
    assert (found["minutes_on_time"], found["minutes_late"], found["minutes_unknown"]) == (600, 3, 1_440 - 603)
    assert found["burn_rate_1h"] is None
    assert found["burn_rate_5m"] == 100.0
    assert found["burning"] == Burning.UNKNOWN


def test_a_group_that_was_never_sampled(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, rounds("other", BEGIN, 5, 5.0))
    settings = load_settings(objectives={"on-time": OBJECTIVE})
    _, (found,) = objectives(tables, settings, ["payments"])
    assert found["attained_percent"] is found["budget_left_percent"] is None
    assert (found["minutes_unknown"], found["burning"]) == (30 * 1_440, Burning.UNKNOWN)


def test_the_last_minute_is_not_over(tmp_path: Path) -> None:
    """Goal: without an instant the minute of the last round does not count."""
    tables = tables_of(tmp_path, [*rounds("payments", BEGIN, 10, 5.0), row(BEGIN + 10 * MINUTE, "payments", 900.0)])
    found = answer(tables)
    assert found["until"] == BEGIN + 10 * MINUTE
    assert (found["minutes_on_time"], found["minutes_late"]) == (10, 0)


def test_a_minute_of_several_rounds_and_partitions(tmp_path: Path) -> None:
    """Goal: one late partition in one round makes the minute late; one that nobody subscribes to does not."""
    at = BEGIN + MINUTE
    rows = [
        row(at + timedelta(seconds=15 * number), "payments", 5.0, partition)
        for number in range(4)
        for partition in (0, 1)
    ]
    left = row(at, "payments", 9_000.0, 2, flags=[LagFlag.UNSUBSCRIBED])
    tables = tables_of(tmp_path, [*rows, left, *rounds("payments", BEGIN + 2 * MINUTE, 1, 1.0)])
    assert answer(tables)["minutes_on_time"] == 1
    late = row(at + timedelta(seconds=50), "payments", 61.0, 1)
    assert answer(tables_of(tmp_path, [late]))["minutes_late"] == 1


def test_teams(tmp_path: Path) -> None:
    """Goal: a team's objective holds for each of its groups, and for those of no other team."""
    tables = tables_of(tmp_path, [each for name in ("pay", "pal", "other") for each in rounds(name, BEGIN, 5, 1.0)])
    settings = load_settings(
        teams={"money": {"groups": "pay"}, "rest": {"groups": "pa.*"}},
        objectives={"m": {"team": "money", "lag_s": 60, "target_percent": 99}, "r": OBJECTIVE | {"groups": ".*"}},
    )
    _, found = objectives(tables, settings)
    assert {(each["objective"], each["group_id"]) for each in found} == {
        ("m", "pay"),
        *(("r", n) for n in ("pay", "pal", "other")),
    }


@pytest.mark.parametrize(
    "wrong",
    [{"team": "nobody", "groups": None}, {"team": "x"}, {"groups": None}, {"target_percent": 100}, {"lag_s": 0}],
)
def test_wrong_settings(wrong: Row) -> None:
    with pytest.raises(InputError, match="objectives"):
        load_settings(objectives={"on-time": OBJECTIVE | wrong})


def random_rows(seed: int, end: datetime) -> list[Row]:
    """Rounds every 20 s with gaps, of two groups and up to three partitions, each in any condition."""
    chance = random.Random(seed)
    rows, at = [], end - 4 * HOUR
    while at < end:
        at += timedelta(seconds=chance.choice([20, 20, 20, 20, 700]))
        for group in ("pay-a", "pay-b"):
            worst_s = chance.choice([1.0, 1.0, 1.0, 90.0])
            for partition in range(chance.randint(1, 3)):
                seconds = chance.choice([0.0, worst_s, worst_s, None]) if chance.random() < 0.2 else worst_s / 2
                flags = chance.choice(
                    [[], [], [], [LagFlag.STALE_SAMPLE], [LagFlag.HIDDEN_COMMITS], [LagFlag.UNSUBSCRIBED]]
                )
                bound = seconds if chance.random() < 0.1 else None
                rows.append(row(at, group, seconds, partition, flags=flags, lag_seconds_lower_bound=bound))
    return rows


@pytest.mark.parametrize("seed", range(5))
def test_the_query_and_the_rules_agree(tmp_path: Path, seed: int) -> None:
    """Goal: the minutes that the query counts are those of the rules, round by round, and those that a monitor follows,
    from the first round on and after a restart."""
    end = BEGIN + 2 * DAY
    rows = [each for each in random_rows(seed, end) if each["sampled_at"] < end]
    tables = tables_of(tmp_path, rows)
    settings = load_settings(objectives={"on-time": OBJECTIVE})
    held = objectives_by_group(settings, {"pay-a", "pay-b"})
    reported = {each["group_id"]: each for each in objectives(tables, settings, None, end)[1]}
    last = ms_of(end) // MINUTE_MS
    by_round: defaultdict[tuple[str, int], list[Any]] = defaultdict(list)
    for each in lag_rows([{**each, "lag": None, "status": "ok"} for each in map(whole, rows)]):
        by_round[each.group_id, each.sampled_at_ms].append(each)
    lengths = {"whole": 30 * 1_440, **BURN_WINDOWS}
    for name, found in reported.items():
        states = [
            (at // MINUTE_MS, round_state(of, 60)) for (group, at), of in sorted(by_round.items()) if group == name
        ]
        minutes = {minute: worst(s for at, s in states if at == minute and s) for minute, _ in states}
        assert found["minutes_on_time"] == [*minutes.values()].count(MinuteState.ON_TIME)
        assert found["minutes_late"] == [*minutes.values()].count(MinuteState.LATE)
        live = LiveWindows(lengths, last - 300)
        for minute, state in states:
            if state is not None:
                live.observe(minute, state)
        live.close_before(last)
        restarted = LiveWindows(lengths, last, known_runs(tables, held, last)["on-time", name])
        assert live.counts() == restarted.counts()
        assert live.counts()["whole"] == (found["minutes_on_time"], found["minutes_late"])


def whole(given: Row) -> Row:
    return {name: None for name in schema_of("lag").names if name not in {"cluster", "sample_date"}} | {
        name: value for name, value in given.items() if name not in {"cluster", "sample_date"}
    }


def test_the_command(tmp_path: Path) -> None:
    """Goal: the command prints the same, worst first, and refuses settings without objectives."""
    rows = [*rounds("pay-fine", BEGIN, 120, 1.0), *rounds("pay-late", BEGIN, 120, 100.0)]
    tables_of(tmp_path, rows)
    conf = tmp_path / "settings.yaml"
    conf.write_text('objectives:\n  on-time: {groups: "pay.*", lag_s: 60, target_percent: 99}\n')
    words = ["objectives", "--warehouse", str(tmp_path), "--cluster", CLUSTER, "--json"]
    found = CliRunner().invoke(main, [*words, "--conf", str(conf)])
    assert found.exit_code == 0, found.output
    reported = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(each["group_id"], each["burning"]) for each in reported] == [("pay-late", "fast"), ("pay-fine", "no")]
    assert reported[0]["known_until"]["samples"] == "2026-01-01T01:59:00.000Z"
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code == 2
    assert "have no objectives" in refused.stderr
