"""The fetch states of a partition: their table, and every way through them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.client.events import FatalError, OffsetReset
from groupledger.coordinator.client.fetch_state import VALID_NEXT_STATES, FetchState, Leader, PartitionState, Position
from groupledger.coordinator.client.messages import (
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    ListedOffset,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
)
from groupledger.coordinator.model.messages import FetchedGroup, FetchedOffset, OffsetFetchRequest, OffsetFetchResponse
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable

LEADER = Leader(1, 0)
INITIALIZING, FETCHING, AWAITING_RESET, AWAITING_VALIDATION = FetchState

ENTER: dict[FetchState, Callable[[PartitionState], None]] = {
    INITIALIZING: lambda _: None,
    FETCHING: lambda state: state.seek_validated(Position(5, None, LEADER)),
    AWAITING_RESET: lambda state: state.request_reset("latest"),
    AWAITING_VALIDATION: lambda state: state._validate(Position(5, 3, LEADER)),
}


@pytest.mark.parametrize(("before", "after"), [*itertools.product(FetchState, FetchState)])
def test_transition(before: FetchState, after: FetchState) -> None:
    """Goal: a transition of the table happens; any other one leaves the state and the position as they were."""
    state = PartitionState()
    ENTER[before](state)
    assert state.fetch_state is before
    position = state.position
    ENTER[after](state)
    if after in VALID_NEXT_STATES[before]:
        assert state.fetch_state is after
    elif after is not INITIALIZING:
        assert (state.fetch_state, state.position) == (before, position)
    assert (state.position is not None) == (state.fetch_state in (FETCHING, AWAITING_VALIDATION))


def committed(*offsets: tuple[int, int], error: Error = Error.NONE) -> OffsetFetchResponse:
    """(offset, leader epoch) of partitions 0, 1, ..."""
    found = (
        FetchedOffset(topic="payments", partition=number, offset=offset, leader_epoch=epoch, error=error)
        for number, (offset, epoch) in enumerate(offsets)
    )
    return OffsetFetchResponse(0, (FetchedGroup("group", Error.NONE, tuple(found)),))


@pytest.fixture
def one_partition(new_cluster: Any) -> Any:
    cluster = new_cluster()
    cluster.topic("payments", 1, start=10, end=20)
    return cluster


@pytest.mark.parametrize(("strategy", "offset"), [("earliest", 10), ("latest", 20)])
def test_reset(one_partition: Any, strategy: str, offset: int) -> None:
    """Goal: a partition without a committed offset begins at the log's first or last offset, by ListOffsets."""
    member = one_partition.start("a", auto_offset_reset=strategy)
    one_partition.run()
    assert member.seen(OffsetReset) == [
        OffsetReset(one_partition.now_ms, topic="payments", partition=0, offset=offset, strategy=strategy)
    ]
    assert len(member.requests(ListOffsetsRequest)) == 1
    assert member.requests(OffsetForLeaderEpochRequest) == []
    assert member.consumer.fetch_state("payments", 0) is FETCHING


def test_no_reset(one_partition: Any) -> None:
    """Goal: with auto.offset.reset none every poll throws, and the partition stays where it is."""
    member = one_partition.start("a", auto_offset_reset="none")
    one_partition.run(3_000)
    assert len(member.seen(FatalError)) > 1
    assert {one.partitions for one in member.seen(FatalError)} == {(("payments", 0),)}
    assert member.consumer.fetch_state("payments", 0) is INITIALIZING
    assert member.consumer.position("payments", 0) is None


def test_committed_offset_with_an_epoch_is_validated(one_partition: Any, silence: str) -> None:
    """Goal: a committed offset with an epoch was committed in some leader's time, so the leader is asked before
    anything is fetched or committed."""
    one_partition.script(OffsetFetchRequest, committed((15, 0)))
    one_partition.script(OffsetForLeaderEpochRequest, silence)
    member = one_partition.start("a")
    one_partition.run()
    assert member.consumer.fetch_state("payments", 0) is AWAITING_VALIDATION
    assert member.consumer.position("payments", 0) == 15
    assert member.requests(FetchRequest) == []
    one_partition.run(31_000)  # the question times out, and is repeated
    assert member.consumer.fetch_state("payments", 0) is FETCHING
    assert member.polled[0].from_offset == 15


def test_committed_offset_without_an_epoch_is_taken_as_it_is(one_partition: Any) -> None:
    """Goal: a committed offset without an epoch is taken as it is, since there is nothing to compare: an older client
    committed it, or an administrator."""
    one_partition.script(OffsetFetchRequest, committed((15, -1)))
    member = one_partition.start("a")
    one_partition.run()
    assert member.requests(OffsetForLeaderEpochRequest) == []
    assert [(one.from_offset, one.to_offset) for one in member.polled] == [(15, 20)]


