"""Builds the records that a broker writes for committed offsets, of groups of every type, and their tombstones.

Contents are those of Kafka's GroupCoordinatorRecordHelpers: offset commit v4, or v1 if the request names a retention,
since only that version has a field for the expiry.
"""

from groupledger.coordinator.model.messages import OffsetToCommit
from groupledger.schemas.codec.records import Record
from groupledger.schemas.kafka.names import ZERO_UUID

NO_EXPIRY = -1

_OFFSET_COMMIT_VERSION = 4
_OFFSET_COMMIT_VERSION_WITH_EXPIRY = 1


def new_offset_commit_record(
    group_id: str, offset: OffsetToCommit, commit_timestamp_ms: int, expire_timestamp_ms: int
) -> Record:
    version, topic_id = _OFFSET_COMMIT_VERSION, offset.topic_id
    if expire_timestamp_ms != NO_EXPIRY:  # the only version with an expiry is older than topic ids
        version, topic_id = _OFFSET_COMMIT_VERSION_WITH_EXPIRY, ZERO_UUID
    value = {
        "offset": offset.offset,
        "leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata or "",
        "commit_timestamp_ms": commit_timestamp_ms,
        "expire_timestamp_ms": expire_timestamp_ms,
        "topic_id": topic_id,
    }
    key = {"group_id": group_id, "topic": offset.topic, "partition": offset.partition}
    return Record("offset_commit", key, version, value)


def new_offset_commit_tombstone_record(group_id: str, topic: str, partition: int) -> Record:
    key = {"group_id": group_id, "topic": topic, "partition": partition}
    return Record("offset_commit", key, None, None)
