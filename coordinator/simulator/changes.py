"""Determines what differs between two recorded generations, in the words of the ledger's `rebalances.changes`.

A member that comes back under another id is recognised by its seat: a static member by its instance id, a dynamic one
by its client id and host, which no two processes of a simulation share. A rebalance is a cooperative follow-up if it
has a member that had to give up a partition in the rebalance before, whichever member asked for it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.kinds import changes as kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.schemas.kafka.topic_partition import TopicPartition


class Seat(NamedTuple):
    name: str
    host: str
    is_static: bool


class Roster(NamedTuple):
    """The part of a generation that is compared. `seats` and `topics` have the seat and the subscribed topics of each
    member, by member id."""

    generation: int
    protocol: str | None
    leader: str | None
    seats: Mapping[str, Seat]
    topics: Mapping[str, frozenset[str]]


def changes_between(before: Roster | None, after: Roster) -> set[str]:
    """Returns the names of the changes between two generations. If `before` is None or generation 0, the group has
    started, and members are not compared."""
    found = set() if after.seats else {kinds.GROUP_EMPTIED.name}
    if before is None or before.generation == 0:
        return found | {kinds.GROUP_STARTED.name}
    if before.protocol != after.protocol and before.protocol and after.protocol:
        found.add(kinds.PROTOCOL_CHANGED.name)
    if before.leader != after.leader and before.leader and after.leader:
        found.add(kinds.LEADER_CHANGED.name)
    return found | _changes_of_members(before, after)


def _changes_of_members(before: Roster, after: Roster) -> set[str]:
    found = set()
    left = {seat: member_id for member_id, seat in before.seats.items() if member_id not in after.seats}
    for member_id, seat in after.seats.items():
        former_id = member_id if member_id in before.seats else left.pop(seat, None)
        if former_id is None:
            found.add(kinds.MEMBER_JOINED.name)
            continue
        if former_id != member_id:
            found.add(kinds.MEMBER_REPLACED.name if seat.is_static else kinds.DYNAMIC_RESTART.name)
        if before.topics.get(former_id) != after.topics.get(member_id):
            found.add(kinds.SUBSCRIPTION_CHANGED.name)
    return found | ({kinds.MEMBER_LEFT.name} if left else set())


def revokers(brought: Mapping[str, Iterable[TopicPartition]], owned: Mapping[TopicPartition, str]) -> set[str]:
    """Returns the members that no longer own all partitions that they reported. `brought` are the reported partitions
    by member id; `owned` gives the owner of each partition now."""
    return {
        member_id
        for member_id, partitions in brought.items()
        if any(owned.get(each) != member_id for each in partitions)
    }


def has_added_partitions(owned: Iterable[TopicPartition], universe: Mapping[str, int]) -> bool:
    """Returns whether an assigned partition lies beyond the partition count of its topic in `universe`, the counts
    known so far."""
    return any(topic in universe and partition >= universe[topic] for topic, partition in owned)
