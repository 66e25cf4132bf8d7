"""Offsets are written, read back, and removed as by a broker."""

from typing import Any

import pytest

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.handlers.offsets import is_expired
from groupledger.coordinator.model.messages import (
    DeleteGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetToCommit,
    TxnOffsetCommitRequest,
    WriteTxnMarkerRequest,
)
from groupledger.schemas.codec.records import decode_record, encode_record
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition

DAY_MS = 86_400_000
RETENTION_MS = Config().offsets_retention_ms
TOPIC_ID = "XzX1Zm0kQ2m6o0m2zq8m1A"


def commit(driver: Any, *offsets: OffsetToCommit, **options: Any) -> list[Error]:
    request = OffsetCommitRequest(driver.next_request_id(), driver.group_id, offsets=offsets, **options)
    return [one.error for one in driver.answer(request).partitions]


def fetch(driver: Any, *partitions: tuple[str, int], require_stable: bool = False) -> list[tuple[Any, ...]]:
    groups = (OffsetFetchGroup(driver.group_id, tuple(TopicPartition(*one) for one in partitions) or None),)
    response = driver.answer(OffsetFetchRequest(driver.next_request_id(), groups, require_stable))
    return [(one.topic, one.partition, one.offset, one.error) for one in response.groups[0].partitions]


def in_transaction(driver: Any, producer_id: int, *offsets: OffsetToCommit) -> None:
    request = TxnOffsetCommitRequest(
        driver.next_request_id(), driver.group_id, producer_id=producer_id, producer_epoch=0, offsets=offsets
    )
    assert {one.error for one in driver.answer(request).partitions} == {Error.NONE}


def end(driver: Any, producer_id: int, *, committed: bool) -> None:
    partition = driver.coordinator.partition_for(driver.group_id)
    driver.answer(
        WriteTxnMarkerRequest(
            driver.next_request_id(),
            partition=partition,
            producer_id=producer_id,
            producer_epoch=0,
            committed=committed,
        )
    )


def test_commit_record(driver: Any) -> None:
    """Value version 4 with the broker's time; the topic id only if the client named the topic by it."""
    offsets = (
        OffsetToCommit(topic="orders", partition=0, offset=5, leader_epoch=3, metadata=None),
        OffsetToCommit(topic="orders", partition=1, offset=-1, topic_id=TOPIC_ID),
    )
    assert commit(driver, *offsets) == [Error.NONE, Error.NONE]
    (batch,) = driver.batches
    assert batch.timestamp_ms == driver.now_ms
    first, second = batch.records
    assert (first.record_type, first.value_version) == ("offset_commit", 4)
    assert first.key == {"group_id": "g1", "topic": "orders", "partition": 0}
    assert first.value == {
        "offset": 5,
        "leader_epoch": 3,
        "metadata": "",
        "commit_timestamp_ms": driver.now_ms,
        "expire_timestamp_ms": -1,
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAA",
    }
    assert second.value is not None
    assert (second.value["offset"], second.value["topic_id"]) == (-1, TOPIC_ID)
    assert [decode_record(*encode_record(record)) for record in batch.records] == list(batch.records)


def test_explicit_retention_is_version_1(driver: Any) -> None:
    """Requests of API 2 to 4 may bring a retention: the only value version with an expiry."""
    commit(driver, OffsetToCommit(topic="orders", partition=0, offset=5), retention_time_ms=DAY_MS, api_version=2)
    (record,) = driver.batches[0].records
    assert (record.value_version, record.value["expire_timestamp_ms"]) == (1, driver.now_ms + DAY_MS)
    assert decode_record(*encode_record(record)) == record
    driver.advance(DAY_MS)
    assert driver.coordinator.group(driver.group_id) is None


def test_fetch(driver: Any) -> None:
    """Unknown groups and partitions have offset -1 and no error; None asks for all there is."""
    assert fetch(driver, ("orders", 0)) == [("orders", 0, -1, Error.NONE)]
    assert fetch(driver) == []
    commit(driver, OffsetToCommit(topic="orders", partition=1, offset=5, metadata="m", leader_epoch=2))
    assert fetch(driver, ("orders", 0), ("orders", 1)) == [
        ("orders", 0, -1, Error.NONE),
        ("orders", 1, 5, Error.NONE),
    ]
    request = OffsetFetchRequest(driver.next_request_id(), (OffsetFetchGroup(driver.group_id),))
    (fetched,) = driver.answer(request).groups[0].partitions
    assert (fetched.topic, fetched.partition, fetched.metadata, fetched.leader_epoch) == ("orders", 1, "m", 2)


def test_open_transactions_show_only_to_those_who_ask(driver: Any) -> None:
    """A pending offset does not count; require_stable refuses its partition, in a fetch of all as well."""
    commit(driver, OffsetToCommit(topic="orders", partition=0, offset=1))
    in_transaction(
        driver,
        7,
        OffsetToCommit(topic="orders", partition=0, offset=9),
        OffsetToCommit(topic="orders", partition=1, offset=9),
    )
    assert fetch(driver, ("orders", 0)) == [("orders", 0, 1, Error.NONE)]
    unstable = ("orders", 0, -1, Error.UNSTABLE_OFFSET_COMMIT)
    assert fetch(driver, ("orders", 0), require_stable=True) == [unstable]
    assert fetch(driver, require_stable=True) == [unstable]
    end(driver, 7, committed=True)
    assert fetch(driver, ("orders", 0), require_stable=True) == [("orders", 0, 9, Error.NONE)]


