"""All record types of `__consumer_offsets` up to Kafka 4.4, by the id that leads their keys.

Types 0, 1 and 2 began as versions of keys; since 4.1 the leading int16 is the record type
(`CoordinatorRecordType.java`). Ids are never used again: 9 was written by the early-access share
groups of 4.0, 18 by unreleased builds of streams groups. Kafka 4.4 knows neither, so their values
have no format here and are refused by name. `tests/schemas/test_kafka_formats.py` compares all formats with the
definitions of each release.
"""

from groupledger.schemas.wire import consumer_group, group_metadata, offset_commit, share_group, streams_group
from groupledger.schemas.wire.model import RecordType

RECORD_TYPES: tuple[RecordType, ...] = (
    offset_commit.LEGACY_OFFSET_COMMIT,
    offset_commit.OFFSET_COMMIT,
    group_metadata.GROUP_METADATA,
    consumer_group.CONSUMER_GROUP_METADATA,
    consumer_group.CONSUMER_GROUP_PARTITION_METADATA,
    consumer_group.CONSUMER_GROUP_MEMBER_METADATA,
    consumer_group.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    consumer_group.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    consumer_group.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    share_group.SHARE_GROUP_MEMBER_METADATA,
    share_group.SHARE_GROUP_METADATA,
    share_group.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    share_group.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
    share_group.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    share_group.SHARE_GROUP_STATE_PARTITION_METADATA,
    consumer_group.CONSUMER_GROUP_REGULAR_EXPRESSION,
    streams_group.STREAMS_GROUP_METADATA,
    streams_group.STREAMS_GROUP_MEMBER_METADATA,
    streams_group.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    streams_group.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
    streams_group.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    streams_group.STREAMS_GROUP_TOPOLOGY,
)

RECORD_TYPE_BY_ID = {kind.id: kind for kind in RECORD_TYPES}
RECORD_TYPE_BY_NAME = {kind.record_type: kind for kind in RECORD_TYPES}
OFFSET_COMMIT_TYPES = ("offset_commit", "legacy_offset_commit")

RETIRED_RECORD_TYPES = {
    9: "share_group_partition_metadata",
    18: "streams_group_partition_metadata",
}
