"""Epochs with a meaning of their own, in consumer, share and streams groups."""

from typing import Final

LEFT: Final = -1
AWAY: Final = -2  # a static member that will be back
NO_EPOCH: Final = -1
