"""Determines the cost of a rebalance: which partitions moved, and how long it stopped them.

A partition has moved if its owner's identity changed. The identity of a static member is its instance id, over its
restarts; that of a dynamic one is its member id. If a cooperative round takes a partition from one member and the next
round gives it to another, it has moved in the second round.

No record says when a member stops. It certainly processes nothing from the end of the join phase until the leader's
assignment is written (`sync_wait_ms`): that is the lower bound of its pause. The upper bound is the time from the last
commit before the record to the first one after it. An eager rebalance stops every partition that has an owner before
and after; a cooperative one stops only the partitions that change hands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import PauseScope, ProtocolKind
from groupledger.transforms.history.rules.rows import micros, put_rebalance
from groupledger.transforms.history.rules.state import OpenRebalance, StoppedPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.transforms.history.rules.changes import Turnover
    from groupledger.transforms.history.rules.events import CommitSums, GroupRecord, MemberFacts
    from groupledger.transforms.history.rules.rows import HistoryRows
    from groupledger.transforms.history.rules.state import OpenGroup

Identities = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Movement:
    """Holds the partitions that were owned before or after, divided by what happened. Those in `kept` and `moved` have
    an owner before and after; those in `gained` had none before, and those in `lost` have none after."""

    kept: list[TopicPartition]
    moved: list[TopicPartition]
    gained: list[TopicPartition]
    lost: list[TopicPartition]

    def columns(self) -> dict[str, Any]:
        owned_before = len(self.kept) + len(self.moved) + len(self.lost)
        return {
            "partitions_kept": len(self.kept),
            "partitions_moved": len(self.moved),
            "partitions_gained": len(self.gained),
            "partitions_lost": len(self.lost),
            "stickiness": len(self.kept) / owned_before if owned_before else None,
        }


NO_MOVEMENT_KNOWN: dict[str, Any] = dict.fromkeys(
    ("partitions_kept", "partitions_moved", "partitions_gained", "partitions_lost", "stickiness")
)


def movement(group: OpenGroup, record: GroupRecord) -> Movement | None:
    """Returns the movement from the owners in the group's state to those of the record; None unless the owners of all
    partitions are known on both sides."""
    if group.generation is None or not group.generation.is_ownership_known or not record.is_ownership_known:
        return None
    before: dict[TopicPartition, Identities] = {unit: (identity,) for unit, identity in group.pending.items()}
    old_members = {member_id: tenure.facts for member_id, tenure in group.members.items()}
    before.update({unit: _identities(interval.owners, old_members) for unit, interval in group.owners.items()})
    members = {member.facts.member_id: member.facts for member in record.members}
    after = {unit: _identities(member_ids, members) for unit, member_ids in record.owners.items()}
    found = movement_between(before, after)
    # Partitions that an earlier round took from their owners are lost already.
    return replace(found, lost=[unit for unit in found.lost if unit in group.owners])


def movement_between(
    before: Mapping[TopicPartition, Identities], after: Mapping[TopicPartition, Identities]
) -> Movement:
    """Returns the movement between two mappings of partitions to their owners."""
    found = Movement([], [], [], [])
    for unit, owners in after.items():
        if unit not in before:
            found.gained.append(unit)
        elif before[unit] == owners:
            found.kept.append(unit)
        else:
            found.moved.append(unit)
    found.lost.extend(unit for unit in before if unit not in after)
    return found


def _identities(member_ids: Iterable[str], facts: Mapping[str, MemberFacts]) -> Identities:
    return tuple(sorted(facts[member_id].identity for member_id in member_ids))


def revocations(record: GroupRecord) -> tuple[dict[TopicPartition, str], list[str]]:
    """Returns two things: the partitions that members owned when they joined and that nobody owns now, each with its
    former owner; and the ids of the members that have to give a partition up."""
    owners = record.owners
    pending: dict[TopicPartition, str] = {}
    revokers = []
    for member in record.members:
        if member.assigned is None:
            continue
        given_up = [unit for unit in member.owned if member.facts.member_id not in owners.get(unit, ())]
        if given_up:
            revokers.append(member.facts.member_id)
            pending.update({unit: member.facts.identity for unit in given_up if unit not in owners})
    return pending, revokers


def protocol_kind(group: OpenGroup, members: Turnover) -> str:
    """Returns `cooperative` if a member that stayed reported owned partitions when it joined again, and `eager` if no
    such member did. Returns `unknown` if none of them had anything to report. The protocol's name does not count."""
    had_something = {owner for interval in group.owners.values() for owner in interval.owners}
    evidence = [
        bool(new.owned)
        for tenure, new in members.stayed
        if tenure.facts.member_id in had_something and new.facts.subscription_error is None and new.assigned is not None
    ]
    if not evidence:
        return ProtocolKind.UNKNOWN
    return ProtocolKind.COOPERATIVE if any(evidence) else ProtocolKind.EAGER


