"""Changes of groups that no record holds.

Requests that only read see groups as of the newest record: a group that was forgotten without a record is there until
something is appended, and a topology that was configured without a record is not.
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
        """Lets requests that only read see these changes, since something was appended."""
        self.forgotten.clear()
        for group in self.configured:
            group.shown = group.configured
        self.configured.clear()

    def unconfigure(self) -> None:
        """Takes back what was configured, since nothing could be appended."""
        for group in self.configured:
            group.configured = group.shown
        self.configured.clear()
