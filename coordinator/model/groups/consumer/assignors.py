"""Implements the assignors of a 4.2 broker: `uniform`, its default, and `range`.

Both take the members by id, the number of partitions of each topic id in `counts`, and `is_equal`, which says that all
members subscribe to the same topics; then the topics of the first member are used for all. They return targets by
member id. If the order of keys decides the result, it is the order of Java's hash maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from groupledger.coordinator.java_hash_map import hash_map_order, int_order, uuid_order
from groupledger.coordinator.model.groups.consumer.uniform_heterogeneous import assign_unequal
from groupledger.coordinator.model.groups.modern.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from groupledger.coordinator.model.partitions import Partitions

UNIFORM: Final = "uniform"
RANGE: Final = "range"


@dataclass(frozen=True, slots=True)
class Subscriber:
    """What an assignor knows about a member: its instance id, the ids of its topics, and its present target."""

    instance_id: str | None
    topics: tuple[str, ...]
    target: Partitions


def assign_uniform(
    members: Mapping[str, Subscriber], counts: Mapping[str, int], *, is_equal: bool
) -> dict[str, Partitions]:
    """Returns targets in which the members' numbers of partitions differ by one at most, with as few moves as
    possible."""
    if not is_equal:
        return assign_unequal({name: (each.topics, each.target) for name, each in members.items()}, counts)
    order = hash_map_order(members)
    if not order or not members[order[0]].topics:
        return {}
    topics = uuid_order(members[order[0]].topics, expected_size=len(members[order[0]].topics))
    total = sum(counts[topic] for topic in topics)
    taken = {
        (topic, number) for each in members.values() for topic, numbers in each.target.items() for number in numbers
    }
    free = [(topic, number) for topic in topics for number in range(counts[topic]) if (topic, number) not in taken]
    found: dict[str, Target] = {}
    rooms: dict[str, int] = {}
    extra = total % len(members)
    for place, name in enumerate(order):
        target, given_up, room = _keep(members[name], total // len(members) + (extra > 0), topics)
        has_extra = extra > 0
        if room and has_extra and len(order) - place > extra:
            room, has_extra = room - 1, False
        extra -= has_extra
        found[name], rooms[name] = target, room
        free += given_up
    for name in order:
        if rooms[name]:
            found[name].alter()
        for topic, number in free[: rooms[name]]:
            found[name].add(topic, number)
        free = free[rooms[name] :]
    return {name: target.partitions() for name, target in found.items()}


def _keep(member: Subscriber, quota: int, topics: Collection[str]) -> tuple[Target, list[tuple[str, int]], int]:
    """Returns the part of a member's target that it keeps, the partitions beyond its quota, and how many more it may
    get."""
    target = Target(member.target)
    given_up: list[tuple[str, int]] = []
    for topic, numbers in member.target.items():
        if topic not in topics:
            target.remove_topic(topic)
        elif len(numbers) > quota:
            surplus = int_order(numbers)[quota:]
            quota = 0
            for number in surplus:
                target.remove(topic, number)
            given_up += [(topic, number) for number in surplus]
        else:
            quota -= len(numbers)
    return target, given_up, quota


def assign_range(
    members: Mapping[str, Subscriber], counts: Mapping[str, int], *, is_equal: bool
) -> dict[str, Partitions]:
    """Returns targets in which each member gets a contiguous range of each topic that it subscribes to, whatever it had
    before. Members with an instance id come first."""
    order = sorted(members, key=lambda name: _rank(name, members[name].instance_id))
    found: dict[str, dict[str, tuple[int, ...]]] = {name: {} for name in order}
    wanted = {name: members[order[0] if is_equal else name].topics for name in order}
    for topic in dict.fromkeys(topic for name in order for topic in wanted[name]):
        subscribers = [name for name in order if topic in wanted[name]]
        least, extra = divmod(counts[topic], len(subscribers))
        begin = 0
        for place, name in enumerate(subscribers):
            end = begin + least + (place < extra)
            if begin < end:
                found[name][topic] = tuple(range(begin, end))
            begin = end
    return {
        name: {topic: found[name][topic] for topic in uuid_order(found[name], expected_size=len(wanted[name]))}
        for name in order
    }


def _rank(name: str, instance_id: str | None) -> tuple[bool, bytes]:
    return instance_id is None, (name if instance_id is None else instance_id).encode("utf-16-be", "surrogatepass")


ASSIGNORS: Final[dict[str, Callable[..., dict[str, Partitions]]]] = {
    UNIFORM: assign_uniform,
    RANGE: assign_range,
}
