"""Goal: a monitor whose ingest is too slow shows the state of some round, or unknown; it never shows a state that was
at no round.

The rounds are the monitor's own. Brokers, ingest and clock are played: every second the topic gets a hundred records,
and the group commits ten before its end; retention follows five hundred records behind.
"""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.kafka.sampling import SampledGroupState, SampledRound, SampledWatermark
from groupledger.jobs.monitor import monitor as rounds_of
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.lag.rules import Commit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.transforms.lag.rules import LagRow

BEGAN_S, INTERVAL_S = 1_800_000_000, 15
RECORDS_PER_S, LAG, KEPT = 100, 10, 500
IDLE = 1  # a partition of the log in which nothing happens but one commit, and the group of it


class World:
    """The cluster, the clock and an ingest whose batches take `batch_s`: each reads up to the end of when it began."""

    def __init__(self, batch_s: float) -> None:
        self.now_s = float(BEGAN_S)
        self.batch_s = batch_s
        self.position, self._batch_began_s = 0, self.now_s
        self.read = 0  # commits that the monitor has taken

    def second(self) -> int:
        return int(self.now_s) - BEGAN_S

    def wait(self, seconds: float) -> bool:
        """Moves the clock, and ends batches that are due."""
        self.now_s += seconds
        while self.now_s - self._batch_began_s >= self.batch_s:
            self.position = int(self._batch_began_s) - BEGAN_S
            self._batch_began_s += self.batch_s
        return False

    def positions(self, *_: Any) -> dict[int, int]:
        return {0: self.position, IDLE: 1}

    def ends(self, *_: Any) -> tuple[SampledWatermark, ...]:
        ends = {0: self.second(), IDLE: 1}
        return tuple(SampledWatermark(OFFSETS_TOPIC, key, 0, end, end) for key, end in ends.items())

    def round(self, _brokers: Any, _settings: Any, _topics: Any, at_ms: int, ends: Any, _shard: Any) -> SampledRound:
        high = 1_000 + RECORDS_PER_S * self.second()
        busy = SampledWatermark("orders", 0, high - KEPT, high, high)
        idle = SampledWatermark("clicks", 0, 0, 50, 50)
        states = tuple(SampledGroupState(name, "classic", "Stable") for name in ("busy", "idle"))
        return SampledRound(at_ms, (*ends, busy, idle), states, {}, {})

    def commits(self) -> list[Commit]:
        """Returns those that the ingest has read since the last time: one a second, at the offset of the second."""
        new = range(self.read, self.position)
        self.read = self.position
        return [
            Commit(1_000 + RECORDS_PER_S * second - LAG, (BEGAN_S + second) * 1_000, 0, second - 1)
            for second in (each + 1 for each in new)
        ]


class Played:
    """A monitor's rounds in a world."""

    def __init__(self, world: World, patch: pytest.MonkeyPatch) -> None:
        self.world = world
        stop: Any = SimpleNamespace(is_set=lambda: False, wait=world.wait)
        clock = SimpleNamespace(time=lambda: world.now_s, monotonic=lambda: world.now_s)
        for name, value in (
            ("sample_ends", world.ends),
            ("take_round", world.round),
            ("check_sampled_cluster", lambda *_: None),
            ("ingest_positions", world.positions),
            ("last_round_ms", lambda *_: 0),
            ("now_ms", lambda: int(world.now_s * 1_000)),
            ("time", clock),
            ("replace", replaced),
            ("Notifier", lambda *_: SimpleNamespace(counts={})),
            ("Upkeep", lambda *_: SimpleNamespace(known_until_ms={})),
            ("AbortedRecords", lambda: SimpleNamespace(add_to=lambda sampled, *_: sampled)),  # it asks brokers
        ):
            patch.setattr(rounds_of, name, value)
        ledger: Any = SimpleNamespace(settings=load_settings(), cluster="c", say=lambda _: None, warn=lambda _: None)
        common: Any = SimpleNamespace(interval_s=INTERVAL_S, maintenance=None, screen=SimpleNamespace(show=no_show))
        self.loop = rounds_of.RoundLoop(ledger, None, "", common, working(), stop)  # type: ignore[arg-type]
        state = self.loop.state
        patch.setattr(state, "read_commits", self.take)
        patch.setattr(state, "append", lambda _: True)
        patch.setattr(self.loop, "_publish", lambda report: setattr(self.loop, "_report", report))
        state._lag.commit("idle", "clicks", 0, Commit(20, BEGAN_S * 1_000, IDLE, 0))

    def take(self) -> None:
        for commit in self.world.commits():
            self.loop.state._lag.commit("busy", "orders", 0, commit)

    def run(self, seconds: int) -> Iterator[dict[str, LagRow]]:
        """Yields what is shown at the end of each round, by group."""
        until_s = self.world.now_s + seconds
        while self.world.now_s < until_s:
            self.world.wait(INTERVAL_S - self.world.now_s % INTERVAL_S)
            self.loop._round()
            yield {row.group_id: row for row in self.loop.state._shown}


