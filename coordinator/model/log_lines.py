"""The server log of a 4.2 group coordinator: what it writes at INFO or above about classic groups.

The coordinator emits a `LogEvent` (kind and fields); `render` gives the broker's text, `render_line` the whole line of
a server.log under the shipped log4j2 pattern. Rendering is Java's: null for None, `[a, b]` for the toString of a set or
list. Field values go in raw, line breaks included, as the broker prints them: this is the text of a faithful copy of a
server log, not of a log of ours. Three fields differ from a broker's: the identity hash of an empty byte array and
elapsed milliseconds are 0, and a failed append is told by the error's name instead of its English message.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a rebalance starts, for the last part of `preparing_rebalance`."""

    kind: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line of the broker's server log, not yet rendered."""

    happened_at_ms: int
    partition: int
    kind: str
    fields: Mapping[str, Any]


_PACKAGE = "org.apache.kafka.coordinator.group."
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_STATIC_MEMBER_JOINS = (
    "Static member with groupInstanceId={group_instance_id} and unknown member id joins group"
    " {group_id} in {state} state. "
)
_LEADER_FAILED = (
    "Group leader [memberId: {member_id}, groupInstanceId: {group_instance_id}] failed to join"
    " before the rebalance timeout"
)

_TEMPLATES = {
    # GroupMetadataManager
    "member_id_required": "Dynamic member with unknown member id joins group {group_id} in {state}"
    " state. Created a new member id {member_id} and requesting the member to rejoin with this id.",
    "dynamic_member_added": "Dynamic member with unknown member id joins group {group_id} in state"
    " {state}. Created a new member id {member_id} and added the member to the group.",
    "pending_member_joins": "Pending dynamic member with id {member_id} joins group {group_id} in"
    " {state} state. Adding to the group now.",
    "static_member_added": _STATIC_MEMBER_JOINS
    + "Created a new member id {member_id} for this member and added to the group.",
    "static_member_replaced": _STATIC_MEMBER_JOINS
    + "Replacing previously mapped member {old_member_id} with this groupInstanceId.",
    "static_member_keeps_protocol": "Static member which joins during Stable stage and doesn't"
    " affect the selected protocol will not trigger a rebalance.",
    "static_member_not_persisted": "Failed to persist metadata for group {group_id} static member"
    " {member_id} with group instance id {group_instance_id} due to {error}. Reverting to old"
    " member id {old_member_id}.",
    "rejoin_in_unexpected_state": "Attempt to add rejoining member {member_id} of group {group_id}"
    " in unexpected group state {state}",
    "preparing_rebalance": "Preparing to rebalance group {group_id} in state {state} with old"
    " generation {generation_id} (reason: {reason}).",
    "dynamic_members_removed": "Group {group_id} removed dynamic members who haven't joined: {member_ids}",
    "group_is_dead": "Group {group_id} is dead, skipping rebalance stage.",
    "no_members_rejoined": "Group {group_id} could not complete rebalance because no members rejoined.",
    "stabilized": "Stabilized group {group_id} generation {generation_id} with {member_count} members.",
    "group_now_empty": "Group {group_id} with generation {generation_id} is now empty.",
    "empty_metadata_not_written": "Failed to write empty metadata for group {group_id}: {error}",
    "assignment_received": "Assignment received from leader {member_id} for group {group_id} for"
    " generation {generation_id}. The group has {member_count} members, {static_member_count} of"
    " which are static.",
    "empty_assignments_set": "Setting empty assignments for members {assignments} of {group_id} for"
    " generation {generation_id}.",
    "empty_assignment_sent": "Sending empty assignment to member {member_id} of {group_id} for"
    " generation {generation_id} with no errors",
    "member_failed": "Member {member_id} in group {group_id} has failed, removing it from the group.",
    "pending_member_expired": "Pending member {member_id} in group {group_id} has been removed"
    " after session timeout expiration.",
    "member_left": "[Group {group_id}] Member {member_id} has left group through explicit"
    " `LeaveGroup` request; client reason: {client_reason}",
    "pending_member_left": "[Group {group_id}] Pending member {member_id} has left group through"
    " explicit `LeaveGroup` request; client reason: {client_reason}",
    "group_loaded": "Loaded classic group {group_id} with {member_count} members.",
    "group_unloaded": "[GroupId={group_id}] Unloading group metadata for generation {generation_id}.",
    # ClassicGroup
    "member_fenced": "Request memberId={member_id} for static member with groupInstanceId="
    "{group_instance_id} is fenced by existing memberId={existing_member_id} during operation"
    " {operation}",
    "leader_replaced": _LEADER_FAILED + ". Member {new_leader} was elected as the new leader.",
    "no_leader_elected": _LEADER_FAILED
    + " and the group couldn't proceed to the next generation because no member joined.",
    # OffsetMetadataManager
    "simple_group_created": "[GroupId {group_id}] Creating a simple consumer group via manual offset commit.",
    # GroupCoordinatorShard
    "tombstones_generated": "Generated {tombstone_count} tombstone records while cleaning up group"
    " metadata in 0 milliseconds.",
    "partitions_deleted": "Generated {tombstone_count} tombstone records in 0 milliseconds while"
    " deleting offsets for partitions {partitions}.",
    "groups_deleted": "The following groups were deleted: {group_ids}. A total of {offset_count} offsets were removed.",
}

