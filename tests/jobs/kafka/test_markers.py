"""Goal: markers before the end are distinguished from records, and each end is asked about once."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import NotLeaderForPartitionError, TopicAuthorizationFailedError
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.metadata.metadata import MetadataResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from groupledger.jobs.kafka.markers import FETCH_BYTES, Markers, markers_before
from groupledger.jobs.kafka.sampling import SampledRound, SampledWatermark
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.lag.rules.resting import Resting, resting_places
from tests.transforms.lag.rules.test_scaling import row

SETTINGS = load_settings().sampling.model_copy(update={"retry_backoff_ms": 1})
CONTROL_BIT = 0x20
ATTRIBUTES = 21, 23  # the bytes of the batch


def batch(offset: int, count: int = 1, *, is_marker: bool = False, size: int = 1) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, int(is_marker), 1, 0, 0, 1 << 20)
    for number in range(count):
        builder.append(number, 0, None, b"x" * size, [])
    made = bytearray(builder.build())
    made[:8] = offset.to_bytes(8, "big")
    if is_marker:
        attributes = int.from_bytes(made[slice(*ATTRIBUTES)], "big") | CONTROL_BIT
        made[slice(*ATTRIBUTES)] = attributes.to_bytes(2, "big")
    return bytes(made)


def marker(offset: int) -> bytes:
    return batch(offset, is_marker=True)


@pytest.mark.parametrize(
    ("batches", "end", "expected"),
    [
        ([batch(3), marker(4)], 5, 1),
        ([marker(4)], 5, 1),
        ([batch(2), marker(3), marker(4)], 5, 2),
        ([marker(2), batch(3), marker(4)], 5, 1),
        ([marker(3), batch(4)], 5, 0),
        ([batch(0, 5)], 5, 0),
        ([batch(3), marker(4), batch(5)], 5, 1),  # after it a transaction is open
        ([batch(3), marker(4)[:-9]], 5, None),  # cut
        ([batch(3)], 5, None),
        ([], 5, None),
    ],
)
def test_markers_before_an_end(batches: list[bytes], end: int, expected: int | None) -> None:
    """Goal: the markers right before the end are counted, and their number is unknown if the batches don't reach the
    end."""
    assert markers_before(b"".join(batches), end) == expected


class Leader:
    """One broker, whose partitions have these batches; what is larger than asked for comes for the first one only.
    `errors` are returned for a partition once."""

    def __init__(self, logs: dict[int, list[bytes]], errors: dict[int, int] | None = None) -> None:
        self.logs, self.errors, self.asked = logs, errors or {}, list[dict[int, int]]()

    def nodes(self) -> list[int]:
        return [1]

    def send(self, request: Any, node: int | None = None) -> Any:
        return getattr(self, type(request).__name__)(request, node)

    def MetadataRequest(self, request: Any, _node: int | None) -> Any:  # noqa: N802 - the message's own name
        topic = MetadataResponse.MetadataResponseTopic
        partitions = [topic.MetadataResponsePartition(partition_index=each, leader_id=1) for each in self.logs]
        return MetadataResponse(
            topics=[topic(error_code=0, name=each.name, partitions=partitions) for each in request.topics]
        )

    def FetchRequest(self, request: Any, _node: int) -> Any:  # noqa: N802
        (topic,) = request.topics
        self.asked.append({each.partition: each.fetch_offset for each in topic.partitions})
        answer, reported, room = FetchResponse.FetchableTopicResponse, [], request.max_bytes
        for number, each in enumerate(topic.partitions):
            log = [made for made in self.logs[each.partition] if _last_offset(made) >= each.fetch_offset]
            size = max(FETCH_BYTES, len(log[0]) if log and not number else 0)
            records = b"".join(log)[: min(size, room)]
            records = records if not log or len(records) >= len(log[0]) else b""
            room -= len(records)
            code = self.errors.pop(each.partition, 0)
            reported.append(answer.PartitionData(partition_index=each.partition, error_code=code, records=records))
        return FetchResponse(responses=[answer(topic=topic.topic, partitions=reported)])


def _last_offset(made: bytes) -> int:
    return int.from_bytes(made[:8], "big") + int.from_bytes(made[23:27], "big")


def sampled(*ends: tuple[int, int]) -> SampledRound:
    rows = (SampledWatermark("t", partition, 0, end, end, 1, "id") for partition, end in ends)
    return SampledRound(1, tuple(rows), (), {}, {})


def resting(*places: tuple[int, int, int]) -> dict[TopicPartition, Resting]:
    return {TopicPartition("t", partition): Resting(committed, end) for partition, committed, end in places}


def test_each_end_is_asked_about_once() -> None:
    """Goal: all partitions where a group rests are asked about in one request; a further one asks only about ends that
    have moved; a batch that is too large holds records, and hides no marker after it."""
    big = batch(3, size=3 * FETCH_BYTES)
    leader = Leader({0: [batch(3), marker(4)], 1: [batch(4)], 2: [big, marker(4)], 3: [batch(4, size=3 * FETCH_BYTES)]})
    markers, where = Markers(), resting((0, 4, 5), (1, 4, 5), (2, 3, 5), (3, 4, 5), (9, 4, 5))
    for _ in range(3):
        found = markers.add_to(sampled((0, 5), (1, 5), (2, 5), (3, 5)), where, leader, SETTINGS)
        assert [row.markers_at_end for row in found.watermarks] == [1, 0, 1, 0]
    assert leader.asked == [{0: 4, 1: 4, 2: 3, 3: 4}, {2: 4, 3: 4}]
    leader.logs[0] += [batch(5), marker(6)]
    found = markers.add_to(sampled((0, 7), (1, 5)), resting((0, 6, 7), (1, 4, 5)), leader, SETTINGS)
    assert [row.markers_at_end for row in found.watermarks] == [1, 0]
    assert leader.asked[2:] == [{0: 6}]


def test_an_end_that_moves_is_not_asked_about() -> None:
    """Goal: a consumer that goes on costs nothing."""
    leader = Leader({0: [marker(4)]})
    found = Markers().add_to(sampled((0, 9)), resting((0, 4, 5)), leader, SETTINGS)
    assert (found.watermarks[0].markers_at_end, leader.asked) == (None, [])


def test_a_leader_that_does_not_say() -> None:
    """Goal: one that has moved is asked again in the next round; one that refuses is not, and markers stay unknown."""
    markers, where = Markers(), resting((0, 4, 5), (1, 4, 5))
    errors = {0: NotLeaderForPartitionError.errno, 1: TopicAuthorizationFailedError.errno}
    leader = Leader({0: [marker(4)], 1: [marker(4)]}, errors)
    first, second = (markers.add_to(sampled((0, 5), (1, 5)), where, leader, SETTINGS) for _ in range(2))
    assert [row.markers_at_end for row in first.watermarks] == [None, None]
    assert [row.markers_at_end for row in second.watermarks] == [1, None]
    assert leader.asked == [{0: 4, 1: 4}, {0: 4}]


def test_where_groups_rest() -> None:
    """Goal: the group furthest from the end decides from where to read; a group that is far away, at the end, or passed
    by retention is not at rest before markers."""
    ends = {"last_stable_offset": 100, "log_start_offset": 10}
    rows = [
        *(row(0, 1, committed_offset=each, **ends) for each in (99, 97, 100)),
        row(1, 1, committed_offset=50, **ends),
        row(2, 1, committed_offset=99, last_stable_offset=100, log_start_offset=100),
        row(3, None),
    ]
    assert resting_places(rows) == {TopicPartition("t", 0): Resting(97, 100)}