def no_show(*_: Any) -> None:
    """Shows nothing."""


def working() -> Any:
    return SimpleNamespace(is_alive=lambda: True, check=lambda: None)


def replaced(given: Any, **fields: Any) -> Any:
    """Returns a copy of a namespace or a report with other fields."""
    return type(given)(**{**vars(given), **fields}) if isinstance(given, SimpleNamespace) else given


@contextmanager
def played(batch_s: float) -> Iterator[Played]:
    with pytest.MonkeyPatch.context() as patch:
        yield Played(World(batch_s), patch)


def wrong(row: LagRow) -> bool:
    """Returns whether a row claims a state that never was: the group is always ten records behind, and loses none."""
    is_false = row.status not in ("ok", "unknown") or bool(row.messages_lost)
    return is_false or row.lag not in (LAG, None)


@pytest.mark.parametrize("batch_s", [2, 20, 40])
def test_batches_that_take_longer_than_the_interval(batch_s: int) -> None:
    """Goal: the lag goes on with every batch, and each number is one that was so at the round of the row."""
    with played(batch_s) as monitor:
        reported = [shown["busy"] for shown in monitor.run(900) if "busy" in shown]
        assert not any(map(wrong, reported))
        assert {row.lag for row in reported[3:]} == {LAG}
        now_ms = int(monitor.world.now_s * 1_000)
        assert now_ms - reported[-1].sampled_at_ms <= 2 * (batch_s + INTERVAL_S) * 1_000
        assert len({row.committed_offset for row in reported}) > 900 / (batch_s + 2 * INTERVAL_S)


def test_the_first_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: before the first round the number of offsets that are left is logged, and falls with each batch from the
    number that the topic has; /readyz has it, too."""
    with played(2) as monitor:
        said: list[str] = []
        reasons: list[str] = []
        loop = monitor.loop
        monkeypatch.setattr(loop.ledger, "say", said.append)
        sampled = (SampledWatermark(OFFSETS_TOPIC, 0, 100, 3_100, 3_100),)
        monkeypatch.setattr(rounds_of, "sample_ends", lambda *_: sampled)
        positions = iter([{}, {}, {0: 1_100}, {0: 1_100}, {0: 3_100}])

        def look(*_: Any) -> dict[int, int]:
            reasons.extend(each for each in loop.troubles() if each not in reasons)
            return next(positions)

        monkeypatch.setattr(rounds_of, "ingest_positions", look)
        monkeypatch.setattr(rounds_of, "replace", dataclasses.replace)
        loop.catch_up()
    assert said == [
        "before the first round the topic is read, 3,000 offsets are left",
        "before the first round the topic is read, 2,000 offsets are left",
        "the topic is read: rounds begin",
    ]
    assert reasons == [
        "No round is done yet: the commits in the tables are read.",
        "No round is done yet: first the topic is read, 3,000 offsets are left.",
        "No round is done yet: first the topic is read, 2,000 offsets are left.",
    ]


def test_batches_that_take_minutes() -> None:
    """Goal: a lag whose commits are older than two minutes is not shown, and health reports by how many seconds the
    commits are behind; the group whose part of the log is read has its lag all the time; and all is well again when the
    ingest is."""
    with played(2) as monitor:
        *_, last = monitor.run(60)
        assert (last["busy"].lag, monitor.loop.troubles()) == (LAG, [])
        monitor.world.batch_s = 300
        shown = list(monitor.run(900))
        assert not any(wrong(each["busy"]) for each in shown)
        assert {each["busy"].status for each in shown[10:]} == {"unknown"}
        assert {each["idle"].lag for each in shown} == {30}
        late_s = (int(monitor.world.now_s * 1_000) - (monitor.loop._pending.known_ms or 0)) // 1_000
        assert any(f"Commits are {late_s:,} s behind" in each for each in monitor.loop.troubles())
        assert not monitor.loop.has_time(monitor.loop.history_shedding)
        monitor.world.batch_s = 2
        *_, last = monitor.run(120)
        assert (last["busy"].lag, last["busy"].status, last["idle"].lag) == (LAG, "ok", 30)
        assert monitor.loop.troubles() == []
        assert monitor.loop.has_time(monitor.loop.history_shedding)


def test_brokers_that_do_not_answer() -> None:
    """Goal: a lag that nobody can renew is taken back when it is too old."""
    with played(2) as monitor:
        for _ in monitor.run(60):
            pass
        monitor.loop.state.forget_old(int(monitor.world.now_s * 1_000) - 30_000, {})
        assert {row.lag for row in monitor.loop.state._shown} == {LAG, 30}
        monitor.loop.state.forget_old(int(monitor.world.now_s * 1_000) + 1, {})
        assert {(row.lag, row.status) for row in monitor.loop.state._shown} == {(None, "unknown")}