_REASONS = {
    "new_member": "Adding new member {member_id} with group instance id {group_instance_id};"
    " client reason: {client_reason}",
    "member_joining": "Member {member_id} is joining group during {state}; client reason: {client_reason}",
    "metadata_changed": "Updating metadata for member {member_id} during {state}; client reason: {client_reason}",
    "leader_rejoined": "Leader {member_id} re-joining group during {state}; client reason: {client_reason}",
    "static_member_replaced": "Updating metadata for static member {member_id} with instance id"
    " {group_instance_id}; client reason: {client_reason}",
    "static_member_changes_protocol": "Group's selectedProtocol will change because static member"
    " {member_id} with instance id {group_instance_id} joined with change of protocol;"
    " client reason: {client_reason}",
    "members_left": "explicit `LeaveGroup` request for ({member_ids}) members.",
    "session_expired": "removing member {member_id} on heartbeat expiration.",
    "sync_expired": "Removing {member_ids} on pending sync request expiration",
    "assignment_not_stored": "Error {error} when storing group assignmentduring SyncGroup"
    " (member: {member_id}).",  # the missing blank is the broker's
    "over_capacity": "Freshly-loaded group {group_id} (size {member_count}) is over capacity"
    " {group_max_size}. Rebalancing in order to give a chance for consumers to commit offsets",
}

_LEVELS = {
    "no_members_rejoined": "ERROR",
    "static_member_not_persisted": "WARN",
    "rejoin_in_unexpected_state": "WARN",
    "empty_metadata_not_written": "WARN",
    "empty_assignments_set": "WARN",
    "empty_assignment_sent": "WARN",
}

_LOGGERS = {
    "member_fenced": "classic.ClassicGroup",
    "leader_replaced": "classic.ClassicGroup",
    "no_leader_elected": "classic.ClassicGroup",
    "simple_group_created": "OffsetMetadataManager",
    "tombstones_generated": "GroupCoordinatorShard",
    "partitions_deleted": "GroupCoordinatorShard",
    "groups_deleted": "GroupCoordinatorShard",
}


def render(event: LogEvent | Reason) -> str:
    """The message, without timestamp, level and logger."""
    template = (_REASONS if isinstance(event, Reason) else _TEMPLATES)[event.kind]
    return template.format_map({name: _java(value) for name, value in event.fields.items()})


def render_line(event: LogEvent, *, broker_id: int) -> str:
    """One line of server.log without its line end, the time in UTC."""
    moment = _EPOCH + timedelta(milliseconds=event.happened_at_ms)
    happened_at = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"
    level = _LEVELS.get(event.kind, "INFO")
    coordinator = f"id={broker_id} topic=__consumer_offsets partition={event.partition}"
    logger = _PACKAGE + _LOGGERS.get(event.kind, "GroupMetadataManager")
    return f"[{happened_at}] {level} [GroupCoordinator {coordinator}] {render(event)} ({logger})"


def _java(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Reason):
        return render(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_java, value))}]"
    return str(value)
