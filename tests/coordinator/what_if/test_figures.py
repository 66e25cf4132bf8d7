"""Goal: a run's figures are counted as the ledger counts them."""

from dataclasses import replace

import pytest

from groupledger.coordinator.protocols.script import SCRIPTS, Script
from groupledger.coordinator.what_if.figures import figures, moved, times_up
from groupledger.coordinator.what_if.setting import Setting, changed
from groupledger.schemas.kafka.topic_partition import TopicPartition

P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
ROLLING = SCRIPTS["rolling-deploy"]


def test_moved() -> None:
    """Goal: a partition that another member gets has moved, also after one round without an owner, but not after two
    such rounds, and not after a round without any member."""
    assert moved([{P: "a"}, {P: "b"}], 1) == 1
    assert moved([{P: "a"}, {P: "b"}], 0) == 1
    assert moved([{P: "a"}, {Q: "b"}, {P: "b", Q: "b"}], 1) == 1
    assert moved([{P: "a"}, {Q: "b"}, {Q: "b"}, {P: "b", Q: "b"}], 1) == 0
    assert moved([{P: "a"}, {}, {P: "b"}], 1) == 0
    assert moved([{P: "a"}, {P: "b"}, {P: "b"}], 2) == 0


def test_times_up() -> None:
    """Goal: a time in which no process is up does not count as stopped."""
    first, second = ROLLING.events[:2]
    alone = replace(ROLLING, members_at_start=(first.member,), events=(first, second))
    assert list(times_up(alone)) == [(first.at_ms, first.at_ms), (second.at_ms, alone.until_ms)]
    assert list(times_up(ROLLING)) == [(ROLLING.from_ms, ROLLING.until_ms)]


@pytest.mark.parametrize(
    ("asked", "rebalances", "moves"),
    [([], 20, None), (["static"], 0, 0), (["consumer"], 20, None), (["static", "consumer"], 0, 0)],
)
def test_rolling_deploy(asked: list[str], rebalances: int, moves: int | None) -> None:
    """Goal: each of ten restarts is two rebalances for dynamic members and none for static ones, by both protocols."""
    found = figures(ROLLING, changed(Setting(), asked), seed=1)
    assert found.rebalances == rebalances
    assert moves is None or found.partitions_moved == moves
    # Three partitions of thirty are down with their static member for twelve seconds, ten times.
    assert "static" not in asked or found.stopped_partition_seconds == pytest.approx(360, rel=0.1)


def test_static_consumer_that_crashed() -> None:
    """Goal: under KIP-848 the instance of a member that crashed is taken until its session is over; then two epochs
    follow, one without it and one with it."""
    name = ROLLING.events[0].member
    events = tuple(
        replace(event, action=action) for event, action in zip(ROLLING.events, ("crash", "join"), strict=False)
    )
    assert {event.member for event in events} == {name}
    crashed: Script = replace(ROLLING, events=events, until_ms=600_000)
    found = figures(crashed, Setting(assigned_by="consumer", is_static=True), seed=1)
    assert found.rebalances == 2
    assert found.stopped_partition_seconds > 3 * 40
