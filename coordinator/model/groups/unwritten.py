"""Holds those changes of groups for which no record was written.

Read-only requests see groups as of the newest record: a group that was removed without a record exists until another
record is appended, and a topology that was configured without a record is not visible before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.any_group import AnyGroup
    from groupledger.coordinator.model.groups.streams.group import StreamsGroup


class Unwritten:
    __slots__ = ("configured", "forgotten")

    def __init__(self) -> None:
        self.forgotten: dict[str, AnyGroup] = {}
        self.configured: list[StreamsGroup] = []

    def show(self) -> None:
        """Makes the changes visible to read-only requests, because a record was appended."""
        self.forgotten.clear()
        for group in self.configured:
            group.shown = group.configured
        self.configured.clear()

    def unconfigure(self) -> None:
        """Reverts the configured topologies of streams groups, because the append failed."""
        for group in self.configured:
            group.configured = group.shown
        self.configured.clear()
