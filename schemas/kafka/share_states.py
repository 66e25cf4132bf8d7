"""Kafka's numbers for the delivery states of records of a share partition, in `__share_group_state` (KIP-932).

A record that a member is processing has none of them: the topic is written when the record is acknowledged or given up.
"""

AVAILABLE = 0
"""It was delivered, and waits for another delivery."""
ACKNOWLEDGED = 2
ARCHIVED = 4
"""It was rejected, was delivered too often, or has left the topic."""
NO_OFFSET = -1
"""The share partition has no start offset yet, or an update leaves it as it is; for epochs, too."""
