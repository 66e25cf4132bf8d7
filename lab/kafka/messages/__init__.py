"""Kafka messages that kafka-python has no definition of, and that only experiments send: the heartbeat of KIP-848.

The files hold the fields of `ConsumerGroupHeartbeat{Request,Response}.json` of Kafka 4.2.
"""

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # untyped, with a keyword of its metaclass
    pass


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass
