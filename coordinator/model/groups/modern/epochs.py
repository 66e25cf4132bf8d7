"""Names the epochs with a special meaning, in consumer, share and streams groups."""

from typing import Final

LEFT: Final = -1
AWAY: Final = -2  # a static member that will be back
NO_EPOCH: Final = -1