def sync_wait_ms(record: GroupRecord) -> int | None:
    """Returns the milliseconds from the end of the join phase until the group record was written. None if the group has
    no members, if the record has no time of the join phase, or if that time is later than the record's own."""
    if not record.members or record.current_state_timestamp_ms is None:
        return None
    wait_ms = record.kafka_timestamp_ms - record.current_state_timestamp_ms
    return wait_ms if wait_ms >= 0 else None


def watch(group: OpenGroup, row: dict[str, Any], moves: Movement | None) -> OpenRebalance:
    """Returns the rebalance whose row is `row`, and adds the columns of its pause. Its `watched` are the partitions
    that it stopped; later commits will bound their pauses."""
    row["pause_scope"] = row["pause_lower_ms"] = None
    watched: dict[TopicPartition, StoppedPartition] = {}
    stopped: list[TopicPartition] = []
    if moves is not None and row["protocol_kind"] != ProtocolKind.UNKNOWN and row["member_count"]:
        is_eager = row["protocol_kind"] == ProtocolKind.EAGER
        stopped = [*moves.kept, *moves.moved] if is_eager else moves.moved
        row["pause_scope"] = PauseScope.GROUP if is_eager else PauseScope.PARTITIONS
        row["pause_lower_ms"] = row["sync_wait_ms"] if stopped else 0
        for unit in stopped:
            committed = group.commits.get(unit)
            if committed is not None and committed.last_ms is not None:
                watched[unit] = StoppedPartition(committed.last_ms, committed.committed_offset)
    times_ms = (committed.last_ms for committed in group.commits.values())
    last_commit_ms = max((each for each in times_ms if each is not None), default=None)
    return OpenRebalance(row=row, last_commit_ms=last_commit_ms, watched=watched)


def observe(rebalance: OpenRebalance, commits: CommitSums) -> None:
    """Updates the pauses of a rebalance by commits of one partition that came after it. `commits` must have at least
    one commit."""
    first_ms = earlier(rebalance.first_commit_ms, commits.first_commit_timestamp_ms)
    if first_ms != rebalance.first_commit_ms:
        rebalance.first_commit_ms = first_ms
        rebalance.is_dirty = True
    watched = rebalance.watched.get(TopicPartition(commits.topic, commits.partition))
    if watched is not None and watched.first_ms is None:
        watched.first_ms, watched.committed_after = commits.first_commit_timestamp_ms, commits.first_committed_offset
        rebalance.is_dirty = True


def write_rebalance(rows: HistoryRows, group: OpenGroup) -> None:
    """Writes the row of the group's newest rebalance, if it has changed."""
    if group.rebalance is not None and group.rebalance.is_dirty:
        put_rebalance(rows, group.rebalance, pauses(group.rebalance))
        group.rebalance.is_dirty = False


def pauses(rebalance: OpenRebalance) -> dict[str, Any]:
    is_group = rebalance.row["pause_scope"] == PauseScope.GROUP
    return {
        "pause_upper_ms": _upper_ms(rebalance.last_commit_ms, rebalance.first_commit_ms) if is_group else None,
        "partition_pauses": [
            {
                "topic": topic,
                "partition": partition,
                "last_commit_at": micros(watched.last_ms),
                "first_commit_at": micros(watched.first_ms),
                "pause_upper_ms": _upper_ms(watched.last_ms, watched.first_ms),
                "committed_offset_before": watched.committed_before,
                "committed_offset_after": watched.committed_after,
            }
            for (topic, partition), watched in sorted(rebalance.watched.items())
        ],
    }


def earlier(one_ms: int | None, other_ms: int | None) -> int | None:
    """Returns the earlier of two instants; None if neither is known. Summaries of commits of different partitions come
    in any order, so only their times can be compared."""
    return min((each for each in (one_ms, other_ms) if each is not None), default=None)


def later(one_ms: int | None, other_ms: int | None) -> int | None:
    return max((each for each in (one_ms, other_ms) if each is not None), default=None)


def _upper_ms(last_ms: int | None, first_ms: int | None) -> int | None:
    return None if last_ms is None or first_ms is None else max(0, first_ms - last_ms)
