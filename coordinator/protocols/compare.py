"""Simulates one script under every protocol of Kafka's history and computes the cost of each.

All figures come from one run with one seed, in virtual time. The members at the start have joined before the script's
first event, and nothing before that event is counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from groupledger.coordinator.protocols.connect import ConnectGroup
from groupledger.coordinator.protocols.consumption import ConsumedInterval, Consumption, Cost, changes_ms, cost_of
from groupledger.coordinator.protocols.first_coordinator import FirstCoordinatorGroup
from groupledger.coordinator.protocols.join_sync import RELEASES
from groupledger.coordinator.protocols.join_sync_member import JoinSyncGroup
from groupledger.coordinator.protocols.reconciliation import ConsumerProtocolGroup
from groupledger.coordinator.protocols.world import WAKES_LATE_MS, World
from groupledger.coordinator.protocols.zookeeper_consumer import ZooKeeperGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from groupledger.coordinator.protocols.member import Group
    from groupledger.coordinator.protocols.script import Event, Script
    from groupledger.schemas.kafka.topic_partition import TopicPartition

    MakeGroup: TypeAlias = Callable[[World, Consumption, Iterable[tuple[str, int]]], Group]

PROTOCOLS: Final[Mapping[str, MakeGroup]] = {
    "zookeeper (0.8)": ZooKeeperGroup,
    "first coordinator (2015)": FirstCoordinatorGroup,
    "eager (0.9)": partial(JoinSyncGroup, release=RELEASES["0.9"]),
    "eager (0.10.1)": partial(JoinSyncGroup, release=RELEASES["0.10.1"]),
    "eager (0.11)": partial(JoinSyncGroup, release=RELEASES["0.11"]),
    "eager (4.2)": JoinSyncGroup,
    "static (4.2)": partial(JoinSyncGroup, is_static=True),
    "cooperative (4.2)": partial(JoinSyncGroup, is_cooperative=True),
    "connect (4.2)": ConnectGroup,
    "consumer (4.2)": ConsumerProtocolGroup,
}
HOUSEKEEPING: Final = ("Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit", "write offset")


@dataclass(frozen=True, slots=True)
class ProtocolOutcome:
    """The figures of a script under one protocol, from the first event on.

    `rounds` are generations, epochs or, under ZooKeeper, the tries of single members. Rounds that followed each other
    before all members were settled count as one of the `rebalances`. `requests` are counts by API. `converged_ms` has a
    value for each event: how long after it, and before the next event, an owner changed for the last time. It is None
    if a partition did not have exactly one owner then. `conflicts` are the tries in which a member claimed a partition
    that another one owned, and `give_ups` count how often a member gave up after its last try and owned nothing. Both
    are None for protocols in which a broker or leader assigns. `assignments` are those of a broker or leader, from the
    start of the run on (Join/Sync and KIP-848 of consumers).
    """

    protocol: str
    rebalances: int
    rounds: int
    requests: Mapping[str, int]
    notifications: int
    cost: Cost
    converged_ms: tuple[int | None, ...]
    intervals: tuple[ConsumedInterval, ...]
    created_ms: Mapping[TopicPartition, int]
    trace: tuple[tuple[int, str, str], ...]
    assignments: tuple[tuple[int, Mapping[TopicPartition, str]], ...]
    conflicts: int | None = None
    give_ups: int | None = None

    @property
    def requests_for_rebalances(self) -> int:
        """Returns the number of requests except heartbeats and commits, which members send without a rebalance, too."""
        return sum(count for api, count in self.requests.items() if api not in HOUSEKEEPING)


def compare(script: Script, seed: int = 1, names: Iterable[str] = PROTOCOLS) -> list[ProtocolOutcome]:
    """Returns the outcome of the script under each of the named protocols."""
    return [play(script, name, PROTOCOLS[name], seed) for name in names]


def play(
    script: Script,
    name: str,
    make: MakeGroup,
    seed: int = 1,
    latency_ms: tuple[int, int] = (1, 4),
    wakes_late_ms: int = WAKES_LATE_MS,
) -> ProtocolOutcome:
    """Runs a script under one protocol, whose group `make` builds, and returns its figures."""
    world = World(seed, latency_ms, wakes_late_ms)
    consumption = Consumption(world, script.records_per_second)
    group = make(world, consumption, script.topics)
    for member in script.members_at_start:
        group.join(member)
    world.run(script.from_ms - 1)
    before = Counter(world.requests), world.notifications, world.rounds, world.rebalances
    claims_before = _claims(group)
    for event in script.events:
        world.at(event.at_ms, partial(happen, group, event))
    world.run(script.until_ms)
    intervals = consumption.intervals()
    return ProtocolOutcome(
        protocol=name,
        rebalances=world.rebalances - before[3],
        rounds=world.rounds - before[2],
        requests=world.requests - before[0],
        notifications=world.notifications - before[1],
        cost=cost_of(intervals, consumption.created_ms, script.from_ms, script.until_ms),
        converged_ms=tuple(_converged(script, intervals, consumption.created_ms)),
        intervals=tuple(intervals),
        created_ms=consumption.created_ms,
        trace=tuple(world.trace),
        assignments=tuple(world.assignments),
        **{name: count - claims_before[name] for name, count in _claims(group).items()},
    )


def _claims(group: Group) -> dict[str, int]:
    if not isinstance(group, ZooKeeperGroup):
        return {}
    return {"conflicts": group.conflicts, "give_ups": group.give_ups}


def happen(group: Group, event: Event) -> None:
    if event.action == "grow":
        group.grow(event.topic, event.partitions)
    elif event.action == "join":
        group.join(event.member)
    elif event.action == "leave":
        group.members[event.member].leave()
    elif event.action == "crash":
        group.members[event.member].crash()
    elif event.action == "pause":
        group.members[event.member].pause(event.for_ms)
    else:
        group.members[event.member].slow(event.for_ms)


def _converged(
    script: Script, intervals: list[ConsumedInterval], created_ms: Mapping[TopicPartition, int]
) -> Iterable[int | None]:
    """Yields for each event how long after it the owners changed for the last time before the next."""
    changes = changes_ms(intervals, script.until_ms)
    ends = [*(event.at_ms for event in script.events[1:]), script.until_ms]
    for event, end_ms in zip(script.events, ends, strict=True):
        own = [change for change in changes if event.at_ms <= change < end_ms]
        last = own[-1] if own else event.at_ms
        held = Counter(each.partition for each in intervals if each.from_ms <= last < each.to_ms)
        is_whole = all(held[partition] == 1 for partition, created in created_ms.items() if created <= last)
        yield last - event.at_ms if is_whole else None
