"""Every row of the tables of reactions shows in the next requests and log lines of a real group's member."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.client.events import (
    ClientError,
    CommitFailed,
    CoordinatorUnknown,
    FatalError,
    Fenced,
    Lost,
    OffsetReset,
)
from groupledger.coordinator.client.fetch_state import FetchState
from groupledger.coordinator.client.messages import FetchRequest, FindCoordinatorRequest, MetadataRequest
from groupledger.coordinator.client.reactions import REACTIONS, UNEXPECTED, Reset, Then, exception_name, reaction_to
from groupledger.coordinator.model.messages import (
    FetchedGroup,
    FetchedOffset,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Request,
    SyncGroupRequest,
)
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.coordinator.client.reactions import Reaction

RANGE = {"assignors": ("range",), "auto_offset_reset": "earliest"}


def rows(*apis: type[Request]) -> list[Any]:
    """Each row of these tables, and one error that they lack."""
    return [
        pytest.param(api, error, id=f"{api.__name__}-{error.name}")
        for api in apis
        for error in (*REACTIONS[api], Error.NON_EMPTY_GROUP)
    ]


def assert_rediscovers(application: Any, reaction: Reaction) -> None:
    assert bool(application.seen(CoordinatorUnknown)) == reaction.rediscover
    assert bool(application.requests(FindCoordinatorRequest)) == reaction.rediscover


def test_every_table_has_a_row_for_the_unexpected() -> None:
    """Goal: no error is without a reaction."""
    assert REACTIONS.keys() == UNEXPECTED.keys()
    assert all(reaction_to(Error.NON_EMPTY_GROUP, api) is UNEXPECTED[api] for api in REACTIONS)


@pytest.mark.parametrize(("api", "error"), rows(JoinGroupRequest, SyncGroupRequest))
def test_join_and_sync(cluster: Any, api: type[Request], error: Error) -> None:
    """Goal: a member that gets an error when it rejoins joins again at the time, with the id and with the reason of the
    table."""
    reaction = reaction_to(error, api)
    member = cluster.start("a", **RANGE)
    cluster.run(1_000)
    cluster.start("b", **RANGE)
    cluster.run()
    member_id = member.consumer.member_id
    member.forget()
    answer = JoinGroupResponse(0, error=error, member_id="given") if error is Error.MEMBER_ID_REQUIRED else error
    cluster.script(api, answer)
    cluster.run(2_500)

    failed, following = member.requests(JoinGroupRequest)[:2]
    first_ms, next_ms = member.times(JoinGroupRequest)[:2]
    if reaction.then is not Then.RAISE:  # else the application decides when to poll again
        assert next_ms - first_ms == (100 if reaction.then is Then.BACK_OFF else 0)
    assert failed.member_id == member_id
    assert_rediscovers(member, reaction)
    assert [one.error for one in member.seen(FatalError)] == ([error] if reaction.then is Then.RAISE else [])
    assert bool(member.seen(Fenced)) == (error is Error.FENCED_INSTANCE_ID)
    if error is Error.MEMBER_ID_REQUIRED and api is JoinGroupRequest:
        assert following.reason == "need to re-join with the given member-id: given"
        assert following.member_id == "given"
    else:
        assert following.reason == f"rebalance failed due to {exception_name(error, api)}"
        assert following.member_id == ("" if reaction.reset is Reset.MEMBER else member_id)


@pytest.mark.parametrize(("api", "error"), rows(HeartbeatRequest))
def test_heartbeat(cluster: Any, api: type[Request], error: Error) -> None:
    """Goal: the heartbeat thread alone keeps, leaves or loses the membership; partitions of a lost one are lost."""
    reaction = reaction_to(error, api)
    member = cluster.start("a", **RANGE)
    cluster.run(2_000)
    member_id = member.consumer.member_id
    member.forget()
    cluster.script(api, error)
    cluster.run(1_200)

    assert_rediscovers(member, reaction)
    assert bool(member.seen(Lost)) == (reaction.reset is not Reset.NOTHING)
    assert bool(member.seen(FatalError)) == bool(member.seen(Fenced)) == (reaction.then is Then.RAISE)
    if reaction.reset is not Reset.NOTHING:
        joined = member.requests(JoinGroupRequest)[0]
        assert joined.reason == f"encountered {error.name} from HEARTBEAT response"
        assert joined.member_id == ("" if reaction.reset is Reset.MEMBER else member_id)
    elif reaction.then is Then.IGNORE:
        assert member.requests(JoinGroupRequest)[0].reason == "group is already rebalancing"
    else:
        first_ms, next_ms = member.times(HeartbeatRequest)
        assert next_ms - first_ms == 100
        assert member.requests(JoinGroupRequest) == []


@pytest.mark.parametrize(("api", "error"), rows(OffsetCommitRequest))
def test_offset_commit(cluster: Any, api: type[Request], error: Error) -> None:
    """Goal: a commit fails once, says whether it may be repeated, and the membership follows the error."""
    reaction = reaction_to(error, api)
    member = cluster.start("a", enable_auto_commit=False, **RANGE)
    cluster.run(1_000)
    member_id, generation_id = member.consumer.member_id, member.consumer.generation_id
    member.forget()
    cluster.script(api, error)
    member.consumer.commit(cluster.now_ms)
    cluster.run()

    (failed,) = member.seen(CommitFailed)
    assert (failed.error, failed.generation_id, failed.member_id) == (error, generation_id, member_id)
    assert (failed.was_sent, failed.is_retriable) == (True, reaction.then is Then.BACK_OFF)
    assert len(member.requests(OffsetCommitRequest)) == 1
    assert_rediscovers(member, reaction)
    reasons = [request.reason for request in member.requests(JoinGroupRequest)]
    if error is Error.REBALANCE_IN_PROGRESS:
        assert reasons == ["offset commit failed since group is already rebalancing"]
    elif reaction.reset is Reset.NOTHING:
        assert reasons == []
    else:
        assert reasons[0] == f"encountered {error.name} from OFFSET_COMMIT response"
        assert member.requests(JoinGroupRequest)[0].member_id == ("" if reaction.reset is Reset.MEMBER else member_id)
        assert len(member.seen(Lost)) == 1
    is_fenced = error is Error.FENCED_INSTANCE_ID
    assert bool(member.seen(Fenced)) == is_fenced
    fatal = len(member.seen(FatalError))
    cluster.run(1_000)
    assert (len(member.seen(FatalError)) > fatal) == is_fenced  # this one never ends


@pytest.mark.parametrize(("api", "error"), rows(OffsetFetchRequest))
def test_offset_fetch(cluster: Any, api: type[Request], error: Error) -> None:
    """Goal: the question for committed offsets is repeated with backoff, or poll throws."""
    reaction = reaction_to(error, api)
    member = cluster.start("a", **RANGE)
    cluster.script(api, error, error)
    cluster.run(1_000)
    assert [one.error for one in member.seen(FatalError)] == ([error] * 2 if reaction.then is Then.RAISE else [])
    first_ms, second_ms, third_ms = member.times(OffsetFetchRequest)
    assert (second_ms - first_ms, third_ms - second_ms) == (100, 200)
    assert len(member.seen(CoordinatorUnknown)) == (2 if reaction.rediscover else 0)
    assert member.consumer.fetch_state("payments", 0) is FetchState.FETCHING


@pytest.mark.parametrize("strategy", ["earliest", "none"])
@pytest.mark.parametrize(("api", "error"), rows(FetchRequest))
def test_fetch(cluster: Any, api: type[Request], error: Error, strategy: str) -> None:
    """Goal: a fetch that fails asks for metadata and is repeated, or begins elsewhere, or poll throws."""
    reaction = reaction_to(error, api)
    cluster.topic("payments", 1, end=10)
    member = cluster.start("a", assignors=("range",), auto_offset_reset=strategy)
    if strategy == "none":
        cluster.script(OffsetFetchRequest, committed_at_zero())
    cluster.script(api, error)
    cluster.run(300)
    raised = {one.error for one in member.seen(FatalError)}
    if reaction.then is Then.GIVE_UP and strategy == "earliest":
        assert len(member.seen(OffsetReset)) == 12  # six at the start, and six again
    elif reaction.then is Then.BACK_OFF:
        assert len(member.requests(MetadataRequest)) == 2
    else:
        assert raised == {error}
        return
    assert raised == set()


def committed_at_zero() -> Any:
    offsets = tuple(FetchedOffset(topic="payments", partition=number, offset=0) for number in range(6))
    return OffsetFetchResponse(0, (FetchedGroup("group", Error.NONE, offsets),))


@pytest.mark.parametrize("error", [Error.GROUP_AUTHORIZATION_FAILED, Error.INVALID_GROUP_ID])
def test_find_coordinator_fails_for_good(cluster: Any, error: Error) -> None:
    """Goal: poll throws, and the next one asks again."""
    cluster.script(FindCoordinatorRequest, error)
    member = cluster.start("a")
    cluster.run(1_000)
    assert [one.error for one in member.seen(FatalError)] == [error]
    assert len(member.requests(FindCoordinatorRequest)) == 2


@pytest.mark.parametrize("answer", [Error.COORDINATOR_NOT_AVAILABLE, "the connection is lost"])
def test_find_coordinator_is_repeated_with_backoff(cluster: Any, answer: Error | str) -> None:
    """Goal: discovery backs off exponentially, to retry.backoff.max.ms."""
    cluster.script(FindCoordinatorRequest, *[answer] * 6)
    member = cluster.start("a")
    cluster.run(10_000)
    times = member.times(FindCoordinatorRequest)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == [100, 200, 400, 800, 1_000, 1_000]
    assert member.partitions == [0, 1, 2, 3, 4, 5]


def test_exception_names() -> None:
    """Goal: the names that Java's exceptions have, which are not all made from the error's name."""
    names = {error: exception_name(error, JoinGroupRequest) for error in REACTIONS[JoinGroupRequest]}
    assert names[Error.UNKNOWN_MEMBER_ID] == "UnknownMemberIdException"
    assert names[Error.GROUP_AUTHORIZATION_FAILED] == "GroupAuthorizationException"
    assert exception_name(Error.COORDINATOR_LOAD_IN_PROGRESS, SyncGroupRequest) == "KafkaException"
    assert str(ClientError(None, "why")) == "why"
