"""The states of consumer, share and streams groups, in Kafka's words, and the base of those of their members.

A group's state follows from its epochs and members; a member's is a number in its record.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Self

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"


class RecordedState(IntEnum):
    """The base of members' states. A number that this release does not know is its UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> Self:  # noqa: ARG003  # as IntEnum asks
        return cls["UNKNOWN"]