def new_leader(cluster: Any, member: Any) -> None:
    """The leader changes, and the member hears of it with a failed fetch."""
    before = len(member.requests(MetadataRequest))
    cluster.broker.leader_epoch += 1
    cluster.script(FetchRequest, Error.NOT_LEADER_OR_FOLLOWER)
    cluster.run(1_000)
    assert len(member.requests(MetadataRequest)) == before + 1


def test_leader_change_is_validated(one_partition: Any) -> None:
    """Goal: a position that records led to is compared with the new leader's log, and goes on if it is in it."""
    member = one_partition.start("a", auto_offset_reset="earliest")
    one_partition.run(100)
    assert member.consumer.position("payments", 0) == 20
    new_leader(one_partition, member)
    (asked,) = member.requests(OffsetForLeaderEpochRequest)[-1].partitions
    assert (asked.leader_epoch, asked.current_leader_epoch) == (0, 1)
    assert member.consumer.fetch_state("payments", 0) is FETCHING
    assert member.consumer.position("payments", 0) == 20
    assert member.requests(FetchRequest)[-1].partitions[0].current_leader_epoch == 1


@pytest.mark.parametrize(("epoch_end", "position"), [(17, 17), (-1, 10)])
def test_truncated_log(one_partition: Any, epoch_end: int, position: int) -> None:
    """Goal: a position beyond the end of its epoch goes back to that end; of an epoch nobody knows, it is reset."""
    member = one_partition.start("a", auto_offset_reset="earliest")
    one_partition.run(100)
    one_partition.broker.epoch_ends["payments", 0] = epoch_end
    member.forget()
    new_leader(one_partition, member)
    assert member.polled[0].from_offset == position


def test_truncated_log_without_a_reset_policy(one_partition: Any) -> None:
    """Goal: poll throws instead of going back by itself."""
    one_partition.script(OffsetFetchRequest, committed((15, 0)))
    one_partition.broker.epoch_ends["payments", 0] = 12
    member = one_partition.start("a", auto_offset_reset="none")
    one_partition.run(1_000)
    assert [one.partitions for one in member.seen(FatalError)] == [(("payments", 0),)]
    assert member.consumer.fetch_state("payments", 0) is AWAITING_VALIDATION


def test_out_of_range(one_partition: Any) -> None:
    """Goal: the log moved on beyond the committed offset: the position is reset, and only then reported."""
    one_partition.script(OffsetFetchRequest, committed((3, -1)))
    member = one_partition.start("a", auto_offset_reset="earliest")
    one_partition.run()
    assert [one.offset for one in member.seen(OffsetReset)] == [10]
    assert [(one.from_offset, one.to_offset) for one in member.polled] == [(10, 20)]


@pytest.mark.parametrize("answer", [Error.NOT_LEADER_OR_FOLLOWER, "the connection is lost"])
def test_failed_look_up_is_repeated(one_partition: Any, answer: Error | str) -> None:
    """Goal: ListOffsets backs off by retry.backoff.ms and asks for metadata."""
    one_partition.script(ListOffsetsRequest, answer)
    member = one_partition.start("a", auto_offset_reset="earliest")
    one_partition.run(500)
    times = member.times(ListOffsetsRequest)
    assert [time - times[0] for time in times] == [0, 100]
    assert len(member.requests(MetadataRequest)) == 2
    assert member.polled[0].from_offset == 10


def test_open_transaction_holds_the_committed_offset_back(one_partition: Any) -> None:
    """Goal: UNSTABLE_OFFSET_COMMIT is asked again until the transaction ends; require_stable is always set."""
    unstable = committed((-1, -1), error=Error.UNSTABLE_OFFSET_COMMIT)
    one_partition.script(OffsetFetchRequest, unstable, unstable, committed((12, -1)))
    member = one_partition.start("a")
    one_partition.run(500)
    assert len(member.requests(OffsetFetchRequest)) == 3
    assert all(request.require_stable for request in member.requests(OffsetFetchRequest))
    assert member.polled[0].from_offset == 12


def test_max_poll_records(one_partition: Any) -> None:
    """Goal: one fetch is handed out over several polls, and nothing more is fetched meanwhile."""
    member = one_partition.start("a", auto_offset_reset="earliest", max_poll_records=4)
    member.is_polling = False
    for _ in range(12):
        member.poll()
        one_partition.run()
    assert [(one.from_offset, one.to_offset) for one in member.polled] == [(10, 14), (14, 18), (18, 20)]
    assert [request.partitions[0].fetch_offset for request in member.requests(FetchRequest)] == [10, 20]


