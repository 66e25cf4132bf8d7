"""Names that Kafka itself defines: its internal topics, the zero UUID, the client id with special permissions, the
groups of its console consumer, and two assignors."""

OFFSETS_TOPIC = "__consumer_offsets"
SHARE_STATE_TOPIC = "__share_group_state"
ZERO_UUID = "A" * 22
"""`Uuid.ZERO_UUID` in Kafka's 22 characters of base64: the topic has no id, or the request does not give it."""
ADMIN_CLIENT_ID = "__admin_client"
"""The only client id of a producer that a broker lets write to an internal topic."""
CONSOLE_GROUP_PREFIX = "console-consumer-"
"""A console consumer that is given no group makes one up, with a random number after this: it is never used again."""
COOPERATIVE_PROTOCOL = "cooperative-sticky"
"""The assignor of classic groups in which members keep their partitions while they rejoin."""
STREAMS_PROTOCOL = "stream"
"""What the assignor of Kafka Streams is called, the protocol of its classic groups."""
