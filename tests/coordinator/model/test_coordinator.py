"""The broker's side of the coordinator decides which requests reach a partition, and answers the others."""

from collections.abc import Callable
from typing import Any

import pytest

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.errors import response_error_of_failed_append
from groupledger.coordinator.model.messages import (
    DeletedGroup,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetToCommit,
    Request,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkerRequest,
)
from groupledger.coordinator.offsets_partition import partition_for
from groupledger.schemas.codec.records import decode_record, encode_record
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from lab.scenarios.coordinator_driver import lead_all

PARTITION = partition_for("g", 50)
OFFSETS = (OffsetToCommit(topic="orders", partition=0, offset=1),)
RANGE = (("range", b""),)


def one_of_each(group_id: str = "g") -> list[Request]:
    return [
        JoinGroupRequest(
            1,
            group_id,
            member_id="m",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=RANGE,
            new_member_uuid="uuid",
        ),
        SyncGroupRequest(
            1,
            group_id,
            generation_id=1,
            member_id="m",
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
        ),
        HeartbeatRequest(1, group_id, generation_id=1, member_id="m"),
        LeaveGroupRequest(1, group_id, (LeavingMember("m"),)),
        OffsetCommitRequest(1, group_id, offsets=OFFSETS),
        TxnOffsetCommitRequest(1, group_id, producer_id=1, producer_epoch=0, offsets=OFFSETS),
        OffsetDeleteRequest(1, group_id, (TopicPartition("orders", 0),)),
        OffsetFetchRequest(1, (OffsetFetchGroup(group_id),)),
        DescribeGroupsRequest(1, (group_id,)),
        DeleteGroupsRequest(1, (group_id,)),
        ListGroupsRequest(1),
        WriteTxnMarkerRequest(1, partition=PARTITION, producer_id=1, producer_epoch=0, committed=True),
    ]


def errors(coordinator: Coordinator, requests: list[Request]) -> dict[str, Error]:
    """Each request's error, wherever its response holds it, by the API's name."""
    found = {}
    for request in requests:
        (response,) = coordinator.handle(request, now_ms=0).responses
        parts: Any = [response]
        for name in ("groups", "results", "partitions"):
            if not hasattr(response, "error"):
                parts = getattr(response, name, parts)
        found[type(request).__name__.removesuffix("Request")] = parts[0].error
    return found


def test_not_the_coordinator() -> None:
    """A partition that is not led; only ListGroups has nothing to refuse, and markers have errors of their own."""
    found = errors(Coordinator(), one_of_each())
    assert found.pop("ListGroups") is Error.NONE
    assert found.pop("WriteTxnMarker") is Error.NOT_LEADER_OR_FOLLOWER
    assert set(found.values()) == {Error.NOT_COORDINATOR}


def test_loading() -> None:
    """While the log is read everything is refused, but a heartbeat is given the benefit of the doubt."""
    coordinator = Coordinator()
    coordinator.start_loading(PARTITION)
    found = errors(coordinator, one_of_each())
    assert found.pop("Heartbeat") is Error.NONE
    assert found.pop("WriteTxnMarker") is Error.NOT_LEADER_OR_FOLLOWER
    assert set(found.values()) == {Error.COORDINATOR_LOAD_IN_PROGRESS}
    old_producer = TxnOffsetCommitRequest(1, "g", producer_id=1, producer_epoch=0, offsets=OFFSETS, api_version=1)
    assert errors(coordinator, [old_producer]) == {"TxnOffsetCommit": Error.COORDINATOR_NOT_AVAILABLE}
    coordinator.load(PARTITION, (), now_ms=0)
    assert errors(coordinator, one_of_each())["Heartbeat"] is Error.UNKNOWN_MEMBER_ID


def test_inactive() -> None:
    """Before startup and after shutdown nothing is answered but that."""
    coordinator = Coordinator()
    coordinator.load(PARTITION, (), now_ms=0)
    coordinator.is_active = False
    found = errors(coordinator, one_of_each())
    assert found.pop("WriteTxnMarker") is Error.NOT_LEADER_OR_FOLLOWER
    assert set(found.values()) == {Error.COORDINATOR_NOT_AVAILABLE}


def test_refused_joins_name_the_member_if_no_partition_was_asked() -> None:
    """Kafka repeats the member id in refusals of its service layer, not in refusals for a missing partition."""
    coordinator = Coordinator()
    refused: Any = coordinator.handle(one_of_each()[0], now_ms=0).responses[0]
    assert (refused.error, refused.member_id) == (Error.NOT_COORDINATOR, "")
    coordinator.is_active = False
    refused = coordinator.handle(one_of_each()[0], now_ms=0).responses[0]
    assert (refused.error, refused.member_id) == (Error.COORDINATOR_NOT_AVAILABLE, "m")


