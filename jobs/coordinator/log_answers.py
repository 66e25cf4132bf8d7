"""Answers requests about partitions of topics: ListOffsets, Fetch, Produce and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer import IsolationLevel
from kafka.protocol.consumer.fetch import FetchResponse
from kafka.protocol.consumer.offsets import ListOffsetsResponse, OffsetForLeaderEpochResponse
from kafka.protocol.producer.produce import ProduceResponse

from groupledger.coordinator.client.messages import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from groupledger.jobs.coordinator.logs import NOTHING, OffsetForTime
from groupledger.jobs.coordinator.stored_log import StoredLog
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.jobs.coordinator.frames import Incoming
    from groupledger.jobs.coordinator.logs import ServedLog
    from groupledger.jobs.coordinator.world import World

_NAMES_TOPIC_IDS_SINCE = 13
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL_TIMESTAMP = -4
_LEADER_EPOCH = 0
FETCH_BYTES_MAX = 1 << 20  # of one answer, however much the client would take
_MADE = "This coordinator makes the records of its topics itself; with a rate of 0 it takes them."


def _log(world: World, topic: str | None, partition: int, node: int) -> ServedLog | Error:
    """Returns the log of a partition, or why this node has none to show."""
    if topic is None:
        return Error.UNKNOWN_TOPIC_ID
    log = world.log(topic, partition)
    if log is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    return log if world.leader_of(topic, partition) == node else Error.NOT_LEADER_OR_FOLLOWER


def list_offsets(incoming: Incoming, world: World, node: int, now_ms: int) -> Any:
    kind, body = ListOffsetsResponse, incoming.body
    topic_kind = kind.ListOffsetsTopicResponse
    topics = []
    for asked in body.topics:
        partitions = []
        for each in asked.partitions:
            log = _log(world, asked.name, each.partition_index, node)
            is_error = isinstance(log, Error)
            found = (
                OffsetForTime()
                if isinstance(log, Error)
                else _listed(log, each.timestamp, now_ms, body.isolation_level)
            )
            partitions.append(
                topic_kind.ListOffsetsPartitionResponse(
                    partition_index=each.partition_index,
                    error_code=log if is_error else Error.NONE,
                    offset=found.offset,
                    timestamp=found.timestamp_ms,
                    leader_epoch=NOTHING if found.offset == NOTHING else _LEADER_EPOCH,
                )
            )
        topics.append(topic_kind(name=asked.name, partitions=partitions))
    return kind(version=incoming.version, topics=topics)


def _listed(log: ServedLog, timestamp_ms: int, now_ms: int, isolation_level: int) -> OffsetForTime:
    """Returns Kafka's answer for a time, or for a special value that stands for one."""
    if timestamp_ms in (EARLIEST_TIMESTAMP, _EARLIEST_LOCAL_TIMESTAMP):
        return OffsetForTime(log.start_offset(now_ms))
    if timestamp_ms == LATEST_TIMESTAMP:
        is_committed = isolation_level == IsolationLevel.READ_COMMITTED
        return OffsetForTime(log.last_stable_offset(now_ms) if is_committed else log.end_offset(now_ms))
    if timestamp_ms == _MAX_TIMESTAMP:
        return log.newest(now_ms)
    return log.at_time(timestamp_ms, now_ms) if timestamp_ms >= 0 else OffsetForTime()


def epoch_ends(incoming: Incoming, world: World, node: int, now_ms: int) -> Any:
    kind = OffsetForLeaderEpochResponse
    topic_kind = kind.OffsetForLeaderTopicResult
    topics = []
    for asked in incoming.body.topics:
        partitions = []
        for each in asked.partitions:
            log = _log(world, asked.topic, each.partition, node)
            epoch, end = NOTHING, NOTHING
            if not isinstance(log, Error) and each.leader_epoch == _LEADER_EPOCH:
                epoch, end = _LEADER_EPOCH, log.end_offset(now_ms)
            partitions.append(
                topic_kind.EpochEndOffset(
                    error_code=log if isinstance(log, Error) else Error.NONE,
                    partition=each.partition,
                    leader_epoch=epoch,
                    end_offset=end,
                )
            )
        topics.append(topic_kind(topic=asked.topic, partitions=partitions))
    return kind(version=incoming.version, topics=topics)


