"""The states of consumer, share and streams groups, in Kafka's words. They follow from a group's epochs and members."""

from typing import Final

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"
