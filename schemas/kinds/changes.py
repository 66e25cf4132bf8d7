"""Lists the kinds of differences between two records of a group: the words of `rebalances.changes` and of
`generations.changes`."""

from __future__ import annotations

from dataclasses import dataclass

from groupledger.schemas.kinds import rows_of


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeKind:
    """A kind of change. `is_replacement` is true if one member replaces another. `is_known_from_members` is true if an
    entry of a timeline need not mention the change, since it already lists who joined and left."""

    name: str
    meaning: str
    is_replacement: bool = False
    is_known_from_members: bool = False


GROUP_STARTED = ChangeKind(name="group_started", meaning="The group has its first members.", is_known_from_members=True)
GROUP_EMPTIED = ChangeKind(
    name="group_emptied", meaning="The group has no members any more.", is_known_from_members=True
)
MEMBER_JOINED = ChangeKind(name="member_joined", meaning="A member is new.", is_known_from_members=True)
MEMBER_LEFT = ChangeKind(name="member_left", meaning="A member is there no more.", is_known_from_members=True)
MEMBER_REPLACED = ChangeKind(
    name="member_replaced", meaning="A static member's instance is back under a new member id.", is_replacement=True
)
DYNAMIC_RESTART = ChangeKind(
    name="dynamic_restart",
    meaning="A dynamic member left, and a new one has the same client id and host.",
    is_replacement=True,
)
SUBSCRIPTION_CHANGED = ChangeKind(
    name="subscription_changed", meaning="A member that stayed, or was replaced, subscribes to other topics."
)
REGEX_RESOLVED = ChangeKind(
    name="regex_resolved",
    meaning="The regular expression of a subscription matches other topics now (KIP-848).",
)
TOPICS_CHANGED = ChangeKind(
    name="topics_changed",
    meaning="Subscribed topics changed their partitions or racks, or are new or deleted (KIP-848: another metadata"
    " hash).",
)
PARTITIONS_INITIALIZED = ChangeKind(
    name="partitions_initialized",
    meaning="Partitions of subscribed topics can be shared now: the broker has created their state (share groups).",
)
PARTITIONS_FREED = ChangeKind(
    name="partitions_freed",
    meaning="The partitions of a member that left were given to others, in a separate epoch (share groups).",
)
TOPOLOGY_CHANGED = ChangeKind(name="topology_changed", meaning="The application has another topology (streams groups).")
TOPOLOGY_READY = ChangeKind(
    name="topology_ready", meaning="All topics of the topology are there, so that tasks are given out (streams groups)."
)
TOPOLOGY_NOT_READY = ChangeKind(
    name="topology_not_ready",
    meaning="Topics of the topology are missing or have the wrong number of partitions: nobody gets a task"
    " (streams groups).",
)
ASSIGNMENT_CONFIGURED = ChangeKind(
    name="assignment_configured",
    meaning="A setting about tasks changed, such as num.standby.replicas (streams groups).",
)
PARTITIONS_ADDED = ChangeKind(
    name="partitions_added", meaning="A topic has more assigned partitions than were ever seen before."
)
TOPIC_DELETED = ChangeKind(
    name="topic_deleted",
    meaning="No partition of a subscribed topic is assigned any more: it was deleted, or the leader can't see it.",
)
PROTOCOL_CHANGED = ChangeKind(name="protocol_changed", meaning="The members chose another assignor.")
LEADER_CHANGED = ChangeKind(name="leader_changed", meaning="Another member leads the group.")
COOPERATIVE_FOLLOW_UP = ChangeKind(
    name="cooperative_follow_up",
    meaning="A member that stayed had partitions revoked by the round before, and so had to rejoin.",
)

CHANGE_KINDS = rows_of(globals(), ChangeKind)
CHANGE_NAMED = {kind.name: kind for kind in CHANGE_KINDS}
