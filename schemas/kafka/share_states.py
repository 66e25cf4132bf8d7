"""Kafka's numbers for what became of records of a share partition, as `__share_group_state` holds them (KIP-932).

A record that a member holds right now is in none of them: the topic is written when it is answered for or given up.
"""

AVAILABLE = 0
"""It was delivered, and waits for another delivery."""
ACKNOWLEDGED = 2
ARCHIVED = 4
"""It was rejected, was delivered too often, or has left the topic."""
NO_OFFSET = -1
"""The share partition has no start offset yet, or an update leaves it as it is; for epochs, too."""
