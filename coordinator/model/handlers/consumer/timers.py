"""Names the timers of a member of a consumer group. A member whose timer runs out is removed from the group.

A member that sends KIP-848 heartbeats has the session timer, and the revocation timer while it has partitions to give
up. A classic member has the session timer, the join timer from the heartbeat that asks it to join again until it has
joined, and the sync timer from its JoinGroup until its SyncGroup.
"""

from typing import Final

SESSION_TIMER: Final = "consumer-session"
REVOCATION_TIMER: Final = "consumer-revocation"
JOIN_TIMER: Final = "consumer-join"
SYNC_TIMER: Final = "consumer-sync"
TIMERS: Final = (SESSION_TIMER, REVOCATION_TIMER, JOIN_TIMER, SYNC_TIMER)
