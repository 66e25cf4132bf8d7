"""Names that Kafka itself defines: its internal topics, the zero UUID, the client id with special permissions, the
groups of its console consumer, and two assignors."""

OFFSETS_TOPIC = "__consumer_offsets"
SHARE_STATE_TOPIC = "__share_group_state"
ZERO_UUID = "A" * 22
"""`Uuid.ZERO_UUID` in Kafka's 22 characters of base64: the topic has no id, or the request does not give it."""
ADMIN_CLIENT_ID = "__admin_client"
"""The only client id of a producer that a broker lets write to an internal topic."""
CONSOLE_GROUP_PREFIX = "console-consumer-"
"""A console consumer that is given no group makes one up, with a random number after this."""
COOPERATIVE_PROTOCOL = "cooperative-sticky"
"""The assignor of classic groups in which members keep their partitions while they rejoin."""
STREAMS_PROTOCOL = "stream"
"""What the assignor of Kafka Streams is called, the protocol of its classic groups."""


def is_made_for_one_use(group_id: str | None) -> bool:
    """Returns whether a console consumer made up a group's name: nobody comes back to it."""
    name = group_id or ""
    return name.startswith(CONSOLE_GROUP_PREFIX) and name.removeprefix(CONSOLE_GROUP_PREFIX).isdecimal()
