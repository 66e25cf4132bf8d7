"""The triggers of a rebalance: the words of `rebalances.trigger`, of `inferred_trigger`, and of `members.leave_cause`.

A server log states the trigger in Kafka's words, the kinds of `schemas.kafka.rebalance_reasons`, which `trigger_of`
translates. If no line of a log states it, `transforms.history.rules.trigger` infers the trigger from the records.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupledger.schemas.kafka.rebalance_reasons import (
    CLASSIC_NOT_JOINED_FENCE,
    CLASSIC_NOT_SYNCED_FENCE,
    NOT_REVOKED_FENCE,
    POLL_TIMEOUT_REASONS,
    REMOVED_BY_ADMIN_REASON,
    SESSION_EXPIRED_FENCE,
)
from groupledger.schemas.kinds import rows_of
from groupledger.schemas.words import CoordinatorEventKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Trigger:
    """A trigger. `is_departure` is true if a member left, so that the trigger is also a word of `members.leave_cause`.
    `is_only_logged` is true if only a server log can show the trigger."""

    name: str
    meaning: str
    is_departure: bool = False
    is_only_logged: bool = False


JOINED = Trigger(name="joined", meaning="A member joined.")
LEFT = Trigger(name="left", meaning="A member left by itself.", is_departure=True)
LEFT_POLL_TIMEOUT = Trigger(
    name="left_poll_timeout",
    meaning="A member left because it had not polled for longer than max.poll.interval.ms (a worker of Kafka Connect:"
    " rebalance.timeout.ms).",
    is_departure=True,
)
SESSION_EXPIRED = Trigger(
    name="session_expired",
    meaning="A member sent no heartbeat for longer than session.timeout.ms, and was removed.",
    is_departure=True,
)
REBALANCE_TIMEOUT = Trigger(
    name="rebalance_timeout",
    meaning="A member did not revoke partitions or did not rejoin within its rebalance timeout, and was fenced"
    " (KIP-848).",
    is_departure=True,
)
FAILED_TO_REJOIN = Trigger(
    name="failed_to_rejoin",
    meaning="A member did not rejoin within the rebalance timeout, and was removed (classic protocol).",
    is_departure=True,
    is_only_logged=True,
)
ADMIN_REMOVED = Trigger(
    name="admin_removed", meaning="An administrator removed a member, by its instance id.", is_departure=True
)
METADATA_CHANGED = Trigger(
    name="metadata_changed",
    meaning="A member rejoined with a different subscription or different owned partitions, or changed its subscription"
    " (KIP-848).",
)
TOPICS_CHANGED = Trigger(
    name="topics_changed", meaning="The coordinator saw that subscribed topics had changed (KIP-848)."
)
PARTITIONS_INITIALIZED = Trigger(
    name="partitions_initialized", meaning="Partitions of a share group became ready to be shared."
)
PARTITIONS_FREED = Trigger(
    name="partitions_freed",
    meaning="The partitions of a member that had left were given to others (share groups).",
)
TOPOLOGY_CHANGED = Trigger(
    name="topology_changed", meaning="The topology of a streams group, or what the broker finds of its topics, changed."
)
ASSIGNMENT_CONFIGURED = Trigger(
    name="assignment_configured", meaning="A setting that decides about the tasks of a streams group was changed."
)
LEADER_REJOINED = Trigger(
    name="leader_rejoined", meaning="The leader joined again, as it does when the topics' partitions change."
)
REJOINED = Trigger(
    name="rejoined",
    meaning="A member rejoined, as the leader or with a different subscription; brokers before 2.6 say no more.",
    is_only_logged=True,
)
PROTOCOL_CHANGED = Trigger(
    name="protocol_changed", meaning="A static member came back with other protocols, and the group's choice changed."
)
STATIC_MEMBER_REPLACED = Trigger(
    name="static_member_replaced",
    meaning="A static member came back under a new id before the leader's assignment.",
    is_only_logged=True,
)
SYNC_EXPIRED = Trigger(
    name="sync_expired", meaning="Members did not ask for their assignment in time.", is_only_logged=True
)
ASSIGNMENT_NOT_STORED = Trigger(
    name="assignment_not_stored", meaning="The coordinator could not write the assignment.", is_only_logged=True
)
OVER_CAPACITY = Trigger(
    name="over_capacity",
    meaning="A group that was loaded has more members than the broker allows.",
    is_only_logged=True,
)
GROUP_DOWNGRADED = Trigger(
    name="group_downgraded", meaning="A group of KIP-848 became a classic one.", is_only_logged=True
)
UNKNOWN = Trigger(name="unknown", meaning="The server log gives a reason that is not known here.", is_only_logged=True)

TRIGGERS = rows_of(globals(), Trigger)
# By kind of reason; those that are not listed are called as the trigger is.
_OF_REASONS = {
    "new_member": JOINED,
    "member_joining": JOINED,
    "static_member_changes_protocol": PROTOCOL_CHANGED,
    "member_left": LEFT,
    "members_left": LEFT,
    "group_downgraded_by_replacement": GROUP_DOWNGRADED,
    "group_downgraded_with_old_target": GROUP_DOWNGRADED,
} | {each.name: each for each in TRIGGERS}


def trigger_of(kind: str) -> Trigger:
    """Returns the trigger for a kind of `schemas.kafka.rebalance_reasons`, or for the name of a trigger."""
    return _OF_REASONS[kind]


def trigger_of_leave(client_reason: str | None) -> Trigger:
    """Returns the trigger of a member's LeaveGroup or of an administrator's. It is LEFT unless the client's reason
    shows that the member had not polled in time, or that an administrator removed it."""
    if client_reason is not None and client_reason.startswith(POLL_TIMEOUT_REASONS):
        return LEFT_POLL_TIMEOUT
    if client_reason is not None and client_reason.startswith(REMOVED_BY_ADMIN_REASON):
        return ADMIN_REMOVED
    return LEFT


LEFT_LINES = frozenset(
    {
        CoordinatorEventKind.MEMBER_LEFT,
        CoordinatorEventKind.CONSUMER_MEMBER_LEFT,
        CoordinatorEventKind.CONSUMER_STATIC_MEMBER_LEFT,
        CoordinatorEventKind.SHARE_MEMBER_LEFT,
        CoordinatorEventKind.STREAMS_MEMBER_LEFT,
    }
)
_FENCED_LINES = frozenset({CoordinatorEventKind.CONSUMER_MEMBER_FENCED, CoordinatorEventKind.STREAMS_MEMBER_FENCED})
REMOVED_LINES = frozenset({CoordinatorEventKind.MEMBER_FAILED, *_FENCED_LINES})
_OF_FENCES = (
    (SESSION_EXPIRED_FENCE, SESSION_EXPIRED),
    (NOT_REVOKED_FENCE, REBALANCE_TIMEOUT),
    (CLASSIC_NOT_JOINED_FENCE, REBALANCE_TIMEOUT),
    (CLASSIC_NOT_SYNCED_FENCE, SYNC_EXPIRED),
)


def trigger_of_departure(kind: str, reason: str | None, client_reason: str | None) -> Trigger | None:
    """Returns the trigger that a line of a server log states for a member's departure; None for other lines."""
    if kind in LEFT_LINES:
        return trigger_of_leave(client_reason)
    if kind == CoordinatorEventKind.MEMBER_FAILED:
        return SESSION_EXPIRED
    if kind == CoordinatorEventKind.DYNAMIC_MEMBERS_REMOVED:
        return FAILED_TO_REJOIN
    if kind == CoordinatorEventKind.CONSUMER_MEMBER_NOT_REVOKING:
        return REBALANCE_TIMEOUT
    if kind in _FENCED_LINES:
        return next((trigger for text, trigger in _OF_FENCES if (reason or "").startswith(text)), UNKNOWN)
    return None
