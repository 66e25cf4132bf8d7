"""Kafka's numbers for the delivery states of records of a share partition, in `__share_group_state` (KIP-932).

A record that a member is processing has none of these states: brokers write to the topic only when the record is
acknowledged or given up.
"""

AVAILABLE = 0
"""The record was delivered, and waits for another delivery."""
ACKNOWLEDGED = 2
ARCHIVED = 4
"""The record was rejected, was delivered too often, or has left its topic."""
NO_OFFSET = -1
"""The value of a start offset if the share partition has none yet, or if an update does not change it. Epochs have the
same value for that."""
