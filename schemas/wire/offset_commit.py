"""Committed offsets: `OffsetCommitKey/Value.json` and `LegacyOffsetCommitKey/Value.json`.

Kafka 4.1 to 4.4 write version 4, whose one tag has the topic id if the client named the topic by id. Kafka 3.x and 4.0
wrote version 3. All of these releases write a commit with an explicit retention as version 1.

Record type 0 is the oldest form of the same key. Kafka reads only value version 0 after it, but until 4.1 types 0 and 1
were two versions of one key with one value schema, so that an old log may have any value version: all of them are
accepted here.
"""

from groupledger.schemas.wire.model import Field, Message, Primitive, RecordType, only, since

_KEY = (
    Field("group", Primitive.STRING, column="group_id"),
    Field("topic", Primitive.STRING),
    Field("partition", Primitive.INT32),
)
_VALUE = (
    Field("offset", Primitive.INT64),
    Field("leaderEpoch", Primitive.INT32, since(3), default=-1),
    Field("metadata", Primitive.STRING),
    Field("commitTimestamp", Primitive.INT64, column="commit_timestamp_ms"),
    Field("expireTimestamp", Primitive.INT64, only(1), default=-1, column="expire_timestamp_ms"),
    Field("topicId", Primitive.UUID, since(4), tag=0),
)


def _value(name: str) -> Message:
    return Message(name, _VALUE, latest_version=4, flexible_since=4)


LEGACY_OFFSET_COMMIT = RecordType(0, "LegacyOffsetCommit", _KEY, _value("LegacyOffsetCommitValue"))
OFFSET_COMMIT = RecordType(1, "OffsetCommit", _KEY, _value("OffsetCommitValue"))
