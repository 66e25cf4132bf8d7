"""Defines the interface to which a group writes while it changes: responses, and lines of the server log.

It is a protocol, so that a group need not know the operation in which it changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from groupledger.coordinator.model.messages import Response


class Output(Protocol):
    responses: list[Response]

    def log(self, kind: str, **fields: Any) -> None:
        """Adds a line of this kind, with its fields, to the server log."""
