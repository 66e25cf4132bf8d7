"""Why a coordinator prepares a rebalance: the text in `(reason: ...)`, and which trigger that is.

The texts are those of the Java coordinator (4.x) and of the Scala one (2.8, 3.0 and 3.2 on differ). A leave is a leave
of the member's own will, unless the client's reason says otherwise: `left_poll_timeout`, `admin_removed`. The Java
coordinator logs that reason in a line of its own before, and only `transforms.logs.rebalance_triggers` sees both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from groupledger.transforms.logs.rules.template import Split, Template, read_templates

NOT_PROVIDED = "not provided"
POLL_TIMEOUT = "consumer poll timeout has expired"
REMOVED_BY_ADMIN = "member was removed by an admin"
_UUID_AT_END = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")

# With what the client gave as its reason behind, since 3.2, or without.
_OF_CLIENTS = """
joined: Adding new member {member_id} with group instance id {group_instance_id}
joined: Member {member_id} is joining group during {state:word}
joined: Member {member_id} joining group during {state:word}
metadata_changed: Updating metadata for member {member_id} during {state:word}
leader_rejoined: Leader {member_id} re-joining group during {state:word}
leader_rejoined: leader {member_id} re-joining group during {state:word}
static_member_replaced: Updating metadata for static member {member_id} with instance id {group_instance_id}
protocol_changed: Group's selectedProtocol will change because static member {member_id} with instance id
    {group_instance_id} joined with change of protocol
left: Removing member {member_id} on LeaveGroup
"""
_CLIENT_REASON = "; client reason: {client_reason}"
_OF_THE_COORDINATOR = """
left: explicit `LeaveGroup` request for ({member_ids}) members.
left: removing member {member_id} on LeaveGroup
session_expired: removing member {member_id} on heartbeat expiration.
session_expired: removing member {member_id} on heartbeat expiration
sync_expired: Removing {member_ids} on pending sync request expiration
assignment_not_stored: Error {error} when storing group assignmentduring SyncGroup (member: {member_id}).
assignment_not_stored: Error {error} when storing group assignment during SyncGroup (member: {member_id})
assignment_not_stored: Error when storing group assignment during SyncGroup (member: {member_id})
assignment_not_stored: error when storing group assignment during SyncGroup (member: {member_id})
over_capacity: Freshly-loaded group {group} (size {size:int}) is over capacity {capacity:int}. Rebalancing in order to
    give a chance for consumers to commit offsets
over_capacity: Freshly-loaded group is over capacity ({capacity}). Rebalancing in order to give a chance for consumers
    to commit offsets
over_capacity: Freshly-loaded group is over capacity ({capacity}). Rebalacing in order to give a chance for consumers
    to commit offsets
group_downgraded: Downgrade group {group} from consumer to classic for member leaving.
group_downgraded: Downgrade group {group} from consumer to classic for static member replacement with different
    subscription.
"""


@dataclass(frozen=True, slots=True)
class RebalanceReason:
    """`member_ids` is empty where the reason names no member, and has an empty id for one that is named by its instance
    id alone."""

    trigger: str
    member_ids: tuple[str, ...] = ()
    group_instance_id: str | None = None
    client_reason: str | None = None
    is_certain: bool = True


def is_members_id(text: str) -> bool:
    """The coordinator ends the ids that it makes with a UUID."""
    return _UUID_AT_END.search(text) is not None


_PLAUSIBLE = {"member_id": is_members_id}
_OF_CLIENTS_TEXTS = read_templates(_OF_CLIENTS)
_TEXTS = (
    *((trigger, text + _CLIENT_REASON) for trigger, text in _OF_CLIENTS_TEXTS),
    *_OF_CLIENTS_TEXTS,
    *read_templates(_OF_THE_COORDINATOR),
)
_TEMPLATES = tuple((trigger, Template(text, _PLAUSIBLE)) for trigger, text in _TEXTS)
UNKNOWN_REASON = RebalanceReason("unknown")


def parse_reason(text: str) -> RebalanceReason:
    for trigger, template in _TEMPLATES:
        split = template.split(text)
        if split is not None:
            return _reason(trigger, split)
    return UNKNOWN_REASON


def _reason(trigger: str, split: Split) -> RebalanceReason:
    fields, is_certain = split.fields, split.is_certain
    member_ids: tuple[str, ...] = ()
    if "member_id" in fields:
        member_ids = (fields["member_id"],)
    elif "member_ids" in fields:
        member_ids, is_whole = split_ids(fields["member_ids"])
        is_certain = is_certain and is_whole
    client_reason = given(fields.get("client_reason"), NOT_PROVIDED)
    return RebalanceReason(
        trigger=trigger_of_leave(client_reason) if trigger == "left" else trigger,
        member_ids=member_ids,
        group_instance_id=instance_id(fields.get("group_instance_id")),
        client_reason=client_reason,
        is_certain=is_certain,
    )


def trigger_of_leave(client_reason: str | None) -> str:
    if client_reason is not None and client_reason.startswith(POLL_TIMEOUT):
        return "left_poll_timeout"
    if client_reason is not None and client_reason.startswith(REMOVED_BY_ADMIN):
        return "admin_removed"
    return "left"


def split_ids(text: str) -> tuple[tuple[str, ...], bool]:
    """A list as Java (`[a, b]`), Scala (`Set(a, b)`) or neither prints it, and whether no id may hold a comma."""
    inner = re.sub(r"\A(?:\[|\w*\()(.*)[\])]\Z", r"\1", text, flags=re.DOTALL)
    ids = tuple(inner.split(", ")) if inner else ("",)
    return ids, len(ids) == 1 or all(is_members_id(each) or each == "" for each in ids)


def instance_id(text: str | None) -> str | None:
    """As Java (`null`) and Scala (`Some(id)`, `None`) print it."""
    if text is None or text in {"null", "None"}:
        return None
    return text[5:-1] if text.startswith("Some(") and text.endswith(")") else text


def given(text: str | None, absent: str) -> str | None:
    return None if text == absent else text
