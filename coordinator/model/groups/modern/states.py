"""The states of consumer, share and streams groups, in Kafka's words, and the base class of the states of their
members.

A group's state follows from its epochs and members. A member's state is a number in its record.
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
    """The base class of members' states. A number that it does not know becomes its UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> Self:  # noqa: ARG003  # as IntEnum asks
        return cls["UNKNOWN"]