def produce(incoming: Incoming, world: World, node: int, now_ms: int) -> Any:
    """Appends the records of a Produce to their logs, and returns the response; None if the producer wants no
    answer."""
    kind = ProduceResponse
    topic_kind = kind.TopicProduceResponse
    topics = []
    for asked in incoming.body.topic_data:
        name = world.topic_of(asked.topic_id) if incoming.version >= _NAMES_TOPIC_IDS_SINCE else asked.name
        partitions = []
        for each in asked.partition_data:
            taken = _take(_log(world, name, each.index, node), each.records)
            is_refused = isinstance(taken, Error)
            partitions.append(
                topic_kind.PartitionProduceResponse(
                    index=each.index,
                    error_code=taken if is_refused else Error.NONE,
                    base_offset=NOTHING if is_refused else taken,
                    log_append_time_ms=NOTHING,
                    log_start_offset=NOTHING if is_refused else 0,
                    error_message=_MADE if taken is Error.POLICY_VIOLATION else None,
                )
            )
        topics.append(topic_kind(name=asked.name, topic_id=asked.topic_id, partition_responses=partitions))
    del now_ms  # a batch has its producer's time
    return kind(version=incoming.version, responses=topics) if incoming.body.acks else None


def _take(log: ServedLog | Error, records: bytes | None) -> int | Error:
    if isinstance(log, Error):
        return log
    return log.append(bytes(records or b"")) if isinstance(log, StoredLog) else Error.POLICY_VIOLATION


# Fetch


def fetch(incoming: Incoming, world: World, node: int, now_ms: int) -> tuple[Any, bool]:
    """Returns the response to a Fetch with the records that exist at `now_ms`, and whether to send it before the
    client's wait is over, since it has a record or an error. There are no fetch sessions: each request names all its
    partitions."""
    kind, body = FetchResponse, incoming.body
    room = min(body.max_bytes, FETCH_BYTES_MAX)
    topics, is_due = [], False
    for asked in body.topics:
        name = _name(asked, incoming, world)
        partitions = []
        for each in asked.partitions:
            log = _log(world, name, each.partition, node)
            found = _fetched(log, each, now_ms, body.isolation_level, min(room, each.partition_max_bytes))
            room -= len(found.records)
            is_due = is_due or bool(found.records) or bool(found.error_code)
            partitions.append(found)
        topics.append(kind.FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=partitions))
    return kind(version=incoming.version, session_id=0, responses=topics), is_due


def _name(asked: Any, incoming: Incoming, world: World) -> str | None:
    if incoming.version < _NAMES_TOPIC_IDS_SINCE:
        return str(asked.topic)
    return world.topic_of(asked.topic_id)


def _fetched(log: ServedLog | Error, asked: Any, now_ms: int, isolation_level: int, room: int) -> Any:
    kind = FetchResponse.FetchableTopicResponse.PartitionData
    if isinstance(log, Error):
        return _refused(asked, log)
    start, end, stable = log.start_offset(now_ms), log.end_offset(now_ms), log.last_stable_offset(now_ms)
    if not start <= asked.fetch_offset <= end:
        return _refused(asked, Error.OFFSET_OUT_OF_RANGE)
    is_committed = isolation_level == IsolationLevel.READ_COMMITTED
    to_offset = stable if is_committed else end
    is_something = asked.fetch_offset < to_offset and room > 0
    aborted_kind = kind.AbortedTransaction
    aborted = log.aborted(asked.fetch_offset, to_offset) if is_something and is_committed else []
    return kind(
        partition_index=asked.partition,
        error_code=Error.NONE,
        high_watermark=end,
        last_stable_offset=stable,
        log_start_offset=start,
        aborted_transactions=[aborted_kind(**each._asdict()) for each in aborted] if is_committed else None,
        records=log.read(asked.fetch_offset, to_offset, room) if is_something else b"",
    )


def _refused(asked: Any, error: Error) -> Any:
    return FetchResponse.FetchableTopicResponse.PartitionData(
        partition_index=asked.partition,
        error_code=error,
        high_watermark=NOTHING,
        last_stable_offset=NOTHING,
        log_start_offset=NOTHING,
        aborted_transactions=None,
        records=b"",
    )


def next_record_ms(incoming: Incoming, world: World, now_ms: int) -> int | None:
    """Returns when the first of the partitions in a Fetch will have a new record; None if that is known for none of
    them."""
    logs = [
        world.log(_name(asked, incoming, world) or "", each.partition)
        for asked in incoming.body.topics
        for each in asked.partitions
    ]
    times = [None if log is None else log.next_record_ms(now_ms) for log in logs]
    return min((time_ms for time_ms in times if time_ms is not None), default=None)