def test_plain_commit_after_a_pending_one_wins(driver: Any) -> None:
    """The newest record by log position counts, not the newest marker."""
    in_transaction(driver, 7, OffsetToCommit(topic="orders", partition=0, offset=9))
    commit(driver, OffsetToCommit(topic="orders", partition=0, offset=1))
    end(driver, 7, committed=True)
    assert fetch(driver, ("orders", 0)) == [("orders", 0, 1, Error.NONE)]


def test_marker_of_an_unknown_producer_is_written(driver: Any) -> None:
    """It takes its place in the log, and changes nothing."""
    end(driver, 99, committed=True)
    (batch,) = driver.batches
    assert (batch.records, batch.committed, batch.producer_id) == ((), True, 99)
    commit(driver, OffsetToCommit(topic="orders", partition=0, offset=1))
    assert driver.batches[1].base_offset == batch.base_offset + 1


def test_deleting_a_group_ends_what_is_pending(driver: Any) -> None:
    """Committed offsets first, then those that are only pending; a later marker brings nothing back."""
    commit(driver, OffsetToCommit(topic="orders", partition=0, offset=1))
    in_transaction(
        driver,
        7,
        OffsetToCommit(topic="orders", partition=0, offset=9),
        OffsetToCommit(topic="orders", partition=1, offset=9),
    )
    in_transaction(driver, 8, OffsetToCommit(topic="orders", partition=1, offset=9))
    driver.take_records()
    driver.answer(DeleteGroupsRequest(driver.next_request_id(), (driver.group_id,)))
    tombstones = [(record.record_type, record.key.get("partition")) for record in driver.take_records()]
    assert tombstones == [("offset_commit", 0), ("offset_commit", 1), ("group_metadata", None)]
    end(driver, 7, committed=True)
    end(driver, 8, committed=True)
    assert fetch(driver) == []


def test_offset_delete_of_a_pending_offset(driver: Any) -> None:
    """A tombstone is written for a pending offset, too; an offset that is not there needs none."""
    in_transaction(driver, 7, OffsetToCommit(topic="orders", partition=0, offset=9))
    driver.take_records()
    request = OffsetDeleteRequest(
        driver.next_request_id(), driver.group_id, (TopicPartition("orders", 0), TopicPartition("orders", 1))
    )
    assert [one.error for one in driver.answer(request).partitions] == [Error.NONE, Error.NONE]
    assert [record.key["partition"] for record in driver.take_records()] == [0]
    end(driver, 7, committed=True)
    assert fetch(driver, ("orders", 0)) == [("orders", 0, -1, Error.NONE)]


def test_offset_delete_of_a_group_that_is_no_consumer(driver: Any) -> None:
    """Members of another protocol type: the coordinator can't know what they read."""
    driver.join_with_new_id(protocol_type="connect")
    request = OffsetDeleteRequest(driver.next_request_id(), driver.group_id, (TopicPartition("orders", 0),))
    assert driver.answer(request).error is Error.NON_EMPTY_GROUP


def test_tombstones_are_in_the_brokers_order(driver: Any) -> None:
    """As a 4.2.0 broker deleted the same offsets: by their slots in maps that grew with each of these commits."""
    for numbers in (reversed(range(14)), range(14), range(14)):
        for number in numbers:
            commit(
                driver,
                *(OffsetToCommit(topic=f"topic-{number}", partition=partition, offset=1) for partition in range(5)),
            )
    driver.take_records()
    driver.answer(DeleteGroupsRequest(driver.next_request_id(), (driver.group_id,)))
    keys = [record.key for record in driver.take_records()][:-1]
    topics = list(dict.fromkeys(key["topic"] for key in keys))
    assert [key["partition"] for key in keys[:5]] == [0, 2, 4, 1, 3]
    assert topics[:8] == [f"topic-{number}" for number in (2, 10, 7, 4, 12, 9, 1, 6)]
    assert len(keys) == 70


def test_topic_deletion(driver: Any) -> None:
    """Its offsets go from every group, the pending ones too; the groups stay until the next check."""
    for group_id in ("a", "b"):
        request_id = driver.next_request_id()
        offsets = (
            OffsetToCommit(topic="orders", partition=0, offset=1),
            OffsetToCommit(topic="other", partition=0, offset=1),
        )
        driver.answer(OffsetCommitRequest(request_id, group_id, offsets=offsets))
    in_transaction(driver, 7, OffsetToCommit(topic="orders", partition=1, offset=1))
    driver.take_records()
    driver.collect(driver.coordinator.delete_partitions((("orders", 0), ("orders", 1)), now_ms=driver.now_ms))
    deleted = {
        (record.key["group_id"], record.key["topic"], record.key["partition"]) for record in driver.take_records()
    }
    assert deleted == {("a", "orders", 0), ("b", "orders", 0), ("g1", "orders", 1)}
    assert driver.coordinator.group("a") is not None


