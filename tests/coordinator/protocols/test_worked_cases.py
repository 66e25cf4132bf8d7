"""Cases are worked by hand, step by step: three known ones of Kafka's protocols, and one for each other protocol."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.protocols.compare import PROTOCOLS, play
from groupledger.coordinator.protocols.connect import ConnectGroup
from groupledger.coordinator.protocols.consumption import Consumption
from groupledger.coordinator.protocols.first_coordinator import NOT_ASSIGNED, FirstCoordinatorGroup
from groupledger.coordinator.protocols.join_sync import Release
from groupledger.coordinator.protocols.join_sync_member import JoinSyncGroup
from groupledger.coordinator.protocols.reconciliation import ConsumerProtocolGroup
from groupledger.coordinator.protocols.script import script_of
from groupledger.coordinator.protocols.world import World
from groupledger.coordinator.protocols.zookeeper_consumer import ZooKeeperGroup
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from groupledger.coordinator.protocols.compare import MakeGroup, ProtocolOutcome
    from groupledger.coordinator.protocols.member import Group

SETTLED_MS = 30_000


def group_of(make: MakeGroup, partitions: int, *names: str) -> Group:
    """Returns a group whose members joined one after the other, a second apart, and have settled."""
    world = World(latency_ms=(1, 1))
    group = make(world, Consumption(world, 10), [("P", partitions)])
    for place, name in enumerate(names):
        world.at(1_000 * place, partial(group.join, name))
    world.run(SETTLED_MS)
    return group


def owners(group: Group) -> dict[str, list[int]]:
    return {name: sorted(each.partition for each in member.owned) for name, member in group.members.items()}


def p(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("P", number) for number in numbers]


def reported(group: Group, since_ms: int, who: str) -> list[str]:
    return [what for at_ms, name, what in group.world.trace if at_ms >= since_ms and name == who]


def test_a_generations_go_on() -> None:
    """Goal: case A. 1. Generation 1 is {1, 2, 3}. 2. Member 2 leaves: generation 2 is {1, 3}. 3. Member 4 joins:
    generation 3 is {1, 3, 4}. Who left is unknown, and a generation that is over is illegal."""
    group = group_of(JoinSyncGroup, 6, "1", "2", "3")
    assert isinstance(group, JoinSyncGroup)
    first = {name: (member.member_id, member.generation) for name, member in group.members.items()}  # type: ignore[attr-defined]
    group.coordinator.generation = 1  # the group's first three rounds are one in the case
    for member in group.members.values():
        member.generation = 1  # type: ignore[attr-defined]
    group.members.pop("2").leave()
    group.world.run(SETTLED_MS + 10_000)
    assert group.coordinator.generation == 2
    assert [each.split("-")[0] for each in group.coordinator.members] == ["1", "3"]
    group.join("4")
    group.world.run(SETTLED_MS + 20_000)
    assert group.coordinator.generation == 3
    assert [each.split("-")[0] for each in group.coordinator.members] == ["1", "3", "4"]
    assert group.coordinator.commits(first["2"][0], 1) is Error.UNKNOWN_MEMBER_ID
    assert group.coordinator.commits(first["1"][0], 1) is Error.ILLEGAL_GENERATION
    assert group.coordinator.commits(first["1"][0], 3) is Error.NONE


def test_b_a_cooperative_join_takes_two_rounds() -> None:
    """Goal: case B. c1 and c2 own three each, c3 joins. Round 1 takes one from each, which nobody has then; round 2
    gives both to c3. What nobody takes away is consumed all the time."""
    group = group_of(partial(JoinSyncGroup, is_cooperative=True), 6, "c1", "c2")
    assert isinstance(group, JoinSyncGroup)
    before = owners(group)
    assert sorted(map(len, before.values())) == [3, 3]
    opened_ms, generation = group.world.now_ms, group.coordinator.generation
    group.join("c3")
    group.world.run(opened_ms + 20_000)
    assert group.coordinator.generation == generation + 2
    after = owners(group)
    assert [len(after[name]) for name in ("c1", "c2", "c3")] == [2, 2, 2]
    assert set(after["c1"]) < set(before["c1"])
    assert set(after["c2"]) < set(before["c2"])
    moved = {*before["c1"], *before["c2"]} - {*after["c1"], *after["c2"]}
    assert set(after["c3"]) == moved
    rounds = reported(group, opened_ms, "c3")
    assert rounds == [f"generation {generation + 1}: ", f"generation {generation + 2}: {shown(after['c3'])}"]
    # The revokers get their smaller share in round 1, and the same in round 2.
    for name in ("c1", "c2"):
        first, second = (sorted(line.partition(": ")[2].split(", ")) for line in reported(group, opened_ms, name))
        assert first == second == sorted(shown(after[name]).split(", "))
    stopped = [each for each in group.consumption.closed if each.to_ms >= opened_ms]
    assert sorted(each.partition.partition for each in stopped) == sorted(moved)


def shown(numbers: list[int]) -> str:
    return ", ".join(map(str, p(*numbers)))


def connect_case(*events: tuple[int, str]) -> tuple[Group, int]:
    """Returns a Connect group after c1, c2, c3 had two tasks each and events happened to c2, and when they began."""
    group = group_of(ConnectGroup, 6, "c1", "c2", "c3")
    begun_ms = group.world.now_ms
    for at_ms, do in events:
        group.world.at(begun_ms + at_ms, partial(group.join, "c2") if do == "join" else group.members["c2"].crash)
    return group, begun_ms


def delays(group: Group, since_ms: int, who: str) -> list[int]:
    return [
        int(line.split("delay_ms=")[1].rstrip(")")) for line in reported(group, since_ms, who) if "delay_ms=" in line
    ]


def test_c_a_worker_comes_back_within_the_delay() -> None:
    """Goal: case C. 1. c2 is away past its session: round 1, nothing moves, all get the delay. 2. It comes back with
    nothing: round 2, with the rest of the delay. 3. When the delay is over all join: c2 has its two again. The others
    never stop."""
    group, begun_ms = connect_case((0, "crash"), (60_000, "join"))
    before = owners(group)
    assert sorted(map(len, before.values())) == [2, 2, 2]
    group.world.run(begun_ms + 50_000)
    assert delays(group, begun_ms, "c1") == delays(group, begun_ms, "c3") == [300_000]
    assert {name: owned for name, owned in owners(group).items() if name != "c2"} == {
        "c1": before["c1"],
        "c3": before["c3"],
    }
    group.world.run(begun_ms + 100_000)
    first, second = delays(group, begun_ms, "c1")
    assert first == 300_000
    assert 0 < 300_000 - second < 60_000
    (of_c2,) = delays(group, begun_ms, "c2")
    assert of_c2 == second
    assert owners(group)["c2"] == []
    group.world.run(begun_ms + 400_000)
    assert delays(group, begun_ms, "c1") == [first, second, 0]
    assert owners(group) == before
    stopped = {each.member for each in group.consumption.closed if each.to_ms >= begun_ms}
    assert stopped == {"c2"}


def test_c_nobody_comes_back() -> None:
    """Goal: case C without a return: when the delay is over, who has least takes the lost tasks."""
    group, begun_ms = connect_case((0, "crash"))
    group.world.run(begun_ms + 400_000)
    assert delays(group, begun_ms, "c1") == [300_000, 0]
    assert [len(owners(group)[name]) for name in ("c1", "c3")] == [3, 3]


def test_zookeeper_two_views() -> None:
    """Goal: 1. A member joins while another's server lags: they work from different registrations. 2. Both claim the
    same partition; the later is refused, and gives up all that it claimed. 3. It tries again after the backoff, and
    each partition has one owner. Two owner nodes never exist."""
    world = World(seed=5)
    group = ZooKeeperGroup(world, Consumption(world, 10), [("P", 12)], lag_ms=(1, 1_500))
    for place, name in enumerate(("a", "b", "c", "d")):
        world.at(200 * place, partial(group.join, name))
    world.run(60_000)
    assert group.conflicts > 0
    refused = [(at_ms, who) for at_ms, who, what in world.trace if what.startswith("finds")]
    at_ms, who = refused[0]
    again = [at for at, name, what in world.trace if name == who and what.startswith("owns") and at > at_ms]
    assert again[0] - at_ms >= 2_000
    assert sorted(partition for owned in owners(group).values() for partition in owned) == list(range(12))
    assert [len(owned) for owned in owners(group).values()] == [3, 3, 3, 3]


def test_zookeeper_gives_up() -> None:
    """Goal: a member whose claims are refused four times gives up, and owns nothing until it hears of a change."""
    group = group_of(ZooKeeperGroup, 4, "a")
    assert isinstance(group, ZooKeeperGroup)
    for server in group.zookeeper.servers:
        server.nodes["/consumers/G/owners/P/3"] = "a ghost"
    group.zookeeper.nodes["/consumers/G/owners/P/3"] = ("a ghost", None)
    ghost = [each for each in group.zookeeper.nodes if each.endswith("P/3")]
    begun_ms = group.world.now_ms
    group.join("b")
    group.world.run(begun_ms + 1_000)
    group.zookeeper.nodes[ghost[0]] = ("a ghost", None)  # who deletes by path has deleted it with his own
    group.world.run(begun_ms + 12_000)
    assert group.give_ups == 1
    assert owners(group) == {"a": [0, 1], "b": []}
    del group.zookeeper.nodes[ghost[0]]
    group.join("c")
    group.world.run(begun_ms + 60_000)
    assert owners(group) == {"a": [0, 1], "b": [2], "c": [3]}


def test_first_coordinator() -> None:
    """Goal: 1. Two members share. 2. A third joins: the next heartbeat of each is refused as of an illegal generation,
    and it joins again with its id. 3. JoinGroup's answer holds the partitions. A commit of another's partition is
    refused."""
    group = group_of(FirstCoordinatorGroup, 6, "a", "b")
    assert isinstance(group, FirstCoordinatorGroup)
    generation, ids = group.coordinator.generation, set(group.coordinator.members)
    group.join("c")
    group.world.run(SETTLED_MS + 10_000)
    assert group.coordinator.generation == generation + 1
    assert ids < set(group.coordinator.members)
    assert sorted(map(len, owners(group).values())) == [2, 2, 2]
    a, c = group.members["a"], group.members["c"]
    its_own = [(partition, 5) for partition in a.owned]
    of_another = [(partition, 5) for partition in c.owned]
    a_id: str = a.member_id  # type: ignore[attr-defined]
    assert group.coordinator.commits(a_id, generation + 1, its_own) is Error.NONE
    assert group.coordinator.commits(a_id, generation + 1, of_another) == NOT_ASSIGNED
    assert group.coordinator.commits(a_id, generation, its_own) is Error.ILLEGAL_GENERATION


def test_static_member() -> None:
    """Goal: 1. A member with an instance id is shut down: nobody hears of it. 2. It comes back within its session, with
    no id: the same generation, its own partitions. 3. It stays away longer: one rebalance without it."""
    group = group_of(partial(JoinSyncGroup, is_static=True), 6, "a", "b", "c")
    assert isinstance(group, JoinSyncGroup)
    before, generation = owners(group), group.coordinator.generation
    group.members["b"].leave()
    group.world.run(SETTLED_MS + 20_000)
    group.join("b")
    group.world.run(SETTLED_MS + 30_000)
    assert (owners(group), group.coordinator.generation) == (before, generation)
    group.members["b"].leave()
    group.world.run(SETTLED_MS + 30_000 + 44_000)
    assert group.coordinator.generation == generation
    group.world.run(SETTLED_MS + 30_000 + 55_000)
    assert group.coordinator.generation == generation + 1
    del group.members["b"]
    assert [len(owned) for owned in owners(group).values()] == [3, 3]


def test_static_members_that_are_all_away() -> None:
    """Goal: 1. One of two static members is removed, while the other is shut down. 2. The round waits for it:
    no generation is made. 3. Its session ends: the group is empty."""
    release = Release(rebalance_timeout_ms=5_000)
    group = group_of(partial(JoinSyncGroup, is_static=True, release=release), 6, "a", "b")
    assert isinstance(group, JoinSyncGroup)
    generation = group.coordinator.generation
    group.members.pop("a").leave()
    group.world.run(SETTLED_MS + 40_000)
    group.members.pop("b").leave()
    group.world.run(SETTLED_MS + 60_000)
    assert (group.coordinator.generation, len(group.coordinator.members)) == (generation, 1)
    group.world.run(SETTLED_MS + 120_000)
    assert (group.coordinator.generation, len(group.coordinator.members)) == (generation + 1, 0)


def test_a_batch_that_takes_too_long() -> None:
    """Goal: 1. A member works on a batch for longer than max.poll.interval.ms. 2. It leaves at that moment, heartbeats
    or not, and comes back when it asks for records. 3. A static one says nothing, and is removed by its session."""
    for is_static in (False, True):
        world = World(latency_ms=(1, 1))
        release = Release(rebalance_timeout_ms=100_000)
        group = JoinSyncGroup(world, Consumption(world, 10), [("P", 6)], release=release, is_static=is_static)
        for name in ("a", "b"):
            group.join(name)
        group.world.run(SETTLED_MS)
        group.members["a"].slow(200_000)
        group.world.run(SETTLED_MS + 99_990)
        assert len(group.coordinator.members) == 2
        group.world.run(SETTLED_MS + 100_010)
        assert len(group.coordinator.members) == (2 if is_static else 1)
        group.world.run(SETTLED_MS + 150_000)
        assert owners(group)["b"] == [0, 1, 2, 3, 4, 5]
        group.world.run(SETTLED_MS + 220_000)
        assert [len(owned) for owned in owners(group).values()] == [3, 3]


def test_consumer_protocol() -> None:
    """Goal: 1. c1 and c2 have three each, c3 joins: a new epoch with a target. 2. c1 and c2 are asked to give up one
    each, c3 has nothing yet. 3. Each says that it has; c3 gets what is free at its next heartbeat."""
    group = group_of(ConsumerProtocolGroup, 6, "c1", "c2")
    assert isinstance(group, ConsumerProtocolGroup)
    before, epoch, begun_ms = owners(group), group.coordinator.epoch, group.world.now_ms
    group.join("c3")
    group.world.run(begun_ms + 20)
    assert group.coordinator.epoch == epoch + 1
    assert owners(group)["c3"] == []
    assert len(group.coordinator.target["c3-3"]) == 2
    group.world.run(begun_ms + 20_000)
    after = owners(group)
    assert sorted(map(len, after.values())) == [2, 2, 2]
    moved = [each for each in group.consumption.closed if each.to_ms >= begun_ms]
    assert {each.partition.partition for each in moved} == set(after["c3"])
    assert all(set(after[name]) < set(before[name]) for name in ("c1", "c2"))
    assert {member.epoch for member in group.coordinator.members.values()} == {epoch + 1}


def test_a_member_that_gives_nothing_up() -> None:
    """Goal: a member that does not give up what it is asked to give up is removed when the rebalance timeout is over;
    the waiting member gets it then, and both consume it until the first one wakes."""
    events: list[dict[str, Any]] = [
        {"at_ms": 60_000, "do": "slow", "member": "m01", "for_ms": 320_000},
        {"at_ms": 61_000, "do": "join", "member": "m03"},
    ]
    script = script_of("stuck", {"topics": {"P": 6}, "members": 2, "events": events, "until_ms": 500_000})
    outcome: ProtocolOutcome = play(script, "consumer (4.2)", PROTOCOLS["consumer (4.2)"])
    out = [at_ms for at_ms, _, what in outcome.trace if "did not give up" in what or "left" in what]
    assert out
    assert 359_000 <= out[0] <= 366_100
    assert outcome.cost.doubled_ms > 0
    assert outcome.cost.processed_twice > 0
