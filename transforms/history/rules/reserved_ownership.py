"""Determines which partitions are reserved for static members that are away, as intervals in the form of `assignments`.

A static member that closes keeps its partitions until it comes back or its session ends: nobody processes them, and no
other member gets them. `member_epochs` has a step of the member for that time. Here each of its partitions gets an
interval of its own, with `is_reserved`, so that questions about owners can name the member that a partition is reserved
for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import MemberState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def reserved_ownership(steps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns one interval for each partition in those rows of `member_epochs` whose member is away."""
    copied = ("group_id", "incarnation", "member_id", "from_offset", "to_offset", "valid_from", "valid_to")
    return [
        {
            **{name: step[name] for name in copied},
            "topic": topic["topic"],
            "partition": number,
            "other_member_ids": [],
            **dict.fromkeys(("group_instance_id", "client_id", "from_generation", "to_generation")),
            "is_start_known": True,
            "is_end_known": step["is_end_known"],
            "is_reserved": True,
        }
        for step in steps
        if step["state"] == MemberState.AWAY
        for topic in step["assigned"]
        for number in topic["partitions"]
    ]
