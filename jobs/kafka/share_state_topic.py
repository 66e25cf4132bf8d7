"""Reads `__share_group_state`, and asks brokers for the positions of share groups.

The topic is small, since brokers prune it, so one reader in this process is enough. It joins no group. It never skips
records: if a broker has pruned the next ones, it raises OffsetOutOfRangeError.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError
from kafka.protocol.admin.groups import ListGroupsRequest

from groupledger.jobs.kafka.brokers import ask_each
from groupledger.jobs.kafka.login import kafka_python_security
from groupledger.jobs.kafka.messages import DescribeShareGroupOffsetsRequest
from groupledger.jobs.kafka.sampling import sample_watermarks
from groupledger.jobs.process.chunks import chunks
from groupledger.jobs.process.errors import OutsideError
from groupledger.schemas.instants import instant_if_known
from groupledger.schemas.kafka.names import SHARE_STATE_TOPIC
from groupledger.schemas.kafka.share_states import NO_OFFSET
from groupledger.schemas.kafka.uuids import kafka_id_of
from groupledger.schemas.words import GroupType
from groupledger.transforms.shares.rules.share_state import SharePartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.process.settings import SamplingSettings, Settings

POLL_MS = 500
RECORDS_AT_ONCE = 20_000
LATEST_MS = 253_402_300_799_999  # the end of the year 9999, the last that Python has


@dataclass(frozen=True)
class StateTopic:
    """The id of `__share_group_state`, and the start and end of each of its partitions."""

    topic_id: str
    log_starts: Mapping[int, int]
    ends: Mapping[int, int]


class StateRecord(NamedTuple):
    """A record of `__share_group_state` or of another small topic, not decoded."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None

    @property
    def written_at(self) -> datetime | None:
        """Returns the instant of the record; None if it has none, or one that Python can't hold."""
        return instant_if_known(self.timestamp_ms) if 0 <= (self.timestamp_ms or 0) <= LATEST_MS else None


@dataclass(frozen=True, slots=True)
class DescribedSharePartition:
    """A coordinator's description of a share partition. `start_offset` and `lag` are None if the coordinator does not
    know them."""

    topic: str
    start_offset: int | None
    lag: int | None


def describe_state_topic(brokers: Brokers, settings: SamplingSettings) -> StateTopic | None:
    """Returns `__share_group_state` with the start and end of its partitions. Returns None if the cluster has no such
    topic, or this user may not see it. Raises OutsideError if a partition's leader does not answer."""
    rows, _ = sample_watermarks(brokers, settings, [SHARE_STATE_TOPIC])
    if not rows:
        return None
    silent = next((row for row in rows if row.offsets is None), None)
    if silent is not None:
        raise OutsideError(
            f"Partition {silent.partition} of {SHARE_STATE_TOPIC} can't be read ({silent.error}): run the command again"
            " when its leader is back."
        )
    starts = {row.partition: row.log_start_offset or 0 for row in rows}
    return StateTopic(rows[0].topic_id or "", starts, {row.partition: row.high_watermark or 0 for row in rows})


def state_records(
    bootstrap_servers: str,
    settings: Settings,
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    topic: str = SHARE_STATE_TOPIC,
) -> Iterator[list[StateRecord]]:
    """Yields the records from `begins` up to `ends`, both offsets by partition, in consecutive lists. Raises KafkaError
    if no records come, and OffsetOutOfRangeError if records that were to be read are gone. `topic` may be another small
    topic."""
    unread = {TopicPartition(topic, partition): end for partition, end in ends.items() if begins[partition] < end}
    if unread:
        with closing(_consumer(bootstrap_servers, settings)) as consumer:
            consumer.assign(list(unread))
            for place in unread:
                consumer.seek(place, begins[place.partition])
            yield from _pieces(consumer, unread, settings.kafka.request_timeout_ms / 1_000)


def _consumer(bootstrap_servers: str, settings: Settings) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=bootstrap_servers.split(","),
        client_id="groupledger",
        enable_auto_commit=False,
        auto_offset_reset="none",
        allow_auto_create_topics=False,
        request_timeout_ms=settings.kafka.request_timeout_ms,
        **kafka_python_security(settings.kafka),
    )


def _pieces(
    consumer: KafkaConsumer, unread: Mapping[TopicPartition, int], silent_s_max: float
) -> Iterator[list[StateRecord]]:
    found: list[StateRecord] = []
    positions: list[int] = []
    moved_s = time.monotonic()
    while unread:
        found += _polled(consumer, unread)
        before, positions = positions, [consumer.position(place) or 0 for place in unread]
        if positions != before:
            moved_s = time.monotonic()
        elif time.monotonic() - moved_s > silent_s_max:
            raise KafkaTimeoutError("the brokers send no records")
        ends = zip(unread.items(), positions, strict=True)
        unread = {place: end for (place, end), position in ends if position < end}
        if len(found) >= RECORDS_AT_ONCE or not unread:
            yield found
            found = []


def _polled(consumer: KafkaConsumer, unread: Mapping[TopicPartition, int]) -> list[StateRecord]:
    return [
        StateRecord(place.partition, each.offset, each.timestamp, each.key, each.value)
        for place, records in consumer.poll(timeout_ms=POLL_MS).items()
        for each in records
        if each.offset < unread.get(place, 0)
    ]


def described_offsets(
    brokers: Brokers, settings: SamplingSettings, group_ids: Collection[str]
) -> dict[SharePartition, DescribedSharePartition]:
    """Returns, by share partition, the position that the group's coordinator reports. Groups and partitions that no
    coordinator knows, and those of brokers that do not answer, are left out."""
    if not group_ids:
        return {}

    def ask(node: int, _: None) -> dict[SharePartition, DescribedSharePartition]:
        return _described_by(brokers, settings, node, group_ids)

    answers = ask_each(settings, dict.fromkeys(brokers.nodes()), ask)
    found: dict[SharePartition, DescribedSharePartition] = {}
    for answer in answers.values():
        if isinstance(answer, dict):
            found |= answer
    return found


def _described_by(
    brokers: Brokers, settings: SamplingSettings, node: int, group_ids: Collection[str]
) -> dict[SharePartition, DescribedSharePartition]:
    listed = brokers.send(ListGroupsRequest(), node).groups
    names = sorted(
        each.group_id
        for each in listed
        if (each.group_type or "").lower() == GroupType.SHARE and each.group_id in group_ids
    )
    asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    return {
        SharePartition(
            group.group_id, kafka_id_of(UUID(str(topic.topic_id))), one.partition_index
        ): DescribedSharePartition(topic.topic_name, _known(one.start_offset), _known(one.lag))
        for some in chunks(names, settings.groups_per_request)
        for group in brokers.send(
            DescribeShareGroupOffsetsRequest(groups=[asked(group_id=name, topics=None) for name in some]), node
        ).groups
        for topic in group.topics
        for one in topic.partitions
        if not one.error_code
    }


def _known(number: Any) -> int | None:
    return None if number is None or number == NO_OFFSET else int(number)
