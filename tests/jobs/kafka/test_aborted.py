"""Goal: the job finds out, with few reads, that only records of aborted transactions are left, also while more of them
come; a single committed record ends the claim."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import TopicAuthorizationFailedError
from kafka.protocol.consumer import FetchResponse

from groupledger.jobs.kafka.aborted import AbortedRecords, unreadable_until
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import LagFlag
from groupledger.transforms.lag.rules.resting import standing_places
from tests.jobs.kafka.test_markers import SETTINGS, Leader, batch, marker, sampled
from tests.transforms.lag.rules.test_scaling import row

TRANSACTIONAL_BIT, PRODUCER = 0x10, slice(43, 51)
Aborted = FetchResponse.FetchableTopicResponse.PartitionData.AbortedTransaction


def of(producer: int, made: bytes, *, is_transactional: bool = True) -> bytes:
    changed = bytearray(made)
    changed[PRODUCER] = producer.to_bytes(8, "big")
    changed[22] |= TRANSACTIONAL_BIT * is_transactional
    return bytes(changed)


def aborted(producer: int, first_offset: int) -> Any:
    return Aborted(producer_id=producer, first_offset=first_offset)


@pytest.mark.parametrize(
    ("start", "batches", "aborted_at", "expected"),
    [
        (3, [of(1, batch(3, 2)), of(1, marker(5))], [aborted(1, 3)], (6, False)),
        (3, [of(1, batch(3, 2)), of(1, marker(5))], [], (3, True)),  # it was committed
        (4, [of(1, batch(3, 2)), of(1, marker(5))], [aborted(1, 3)], (6, False)),  # within a batch
        (3, [of(1, batch(3)), batch(4), of(1, marker(5))], [aborted(1, 3)], (4, True)),
        (3, [of(1, batch(3)), of(2, batch(4)), of(1, marker(5)), of(2, marker(6))], [aborted(1, 3)], (4, True)),
        # The same producer aborts, and then commits.
        (3, [of(1, batch(3)), of(1, marker(4)), of(1, batch(5)), of(1, marker(6))], [aborted(1, 3)], (5, True)),
        (3, [of(1, batch(3)), of(1, marker(4)), of(1, batch(5))], [aborted(1, 3), aborted(1, 5)], (6, False)),
        (3, [of(1, batch(3)), of(1, batch(4))[:-9]], [aborted(1, 3)], (4, False)),  # cut
        (3, [of(1, batch(3), is_transactional=False)], [aborted(1, 3)], (3, True)),
        (3, [marker(3)], [], (4, False)),
        (3, [], [], (3, False)),
    ],
)
def test_how_far_nothing_can_be_read(
    start: int, batches: list[bytes], aborted_at: list[Any], expected: tuple[int, bool]
) -> None:
    assert unreadable_until(start, b"".join(batches), aborted_at) == expected


class Transactions(Leader):
    """A leader whose partition 0 has transactions of producer 1, all of them aborted."""

    def FetchRequest(self, request: Any, node: int) -> Any:  # noqa: N802 - the message's own name
        answer = super().FetchRequest(request, node)
        for of_partition in answer.responses[0].partitions:
            of_partition.aborted_transactions = [aborted(1, 0)]
        return answer


def test_it_goes_on_reading_where_it_stopped() -> None:
    """Goal: each offset is read once, while nothing moves nothing is, and a committed record ends it."""
    leader, found, place = Transactions({0: [of(1, batch(3))]}), AbortedRecords(), TopicPartition("t", 0)

    def stuck_at(end: int, committed: int) -> int | None:
        return found.add_to(sampled((0, end)), {place: committed}, leader, SETTINGS).watermarks[0].markers_at_end

    assert [stuck_at(4, 3), stuck_at(4, 3)] == [1, 1]
    leader.logs[0] += [of(1, batch(4)), of(1, batch(5))]
    assert stuck_at(6, 3) == 3
    assert stuck_at(6, 5) == 3  # of another group, which stands there
    leader.logs[0] += [batch(6)]
    assert [stuck_at(7, 3), stuck_at(7, 3)] == [None, None]
    assert leader.asked == [{0: 3}, {0: 4}, {0: 6}]
    leader.logs[0] += [of(1, batch(7))]
    assert stuck_at(8, 7) == 1
    assert stuck_at(8, 8) is None


def test_a_topic_that_may_not_be_read() -> None:
    """Goal: a leader that refuses is asked once."""
    leader = Transactions({0: [of(1, batch(3))]}, {0: TopicAuthorizationFailedError.errno})
    found, standing = AbortedRecords(), {TopicPartition("t", 0): 3}
    rounds = [found.add_to(sampled((0, 4)), standing, leader, SETTINGS) for _ in range(2)]
    assert [each.watermarks[0].markers_at_end for each in rounds] == [None, None]
    assert len(leader.asked) == 1


def test_where_groups_stand() -> None:
    """Goal: the group closest to the end decides; a group that has moved since the round before is left out."""
    ends = {"last_stable_offset": 1_000, "log_start_offset": 10, "sampled_at_ms": 60_000}
    stands = {"no_progress_since_ms": 30_000, **ends}
    rows = [
        *(row(0, 500, committed_offset=each, **stands) for each in (400, 500)),
        row(0, 1, committed_offset=999, no_progress_since_ms=60_000, **ends),
        row(1, 0, committed_offset=700, flags=(LagFlag.TRANSACTION_MARKERS_ONLY,), **ends),
        row(2, 0, committed_offset=1_000, **stands),
        row(3, 990, committed_offset=5, **stands),
    ]
    assert standing_places(rows) == {TopicPartition("t", 0): 500, TopicPartition("t", 1): 700}