def test_empty_group_id() -> None:
    """Only offsets may be committed under the empty group id, and read, described and deleted."""
    coordinator = Coordinator()
    lead_all(coordinator, 0)
    found = errors(coordinator, one_of_each(""))
    refused = {name for name, error in found.items() if error is Error.INVALID_GROUP_ID}
    assert refused == {"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "TxnOffsetCommit", "OffsetDelete"}
    assert found["OffsetCommit"] is Error.NONE
    assert found["OffsetFetch"] is Error.NONE
    assert found["DeleteGroups"] is Error.NONE


@pytest.mark.parametrize(
    ("append_error", "message"),
    [
        (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.REQUEST_TIMED_OUT, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.KAFKA_STORAGE_ERROR, Error.NOT_COORDINATOR),
        (Error.MESSAGE_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
        (Error.RECORD_LIST_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
        (Error.INVALID_FETCH_SIZE, Error.UNKNOWN_SERVER_ERROR),
        (Error.INVALID_PRODUCER_EPOCH, Error.INVALID_PRODUCER_EPOCH),
    ],
)
def test_failed_append_is_reported_in_the_clients_terms(append_error: Error, message: Error) -> None:
    """The log's errors become the coordinator's; nothing of a failed operation stays."""
    assert response_error_of_failed_append(append_error) is message
    coordinator = Coordinator()
    lead_all(coordinator, 0)
    result = coordinator.handle(OffsetCommitRequest(1, "g", offsets=OFFSETS), now_ms=0, append_error=append_error)
    refused: Any = result.responses[0]
    assert [one.error for one in refused.partitions] == [message]
    assert result.batches == ()
    assert coordinator.group("g") is None


def test_failed_appends_of_other_apis(driver: Any) -> None:
    """Leaving, deleting and markers are refused as a whole; the offsets stay."""
    driver.commit()
    driver.fail_next_append(Error.NOT_ENOUGH_REPLICAS)
    deleted = driver.answer(DeleteGroupsRequest(driver.next_request_id(), (driver.group_id, "unknown")))
    assert {one.error for one in deleted.results} == {Error.COORDINATOR_NOT_AVAILABLE, Error.GROUP_ID_NOT_FOUND}
    driver.fail_next_append(Error.NOT_ENOUGH_REPLICAS)
    request = OffsetDeleteRequest(driver.next_request_id(), driver.group_id, (TopicPartition("orders", 0),))
    assert driver.answer(request).error is Error.COORDINATOR_NOT_AVAILABLE
    partition = driver.coordinator.partition_for(driver.group_id)
    driver.fail_next_append(Error.NOT_ENOUGH_REPLICAS)
    marker = WriteTxnMarkerRequest(
        driver.next_request_id(), partition=partition, producer_id=1, producer_epoch=0, committed=True
    )
    assert driver.answer(marker).error is Error.NOT_ENOUGH_REPLICAS
    group = driver.stable_group(None)
    driver.fail_next_append(Error.NOT_ENOUGH_REPLICAS)
    assert driver.leave(group.leader).error is Error.COORDINATOR_NOT_AVAILABLE
    # The member is gone all the same, as on a broker: only the record of the empty group is missing.
    assert driver.state() == "Empty"


def test_delete_groups_of_several_partitions(driver: Any) -> None:
    """One batch for each partition, one answer for each group, a group named twice counted once."""
    group_ids = [f"group-{number}" for number in range(5)]
    for group_id in group_ids:
        driver.commit(group_id=group_id)
    batches = len(driver.batches)
    request = DeleteGroupsRequest(driver.next_request_id(), (*group_ids, "unknown", group_ids[0]))
    results = {one.group_id: one.error for one in driver.answer(request).results}
    assert results == {**dict.fromkeys(group_ids, Error.NONE), "unknown": Error.GROUP_ID_NOT_FOUND}
    deleted = driver.batches[batches:]
    assert {batch.partition for batch in deleted} == {partition_for(group_id, 50) for group_id in group_ids}
    assert len(deleted) == len({batch.partition for batch in deleted})
    assert DeletedGroup("unknown", Error.GROUP_ID_NOT_FOUND) in driver.responses[-1].results


def test_describe_groups(driver: Any) -> None:
    """Subscriptions are described for Stable groups only; a missing group is an error since API 6."""

    def describe(api_version: int = 6) -> Any:
        request = DescribeGroupsRequest(driver.next_request_id(), (driver.group_id,), api_version)
        return driver.answer(request).groups[0]

    assert (describe(5).error, describe(5).group_state, describe(5).error_message) == (Error.NONE, "Dead", None)
    assert (describe().error, describe().error_message) == (Error.GROUP_ID_NOT_FOUND, "Group g1 not found.")
    group = driver.completing_group(None)
    assert (describe().protocol_type, describe().protocol_data) == ("consumer", "")
    assert describe().members[0].metadata == b""
    driver.sync_all(group)
    described = describe()
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert described.members[0].metadata.endswith(b"orders\xff\xff\xff\xff")
    assert described.members[0].assignment == b"assignment-0"


def test_list_groups(driver: Any) -> None:
    """All groups of all partitions; filters of states and types, in any case."""

    def listed(*states: str, types: tuple[str, ...] = ()) -> set[str]:
        response = driver.answer(ListGroupsRequest(driver.next_request_id(), states, types))
        return {one.group_id for one in response.groups}

    driver.commit(group_id="simple")
    driver.stable_group(None)
    assert listed() == {"simple", "g1"}
    assert listed(" STABLE ") == {"g1"}
    assert listed("empty", "Stable") == {"simple", "g1"}
    assert listed(types=("Classic",)) == {"simple", "g1"}
    assert listed(types=("consumer",)) == set()


def test_time_never_goes_back() -> None:
    """A caller that mixes up its clocks gets an error."""
    coordinator = Coordinator()
    coordinator.advance(1_000)
    with pytest.raises(ValueError, match="from 1000 ms to 999 ms"):
        coordinator.advance(999)


def test_timers_fire_at_their_own_deadlines(driver: Any) -> None:
    """One large step is the same as many small ones."""
    driver.stable_group(None)
    stable_at_ms = driver.now_ms
    driver.advance(1_000_000)
    empty, deleted = driver.batches[-2:]
    assert empty.timestamp_ms == stable_at_ms + 5_000
    assert empty.records[0].value["current_state_timestamp_ms"] == stable_at_ms + 5_000
    assert deleted.timestamp_ms == 1_000 + Config().offsets_retention_check_interval_ms


def test_next_deadline(driver: Any) -> None:
    """What is to happen next is known; an idle coordinator wakes for the retention check only."""
    check_ms = Config().offsets_retention_check_interval_ms
    assert driver.coordinator.next_deadline_ms() == driver.now_ms + check_ms
    driver.join_with_new_id()
    assert driver.coordinator.next_deadline_ms() == driver.now_ms + 3_000


def test_unload_forgets_timers_and_groups(driver: Any) -> None:
    """Another broker's timers are not ours to fire, and unloading what is not led is nothing."""
    driver.stable_group(None)
    driver.unload()
    driver.unload()
    records = len(driver.batches)
    driver.advance(60_000)
    assert len(driver.batches) == records
    assert driver.coordinator.group(driver.group_id) is None


def test_generations_of_the_worked_case(driver: Any) -> None:
    """Three members are generation 1; one leaves, generation 2; another joins, generation 3."""
    group = driver.stable_group(None, None, None, session_ms=60_000)
    assert (group.generation, len(group.members)) == (1, 3)
    driver.leave(group.members[2])
    again = [driver.join(member.member_id, session_ms=60_000) for member in group.members[:2]]
    second = driver.joined(*again)
    driver.sync_all(second)
    newcomer = driver.join_with_new_id(session_ms=60_000)
    again = [driver.join(member.member_id, session_ms=60_000) for member in second.members]
    third = driver.joined(*again, newcomer)
    driver.sync_all(third)
    assert (second.generation, len(second.members)) == (2, 2)
    assert (third.generation, len(third.members)) == (3, 3)
    written = [record.value for batch in driver.batches for record in batch.records]
    assert [(value["generation"], len(value["members"])) for value in written] == [(0, 0), (1, 3), (2, 2), (3, 3)]


def test_results_say_who_is_answered(new_driver: Callable[..., Any]) -> None:
    """A parked request has no response in its own result, and exactly one in a later one."""
    driver = new_driver()
    joins = [driver.join_with_new_id() for _ in range(3)]
    driver.advance(6_000)
    answered = [response.request_id for response in driver.responses]
    assert len(answered) == len(set(answered))
    assert {join.request.request_id for join in joins} <= set(answered)


def test_a_retention_beyond_all_time() -> None:
    """The time of expiry is Java's sum of two longs, which runs over, and can be written."""
    coordinator = Coordinator()
    lead_all(coordinator, 0)
    request = OffsetCommitRequest(1, "g", offsets=OFFSETS, retention_time_ms=(1 << 63) - 1, api_version=2)
    (record,) = coordinator.handle(request, now_ms=1_000).records
    value = decode_record(*encode_record(record)).value
    assert value is not None
    assert value["expire_timestamp_ms"] == 1_000 - (1 << 63) - 1
