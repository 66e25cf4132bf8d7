"""Defines the Kafka messages that kafka-python lacks, in the form of Kafka's own definitions.

ConsumerGroupDescribe (API 69, KIP-848) describes consumer groups. DescribeGroups describes classic groups only, and
answers GROUP_ID_NOT_FOUND for consumer groups. ConsumerGroupHeartbeat (API 68) is the request by which members of
consumer groups join, stay and leave. ShareGroupDescribe (API 77) and ShareGroupHeartbeat (API 76, KIP-932) are the same
for share groups, and DescribeShareGroupOffsets (API 90) returns their positions. StreamsGroupDescribe (API 89) and
StreamsGroupHeartbeat (API 88, KIP-1071) are the same for streams groups. The JSON files beside this module have the
fields of Kafka 4.2's files of the same names.
"""

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # untyped, with a keyword of its metaclass
    pass


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class ShareGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class ShareGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class ShareGroupHeartbeatRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class ShareGroupHeartbeatResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class StreamsGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class StreamsGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class StreamsGroupHeartbeatRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass


class StreamsGroupHeartbeatResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]  # as above
    pass
