"""Takes a sampling round: asks the leaders for the ends of every partition, and the coordinators for their groups.

The ends of `__consumer_offsets` are read first, so that every commit below them is older than every other number of the
round. So lag compares a commit with an end that was read after it. The rows go into the tables `watermarks` and
`group_states`.

- For each partition the log start, the high watermark and the last stable offset are requested in this order, each in
  one ListOffsets request for many partitions. The log grows between the requests. So a last stable offset above the
  high watermark is cut to it; otherwise a log without transactions would seem to have an open one.
- Groups come from ListGroups, which each broker answers for the groups that it coordinates. Only the leaders of
  `__consumer_offsets` coordinate groups, so no other broker is asked: of a thousand brokers, fifty at most with Kafka's
  default number of partitions. The same broker is asked for the groups' members, by DescribeGroups or, for KIP-848,
  ConsumerGroupDescribe. Share and streams groups have only the state in the list.
- If a broker does not answer, only its own partitions and groups are missing. The partitions have rows with the error;
  its groups are not listed anywhere else, and so have no rows.
- Metadata never creates topics: a sample of a deleted topic must not bring it back.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kafka.admin import OffsetSpec
from kafka.errors import KafkaError, for_code
from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import IsolationLevel
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata.metadata import MetadataRequest

from groupledger.jobs.kafka.brokers import answer_or_error, ask_each, attempts, error_name
from groupledger.jobs.kafka.messages import ConsumerGroupDescribeRequest
from groupledger.jobs.process.chunks import chunks
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.shard import WHOLE, Shard
from groupledger.schemas.codec.consumer_protocol import read_subscription
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.kafka.names import OFFSETS_TOPIC, ZERO_UUID
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kafka.uuids import kafka_id_of
from groupledger.schemas.words import GroupType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.process.settings import SamplingSettings

# With read_committed the answer to "latest" is the last stable offset.
OFFSETS_ASKED = (
    (OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
    (OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED),
    (OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED),
)
LEADER_EPOCH_SINCE = 4  # the ListOffsets version


@dataclass(frozen=True, slots=True)
class SampledWatermark:
    """A row of `watermarks`, without its round. `jobs.kafka.markers` and `jobs.kafka.aborted` add `markers_at_end`."""

    topic: str
    partition: int
    log_start_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    leader_epoch: int | None = None
    topic_id: str | None = None
    error: str | None = None
    markers_at_end: int | None = None

    @property
    def offsets(self) -> tuple[int, int, int] | None:
        """Returns log start, high watermark and last stable offset; None if one of them is not known."""
        if self.log_start_offset is None or self.high_watermark is None or self.last_stable_offset is None:
            return None
        return self.log_start_offset, self.high_watermark, self.last_stable_offset


@dataclass(frozen=True, slots=True)
class SampledGroupState:
    """A row of `group_states`, without its round."""

    group_id: str
    group_type: str | None = None
    state: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    member_count: int | None = None
    group_epoch: int | None = None
    subscribed_topics: tuple[str, ...] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SampledRound:
    """The rows of a round. `unseen_topics` were requested and have no rows, since they are deleted or this user may not
    describe them; `silent_brokers` did not list their groups. Both have the error by topic or broker."""

    sampled_at_ms: int
    watermarks: tuple[SampledWatermark, ...]
    group_states: tuple[SampledGroupState, ...]
    unseen_topics: Mapping[str, str]
    silent_brokers: Mapping[int, str]

    def errors(self) -> int:
        """Returns the number of rows that have an error."""
        errors_of_rows = [row.error for row in self.watermarks] + [row.error for row in self.group_states]
        return len(errors_of_rows) - errors_of_rows.count(None)


def ends_of(watermarks: Iterable[SampledWatermark]) -> dict[int, int]:
    """Returns, by partition of `__consumer_offsets`, the last stable offset: commits below it belong to the round."""
    return {row.partition: row.offsets[-1] for row in watermarks if row.topic == OFFSETS_TOPIC and row.offsets}


def sample_ends(brokers: Brokers, settings: SamplingSettings, shard: Shard = WHOLE) -> tuple[SampledWatermark, ...]:
    """Returns a row for each partition of `__consumer_offsets` in the shard."""
    rows, _ = sample_watermarks(brokers, settings, [OFFSETS_TOPIC])
    return tuple(row for row in rows if shard.has(row.partition))


def take_round(
    brokers: Brokers,
    settings: SamplingSettings,
    topics: Collection[str] | None,
    sampled_at_ms: int,
    ends: tuple[SampledWatermark, ...],
    shard: Shard = WHOLE,
) -> SampledRound:
    """Samples a round. `ends` are the rows that `sample_ends` returned before. `topics` are the other topics to sample;
    None means all that are not internal.

    Raises OutsideError if no broker answers with the partitions' leaders.
    """
    others = None if topics is None else set(topics) - {OFFSETS_TOPIC}
    watermarks, unseen_topics = sample_watermarks(brokers, settings, others)
    group_states, silent_brokers = sample_groups(brokers, settings, shard)
    return SampledRound(sampled_at_ms, (*ends, *watermarks), group_states, unseen_topics, silent_brokers)


# Watermarks


def sample_watermarks(
    brokers: Brokers, settings: SamplingSettings, topics: Collection[str] | None
) -> tuple[tuple[SampledWatermark, ...], dict[str, str]]:
    """Returns a row for each partition of the topics, and the error for each topic that can't be described.

    If the leader of a partition has moved or does not answer, the leader is looked up and asked again.
    """
    rows: dict[TopicPartition, SampledWatermark] = {}
    unseen: dict[str, str] = {}
    wanted = topics
    for _ in attempts(settings):
        leaders, found, unseen_now = describe_topics(brokers, settings, wanted)
        unseen = unseen_now if wanted is topics else unseen | unseen_now
        new = {place: row for place, row in found.items() if place not in rows or rows[place].error is not None}
        asked = {node: [new[place] for place in places if place in new] for node, places in leaders.items()}
        rows |= new | ask_leaders(brokers, settings, asked)
        wanted = {row.topic for row in rows.values() if row.error is not None}
        if not wanted:
            break
    return tuple(rows[place] for place in sorted(rows)), unseen


def describe_topics(
    brokers: Brokers, settings: SamplingSettings, topics: Collection[str] | None
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, SampledWatermark], dict[str, str]]:
    """Returns the partitions by leader, a row without offsets for each partition, and the error for each topic that
    can't be described. `topics` is None for all topics that are not internal.

    Raises OutsideError if no broker answers.
    """
    topic = MetadataRequest.MetadataRequestTopic
    names = None if topics is None else [topic(name=name) for name in sorted(topics)]
    answer = ask_any(brokers, settings, MetadataRequest(topics=names, allow_auto_topic_creation=False))
    leaders: dict[int, list[TopicPartition]] = defaultdict(list)
    rows: dict[TopicPartition, SampledWatermark] = {}
    unseen: dict[str, str] = {}
    for found in answer.topics:
        if found.error_code:
            unseen[found.name] = error_name(for_code(found.error_code))
        if topics is None and found.is_internal:
            continue
        topic_id = kafka_id_of(UUID(str(found.topic_id))) if found.topic_id else ZERO_UUID
        for partition in found.partitions:
            place = TopicPartition(found.name, partition.partition_index)
            error = error_name(for_code(partition.error_code)) if partition.leader_id < 0 else None
            rows[place] = SampledWatermark(*place, topic_id=None if topic_id == ZERO_UUID else topic_id, error=error)
            if error is None:
                leaders[partition.leader_id].append(place)
    return leaders, rows, unseen


def ask_any(brokers: Brokers, settings: SamplingSettings, request: Any) -> Any:
    for _ in attempts(settings):
        answer = answer_or_error(brokers.send, request)
        if not isinstance(answer, KafkaError):
            return answer
    raise OutsideError(f"No broker answers ({type(answer).__name__}): nothing could be sampled.")


def ask_leaders(
    brokers: Brokers, settings: SamplingSettings, asked: Mapping[int, list[SampledWatermark]]
) -> dict[TopicPartition, SampledWatermark]:
    def ask(node: int, rows: list[SampledWatermark]) -> list[SampledWatermark]:
        return [
            row for some in chunks(rows, settings.partitions_per_request) for row in ask_leader(brokers, node, some)
        ]

    answers = ask_each(settings, asked, ask)
    return {
        TopicPartition(row.topic, row.partition): row
        for node, answer in answers.items()
        for row in (without_offsets(asked[node], answer) if isinstance(answer, KafkaError) else answer)
    }


def without_offsets(rows: Iterable[SampledWatermark], error: KafkaError) -> list[SampledWatermark]:
    return [replace(row, error=error_name(error)) for row in rows]


def ask_leader(brokers: Brokers, node: int, rows: Collection[SampledWatermark]) -> Iterator[SampledWatermark]:
    """Yields each row with the offsets that its leader `node` returns, or with the error that it returns for the
    partition. Raises KafkaError if the broker does not answer."""
    answers = [offsets_by_place(brokers.send(request, node)) for request in list_offsets_requests(rows)]
    for row in rows:
        offsets = [answer[TopicPartition(row.topic, row.partition)] for answer in answers]
        error_code = next((one.error_code for one in offsets if one.error_code), 0)
        if error_code:
            yield replace(row, error=error_name(for_code(error_code)))
            continue
        log_start_offset, high_watermark, last_stable_offset = (one.offset for one in offsets)
        yield replace(
            row,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            last_stable_offset=min(last_stable_offset, high_watermark),
            leader_epoch=offsets[-1].leader_epoch if offsets[-1].leader_epoch >= 0 else None,
        )


def list_offsets_requests(rows: Iterable[SampledWatermark]) -> Iterator[Any]:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        by_topic[row.topic].append(row.partition)
    topic = ListOffsetsRequest.ListOffsetsTopic
    for spec, isolation in OFFSETS_ASKED:
        asked = [
            topic(
                name=name,
                partitions=[
                    topic.ListOffsetsPartition(partition_index=partition, timestamp=spec) for partition in partitions
                ],
            )
            for name, partitions in by_topic.items()
        ]
        yield ListOffsetsRequest(isolation_level=isolation, topics=asked, min_version=LEADER_EPOCH_SINCE)


def offsets_by_place(answer: Any) -> dict[TopicPartition, Any]:
    return {TopicPartition(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}


# Groups


def sample_groups(
    brokers: Brokers, settings: SamplingSettings, shard: Shard = WHOLE
) -> tuple[tuple[SampledGroupState, ...], dict[int, str]]:
    """Returns a row for each group of the shard that a coordinator lists, and the error of each that did not list its
    groups. Raises OutsideError if no broker answers with the leaders of `__consumer_offsets`."""
    rows: dict[str, SampledGroupState] = {}
    silent: dict[int, str] = {}
    listed: set[int] = set()
    for _ in attempts(settings):
        leaders, places, _ = describe_topics(brokers, settings, [OFFSETS_TOPIC])
        is_own = partial(shard.has_group, partition_count=len(places))
        own = (node for node, led in leaders.items() if any(shard.has(place.partition) for place in led))
        wanted = {*silent, *own} - listed
        asked = dict.fromkeys(wanted, is_own)
        answers = ask_each(settings, asked, lambda node, is_own: ask_coordinator(brokers, settings, node, is_own))
        silent = {node: error_name(answer) for node, answer in answers.items() if isinstance(answer, KafkaError)}
        for node, answer in answers.items():
            if not isinstance(answer, KafkaError):
                listed.add(node)
                # A group that moves in between is listed by two, and one of them refuses to describe it.
                rows |= {row.group_id: row for row in answer if row.group_id not in rows or row.error is None}
        if not silent:
            break
    return tuple(rows[group_id] for group_id in sorted(rows)), silent


def ask_coordinator(
    brokers: Brokers, settings: SamplingSettings, node: int, is_own: Callable[[str], bool]
) -> list[SampledGroupState]:
    """Returns those groups for which `is_own` holds that the broker `node` coordinates. Raises KafkaError if the broker
    does not answer, or is still loading its groups."""
    answer = brokers.send(ListGroupsRequest(), node)
    if answer.error_code:
        raise for_code(answer.error_code)
    listed = {group.group_id: listed_group(group) for group in answer.groups if is_own(group.group_id)}
    for request, group_type, with_state in (
        (DescribeGroupsRequest, GroupType.CLASSIC, classic_group),
        (ConsumerGroupDescribeRequest, GroupType.CONSUMER, consumer_group),
    ):
        names = sorted(name for name, row in listed.items() if (row.group_type or GroupType.CLASSIC) == group_type)
        for some in chunks(names, settings.groups_per_request):
            field = "groups" if group_type == GroupType.CLASSIC else "group_ids"
            for group in brokers.send(request(**{field: some}), node).groups:
                listed[group.group_id] = with_state(listed[group.group_id], group)
    return list(listed.values())


def listed_group(group: Any) -> SampledGroupState:
    """Returns the row of a group in a ListGroups response. Brokers before 3.0 send no state, and those before 4.0 no
    type."""
    return SampledGroupState(
        group.group_id,
        group_type=(group.group_type or "").lower() or None,
        state=group.group_state or None,
        protocol_type=group.protocol_type,
    )


def classic_group(listed: SampledGroupState, group: Any) -> SampledGroupState:
    if group.error_code:
        return replace(listed, error=error_name(for_code(group.error_code)))
    topics = set[str]()
    for member in group.members:
        topics.update(subscribed_topics(group.protocol_type, member.member_metadata))
    return replace(
        listed,
        group_type=GroupType.CLASSIC,
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        member_count=len(group.members),
        subscribed_topics=tuple(sorted(topics)),
    )


def subscribed_topics(protocol_type: str, metadata: bytes) -> Iterable[str]:
    """Returns the topics in a member's subscription. Its bytes come from the client: if they are damaged or of another
    protocol, returns no topics."""
    if protocol_type != "consumer" or not metadata:
        return ()
    try:
        return tuple(read_subscription(bytes(metadata)).fields["topics"])
    except DecodeError:
        return ()


def consumer_group(listed: SampledGroupState, group: Any) -> SampledGroupState:
    if group.error_code:
        return replace(listed, error=error_name(for_code(group.error_code)))
    return replace(
        listed,
        group_type=GroupType.CONSUMER,
        state=group.group_state,
        protocol=group.assignor_name,
        member_count=len(group.members),
        group_epoch=group.group_epoch,
        subscribed_topics=tuple(sorted({name for member in group.members for name in member.subscribed_topic_names})),
    )