def test_records_of_a_partition_that_was_given_up_are_dropped(one_partition: Any, silence: str) -> None:
    """Goal: a fetch that is answered after the revocation returns nothing to the application."""
    member = one_partition.start("a", auto_offset_reset="earliest")
    one_partition.script(FetchRequest, silence)
    one_partition.run()
    (request,) = member.requests(FetchRequest)
    member.consumer.subscribe([], one_partition.now_ms)
    one_partition.run()
    one_partition.respond(
        member,
        FetchResponse(
            request.request_id,
            (FetchedPartition(topic="payments", partition=0, next_offset=20, high_watermark=20, leader_epoch=0),),
        ),
    )
    one_partition.run()
    assert member.polled == []
    assert member.consumer.position("payments", 0) is None
    assert member.consumer.fetch_state("payments", 0) is None


def test_partition_without_a_leader(new_cluster: Any) -> None:
    """Goal: the broker is asked nothing about a partition without a leader until metadata names one; the other
    partitions are read meanwhile, and a position without a leader to fetch from waits too."""
    cluster = new_cluster()
    cluster.topic("payments", 3, end=5)
    cluster.broker.leaderless = (("payments", 1), ("payments", 2))
    cluster.script(OffsetFetchRequest, committed((0, -1), (-1, -1), (2, -1)))
    member = cluster.start("a", auto_offset_reset="earliest")
    cluster.run(2_000)
    assert {one.partition for one in member.polled} == {0}
    assert member.consumer.fetch_state("payments", 1) is AWAITING_RESET
    assert member.consumer.position("payments", 2) == 2
    cluster.broker.leaderless = ()
    cluster.run(2_000)
    assert [(one.partition, one.from_offset) for one in member.polled] == [(0, 0), (1, 0), (2, 2)]


def test_lost_question_for_committed_offsets(one_partition: Any, lost: str) -> None:
    """Goal: the coordinator is looked up again, and asked again after the backoff."""
    one_partition.script(OffsetFetchRequest, lost)
    member = one_partition.start("a", auto_offset_reset="earliest")
    one_partition.run(500)
    times = member.times(OffsetFetchRequest)
    assert [time - times[0] for time in times] == [0, 100]
    assert member.polled[0].from_offset == 10


def test_forbidden_look_up(one_partition: Any) -> None:
    """Goal: poll throws what ListOffsets was refused with."""
    one_partition.script(ListOffsetsRequest, Error.TOPIC_AUTHORIZATION_FAILED)
    member = one_partition.start("a")
    one_partition.run(500)
    (fatal,) = member.seen(FatalError)
    assert (fatal.error, fatal.partitions) == (Error.TOPIC_AUTHORIZATION_FAILED, (("payments", 0),))


def test_answer_about_a_partition_that_was_given_up(one_partition: Any, silence: str) -> None:
    """Goal: an offset that comes after the partition was lost and given again does not become its position."""
    one_partition.script(ListOffsetsRequest, silence)
    member = one_partition.start("a")
    one_partition.run()
    (request,) = member.requests(ListOffsetsRequest)
    member.consumer.subscribe([], one_partition.now_ms)
    one_partition.run()
    member.consumer.subscribe(["payments"], one_partition.now_ms)
    one_partition.run(1_000)
    found = ListOffsetsResponse(request.request_id, (ListedOffset(topic="payments", partition=0, offset=4),))
    one_partition.respond(member, found)
    one_partition.run()
    assert member.consumer.position("payments", 0) == 20


def test_records_before_an_error_are_handed_out_first(new_cluster: Any) -> None:
    """Goal: poll does not throw while it has something to return."""
    cluster = new_cluster()
    cluster.topic("payments", 2)
    partitions = (
        FetchedPartition(topic="payments", partition=0, next_offset=3, high_watermark=3, leader_epoch=0),
        FetchedPartition(topic="payments", partition=1, error=Error.TOPIC_AUTHORIZATION_FAILED),
    )
    cluster.script(FetchRequest, FetchResponse(0, partitions))
    member = cluster.start("a", auto_offset_reset="earliest")
    member.is_polling = False
    while not member.polled:
        member.poll()
        cluster.run()
    assert member.seen(FatalError) == []
    member.poll()
    cluster.run()
    assert [one.error for one in member.seen(FatalError)] == [Error.TOPIC_AUTHORIZATION_FAILED]
