"""What one change of the membership costs under each protocol, beside the formulas."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.protocols.compare import PROTOCOLS, play
from groupledger.coordinator.protocols.script import member_names, script_of
from groupledger.coordinator.protocols.zookeeper_consumer import BROKERS, ZooKeeperGroup

if TYPE_CHECKING:
    from groupledger.coordinator.protocols.compare import MakeGroup, ProtocolOutcome

pytestmark = pytest.mark.slow

SIZES = (3, 30, 300)
TOPICS = 1
CHANGE_MS = 100_000
STEADY: MakeGroup = partial(ZooKeeperGroup, lag_ms=(1, 1))


def change(
    protocol: str, members: int, *events: tuple[int, str, str], partitions: int | None = None
) -> ProtocolOutcome:
    """Returns what a change cost that a settled group of some members went through; every way takes 1 ms."""
    script = script_of(
        "change",
        {
            "topics": {"t": partitions or 2 * members * (members + 1 if members < 30 else 1)},
            "members": members,
            "events": [{"at_ms": CHANGE_MS + at_ms, "do": do, "member": name} for at_ms, do, name in events],
            "until_ms": CHANGE_MS + 400_000 if protocol.startswith("connect") else CHANGE_MS + 30_000,
        },
    )
    make = STEADY if protocol.startswith("zookeeper") else PROTOCOLS[protocol]
    return play(script, protocol, make, latency_ms=(1, 1))


def newcomer(members: int) -> str:
    return member_names(members + 1)[-1] if members < 99 else "z"


@pytest.mark.parametrize("before", SIZES)
def test_zookeeper(before: int) -> None:
    """Goal: everybody hears of every change and rebalances by itself: n notices, N tries, p creates, and the reads."""
    joined = change("zookeeper (0.8)", before, (0, "join", newcomer(before)))
    after, partitions = before + 1, len(joined.created_ms)
    assert (joined.notifications, joined.rounds, joined.rebalances) == (before, after, 1)
    assert joined.requests["create"] == partitions + 1  # and its own registration
    assert joined.requests["delete"] == partitions
    reads = after * (after + 2 * BROKERS + TOPICS + 6) + partitions
    assert joined.requests["read"] == reads + 1 + TOPICS  # and the newcomer's own subscriptions
    left = change("zookeeper (0.8)", before, (0, "leave", member_names(before)[0]))
    after = before - 1
    assert (left.notifications, left.rounds) == (after, after)
    assert left.requests["create"] == partitions
    assert left.requests["delete"] == partitions - partitions // before


@pytest.mark.parametrize("before", SIZES)
def test_first_coordinator(before: int) -> None:
    """Goal: N joins, and as many heartbeats that call for them as members did not know: no SyncGroup."""
    joined = change("first coordinator (2015)", before, (0, "join", newcomer(before)))
    assert (joined.requests["JoinGroup"], joined.notifications, joined.rounds) == (before + 1, before, 1)
    left = change("first coordinator (2015)", before, (0, "leave", member_names(before)[0]))
    assert (left.requests["JoinGroup"], left.notifications, left.rounds) == (before - 1, before - 1, 1)
    assert "SyncGroup" not in joined.requests + left.requests  # type: ignore[operator]


@pytest.mark.parametrize("before", SIZES)
@pytest.mark.parametrize("protocol", ["eager (0.9)", "eager (0.10.1)", "eager (0.11)", "eager (4.2)"])
def test_eager(protocol: str, before: int) -> None:
    """Goal: N joins (and one to get an id since 2.2), N syncs, n heartbeats that call for them, one round."""
    joined = change(protocol, before, (0, "join", newcomer(before)))
    for_id = protocol == "eager (4.2)"
    assert (joined.requests["JoinGroup"], joined.requests["SyncGroup"]) == (before + 1 + for_id, before + 1)
    assert (joined.notifications, joined.rounds, joined.requests["FindCoordinator"]) == (before, 1, 1)
    left = change(protocol, before, (0, "leave", member_names(before)[0]))
    assert [left.requests[api] for api in ("LeaveGroup", "JoinGroup", "SyncGroup")] == [1, before - 1, before - 1]
    assert (left.notifications, left.rounds, left.requests["OffsetFetch"]) == (before - 1, 1, before - 1)


@pytest.mark.parametrize("before", SIZES)
def test_static_restart(before: int) -> None:
    """Goal: a static member that restarts within its session costs two requests, no round, and its own partitions for
    as long as it was away."""
    name = member_names(before)[0]
    away_ms = 10_000
    restarted = change("static (4.2)", before, (0, "leave", name), (away_ms, "join", name))
    assert (restarted.requests["JoinGroup"], restarted.requests["SyncGroup"], restarted.rounds) == (1, 1, 0)
    assert (restarted.rebalances, restarted.notifications) == (0, 0)
    own = len(restarted.created_ms) // before
    assert own * away_ms <= restarted.cost.unowned_ms <= own * (away_ms + 20)


@pytest.mark.parametrize("before", SIZES)
def test_cooperative(before: int) -> None:
    """Goal: a join takes two rounds, and only the partitions that move stand still; a leave takes one."""
    joined = change("cooperative (4.2)", before, (0, "join", newcomer(before)))
    after = before + 1
    assert (joined.requests["JoinGroup"], joined.requests["SyncGroup"], joined.rounds) == (2 * after + 1, 2 * after, 2)
    ended = [each for each in joined.intervals if CHANGE_MS <= each.to_ms < CHANGE_MS + 30_000]
    revokers = {each.member for each in ended}
    assert joined.notifications == before + after - len(revokers)
    assert len(ended) == len({each.partition for each in ended}) <= len(joined.created_ms) // after + 1
    left = change("cooperative (4.2)", before, (0, "leave", member_names(before)[0]))
    assert (left.requests["JoinGroup"], left.requests["SyncGroup"], left.rounds) == (before - 1, before - 1, 1)


@pytest.mark.parametrize("before", SIZES)
def test_connect(before: int) -> None:
    """Goal: after a leave all workers join twice, with the delay between, and only the lost tasks stand still
    meanwhile."""
    left = change("connect (4.2)", before, (0, "leave", member_names(before)[-1]))
    after = before - 1
    assert (left.requests["JoinGroup"], left.requests["SyncGroup"], left.rounds) == (2 * after, 2 * after, 2)
    own = len(left.created_ms) // before
    assert own * 300_000 <= left.cost.unowned_ms <= own * 306_200
    (settled_ms,) = left.converged_ms
    assert settled_ms is not None
    assert 300_000 <= settled_ms <= 306_200


@pytest.mark.parametrize("before", SIZES)
def test_consumer_protocol(before: int) -> None:
    """Goal: only the members that give up or take partitions get a new assignment, and no other member stops."""
    joined = change("consumer (4.2)", before, (0, "join", newcomer(before)))
    ended = [each for each in joined.intervals if CHANGE_MS <= each.to_ms < CHANGE_MS + 30_000]
    begun = [each for each in joined.intervals if each.from_ms >= CHANGE_MS]
    assert joined.rounds == joined.rebalances == 1
    assert {each.member for each in begun} == {newcomer(before)}
    assert {each.partition for each in begun} == {each.partition for each in ended}
    assert len(begun) == len(joined.created_ms) // (before + 1)
    assert not {"JoinGroup", "SyncGroup"} & joined.requests.keys()
    left = change("consumer (4.2)", before, (0, "leave", member_names(before)[0]))
    assert {each.partition for each in left.intervals if each.from_ms >= CHANGE_MS} == {
        each.partition for each in left.intervals if CHANGE_MS <= each.to_ms < CHANGE_MS + 30_000
    }
