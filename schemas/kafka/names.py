"""Names that Kafka itself defines: its internal topics, the zero UUID, the client id with special permissions, the
groups of its console consumer, and two assignors."""

OFFSETS_TOPIC = "__consumer_offsets"
SHARE_STATE_TOPIC = "__share_group_state"
ZERO_UUID = "A" * 22
"""`Uuid.ZERO_UUID` in Kafka's 22 characters of base64: the topic has no id, or the request does not give it."""
ADMIN_CLIENT_ID = "__admin_client"
"""The only client id of a producer that a broker lets write to an internal topic."""
CONSOLE_GROUP_PREFIX = "console-consumer-"
"""The beginning of the group id of a console consumer that was given no group; a random number follows."""
COOPERATIVE_PROTOCOL = "cooperative-sticky"
"""The assignor of classic groups in which members keep their partitions while they rejoin."""
STREAMS_PROTOCOL = "stream"
"""The name of the assignor of Kafka Streams, which its classic groups have as their protocol."""


def is_made_for_one_use(group_id: str | None) -> bool:
    """Returns whether a console consumer made up a group's id, so that no client will use the group again."""
    name = group_id or ""
    return name.startswith(CONSOLE_GROUP_PREFIX) and name.removeprefix(CONSOLE_GROUP_PREFIX).isdecimal()
