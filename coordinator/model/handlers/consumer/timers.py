"""Sets the timers of a member of a consumer group. A member whose timer runs out is removed from the group.

A member that sends heartbeats of KIP-848 has SESSION, and REVOCATION while it has something to give up. A classic one
has SESSION, JOIN from the heartbeat that asks it to join again until it has, and SYNC from its join until its sync.
"""

from typing import Final

SESSION_TIMER: Final = "consumer-session"
REVOCATION_TIMER: Final = "consumer-revocation"
JOIN_TIMER: Final = "consumer-join"
SYNC_TIMER: Final = "consumer-sync"
TIMERS: Final = (SESSION_TIMER, REVOCATION_TIMER, JOIN_TIMER, SYNC_TIMER)