def test_commits_keep_no_more_than_they_say(driver: Any) -> None:
    """A group that a refused commit created is there, empty, until the next check deletes it."""
    large = OffsetToCommit(topic="orders", partition=0, offset=1, metadata="x" * 4_097)
    assert commit(driver, large) == [Error.OFFSET_METADATA_TOO_LARGE]
    assert driver.batches == []
    assert driver.state() == "Empty"
    driver.advance(Config().offsets_retention_check_interval_ms)
    assert [record.value for record in driver.take_records()] == [None]
    assert driver.state() == "Dead"


def test_open_transaction_keeps_a_group(driver: Any) -> None:
    """Neither its offset nor the group goes while a producer may still commit."""
    commit(driver, OffsetToCommit(topic="orders", partition=0, offset=1))
    in_transaction(driver, 7, OffsetToCommit(topic="orders", partition=0, offset=2))
    driver.take_records()
    driver.advance(2 * RETENTION_MS)
    assert driver.take_records() == []
    end(driver, 7, committed=False)
    driver.advance(Config().offsets_retention_check_interval_ms)
    assert [record.record_type for record in driver.take_records()] == ["offset_commit", "group_metadata"]


def test_members_keep_offsets_of_their_topics_only(driver: Any) -> None:
    """A Stable consumer group loses old offsets of topics that nobody in it subscribes to."""
    group = driver.stable_group(None, session_ms=600_000)
    member = {"member_id": group.leader.member_id, "generation_id": group.generation}
    commit(
        driver,
        OffsetToCommit(topic="orders", partition=0, offset=1),
        OffsetToCommit(topic="dropped", partition=0, offset=1),
        **member,
    )
    driver.take_records()
    for _ in range(RETENTION_MS // 500_000 + 2):
        driver.advance(500_000)
        driver.heartbeat(group.leader.member_id, group.generation)
    (tombstone,) = driver.take_records()
    assert (tombstone.key["topic"], tombstone.value) == ("dropped", None)


def group_in(state: State, **fields: Any) -> Group:
    group = Group(group_id="g", current_state_timestamp_ms=500, **fields)
    group.state = state
    return group


CONSUMER: dict[str, Any] = {"protocol_type": "consumer", "subscribed_topics": frozenset({"orders"})}


@pytest.mark.parametrize(
    ("group", "commit_ms", "expire_ms", "now_ms", "expired"),
    [
        # Nobody has ever joined: from the commit on.
        (Group(group_id="g", current_state_timestamp_ms=50), 100, -1, RETENTION_MS + 99, False),
        (Group(group_id="g", current_state_timestamp_ms=50), 100, -1, RETENTION_MS + 100, True),
        # Empty: from the moment when it became so, unless an old record did not say it.
        (
            Group(group_id="g", current_state_timestamp_ms=500, protocol_type="consumer"),
            100,
            -1,
            RETENTION_MS + 499,
            False,
        ),
        (
            Group(group_id="g", current_state_timestamp_ms=500, protocol_type="consumer"),
            100,
            -1,
            RETENTION_MS + 500,
            True,
        ),
        (
            Group(group_id="g", current_state_timestamp_ms=-1, protocol_type="consumer"),
            100,
            -1,
            RETENTION_MS + 100,
            True,
        ),
        # Stable consumers whose topics are known: from the commit on.
        (group_in(State.STABLE, **CONSUMER), 100, -1, RETENTION_MS + 100, True),
        (group_in(State.STABLE, **CONSUMER), 100, -1, RETENTION_MS + 99, False),
        # Every other group with members: never, not even with an expiry in the record.
        (group_in(State.STABLE, protocol_type="consumer"), 100, -1, 10 * RETENTION_MS, False),
        (group_in(State.STABLE, protocol_type="connect"), 100, 200, 10 * RETENTION_MS, False),
        (group_in(State.PREPARING_REBALANCE, **CONSUMER), 100, -1, 10 * RETENTION_MS, False),
        (group_in(State.COMPLETING_REBALANCE, **CONSUMER), 100, 200, 10 * RETENTION_MS, False),
        # An expiry in the record counts by itself.
        (Group(group_id="g", current_state_timestamp_ms=50), 100, 200, 199, False),
        (Group(group_id="g", current_state_timestamp_ms=50), 100, 200, 200, True),
        (Group(group_id="g", current_state_timestamp_ms=50), 100, 10 * RETENTION_MS, 2 * RETENTION_MS, False),
    ],
)
def test_expiry(group: Group, commit_ms: int, expire_ms: int, now_ms: int, *, expired: bool) -> None:
    """Which moment retention counts from, by state and protocol type; equal is expired."""
    offset = {"commit_timestamp_ms": commit_ms, "expire_timestamp_ms": expire_ms}
    assert is_expired(group, offset, now_ms, Config()) is expired
