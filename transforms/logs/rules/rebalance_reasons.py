"""Reads the text in `(reason: ...)`, which is the coordinator's reason for a rebalance, and finds the trigger that it
means.

A leave counts as voluntary, unless the client's reason says otherwise: `left_poll_timeout`, `admin_removed`. The Java
coordinator logs the client's reason in an earlier line, which `transforms.logs.rules.triggers` takes into account.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from groupledger.schemas.kafka.log_template import Split, Template
from groupledger.schemas.kafka.rebalance_reasons import NOT_PROVIDED, REASONS
from groupledger.schemas.kinds.triggers import LEFT, UNKNOWN, Trigger, trigger_of, trigger_of_leave

_UUID_AT_END = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceReason:
    """Holds a parsed reason. `member_ids` is empty if the reason names no member. If it names a member by its instance
    id alone, `member_ids` has an empty id for that member."""

    trigger: str
    member_ids: tuple[str, ...] = ()
    group_instance_id: str | None = None
    client_reason: str | None = None
    is_certain: bool = True


def is_members_id(text: str) -> bool:
    """Returns whether a text has the form of member ids that a coordinator makes: they end with a UUID."""
    return _UUID_AT_END.search(text) is not None


_PLAUSIBLE = {"member_id": is_members_id}
_TEMPLATES = tuple((trigger_of(kind), Template(text, _PLAUSIBLE)) for kind, text in REASONS)
UNKNOWN_REASON = RebalanceReason(trigger=UNKNOWN.name)


def parse_reason(text: str) -> RebalanceReason:
    """Returns the parsed reason; its trigger is `unknown` if no template fits."""
    for trigger, template in _TEMPLATES:
        split = template.split(text)
        if split is not None:
            return _reason(trigger, split)
    return UNKNOWN_REASON


def is_reason(text: str) -> bool:
    """Returns whether a text has the form of a reason that coordinators give."""
    return any(template.fits(text) for _, template in _TEMPLATES)


def _reason(trigger: Trigger, split: Split) -> RebalanceReason:
    fields, is_certain = split.fields, split.is_certain
    member_ids: tuple[str, ...] = ()
    if "member_id" in fields:
        member_ids = (fields["member_id"],)
    elif "member_ids" in fields:
        member_ids, is_whole = split_ids(fields["member_ids"])
        is_certain = is_certain and is_whole
    client_reason = given_reason(fields.get("client_reason"))
    return RebalanceReason(
        trigger=(trigger_of_leave(client_reason) if trigger == LEFT else trigger).name,
        member_ids=member_ids,
        group_instance_id=instance_id(fields.get("group_instance_id")),
        client_reason=client_reason,
        is_certain=is_certain,
    )


def split_ids(text: str) -> tuple[tuple[str, ...], bool]:
    """Returns two things: the ids of a list printed by Java (`[a, b]`), Scala (`Set(a, b)`) or without brackets; and
    whether there is only one way to split the list, since ids may contain commas."""
    inner = re.sub(r"\A(?:\[|\w*\()(.*)[\])]\Z", r"\1", text, flags=re.DOTALL)
    ids = tuple(inner.split(", ")) if inner else ("",)
    return ids, len(ids) == 1 or all(is_members_id(each) or each == "" for each in ids)


def instance_id(text: str | None) -> str | None:
    """Returns the instance id in a text printed by Java (`null`) or Scala (`Some(id)`, `None`); None if it has none."""
    if text is None or text in {"null", "None"}:
        return None
    return text[5:-1] if text.startswith("Some(") and text.endswith(")") else text


def given_reason(text: str | None) -> str | None:
    """Returns the client's reason; None if the broker printed that the client gave none."""
    return None if text == NOT_PROVIDED else text
