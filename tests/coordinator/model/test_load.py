"""After a failover a new leader loads the groups from the log, also from records of older brokers and other group
types."""

from typing import Any

from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.messages import HeartbeatRequest
from groupledger.coordinator.model.operation import Batch
from groupledger.coordinator.offsets_partition import partition_for
from groupledger.schemas.codec.records import Record, decode_record, encode_record
from groupledger.schemas.kafka.errors import Error

PARTITION = partition_for("g1", 50)


def group_record(**value: Any) -> Record:
    """A group of one member, as a broker of 0.10 wrote it: no timestamp, no rebalance timeout, no instance id."""
    member = {
        "member_id": "m",
        "group_instance_id": None,
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": -1,
        "session_timeout_ms": 30_000,
        "subscription": b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff",
        "assignment": b"x",
    }
    fields = {
        "protocol_type": "consumer",
        "generation": 4,
        "protocol": "range",
        "leader": "m",
        "current_state_timestamp_ms": -1,
        "members": [member],
    }
    return Record("group_metadata", {"group_id": "g1"}, 0, {**fields, **value})


def offset_record(record_type: str = "offset_commit", *, topic: str = "orders", offset: int = 5) -> Record:
    value = {
        "offset": offset,
        "leader_epoch": -1,
        "metadata": "",
        "commit_timestamp_ms": 100,
        "expire_timestamp_ms": -1,
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAA",
    }
    return Record(record_type, {"group_id": "g1", "topic": topic, "partition": 0}, 0, value)


def loaded(*records: Record, now_ms: int = 1_000) -> Coordinator:
    """A coordinator that has read these records, at offsets with gaps between them."""
    batches = [
        Batch(partition=PARTITION, base_offset=10 * number, timestamp_ms=0, records=(record,))
        for number, record in enumerate(records)
    ]
    coordinator = Coordinator()
    coordinator.load(PARTITION, batches, now_ms=now_ms)
    return coordinator


def test_old_group_record() -> None:
    """Fields that the old version lacks get a default: the rebalance timeout is the session timeout."""
    coordinator = loaded(group_record())
    group = coordinator.group("g1")
    assert group is not None
    assert (group.state, group.generation_id, group.leader_id) == (State.STABLE, 4, "m")
    assert group.members["m"].rebalance_timeout_ms == 30_000
    assert group.subscribed_topics == frozenset({"orders"})
    assert coordinator.next_deadline_ms() == 31_000


def test_session_starts_anew() -> None:
    """A member has its whole session to find the new coordinator."""
    coordinator = loaded(group_record())
    coordinator.advance(30_999)
    alive: Any = coordinator.handle(HeartbeatRequest(1, "g1", generation_id=4, member_id="m"), now_ms=30_999).responses[
        0
    ]
    assert alive.error is Error.NONE
    result = coordinator.advance(70_000)
    assert [record.value["generation"] for record in result.records if record.value] == [5]


def test_empty_group_without_timestamp_expires_by_its_commits() -> None:
    """Records below version 2 say nothing of when a group became empty."""
    coordinator = loaded(group_record(members=[], protocol=None, leader=None), offset_record())
    retention_ms = coordinator.config.offsets_retention_ms
    result = coordinator.advance(retention_ms + 600_000)
    assert [record.record_type for record in result.records] == ["offset_commit", "group_metadata"]


def test_offsets_alone_make_a_simple_group() -> None:
    """Both record types of commits; the newest counts; a tombstone takes it back, and the group stays."""
    coordinator = loaded(offset_record("legacy_offset_commit"), offset_record(offset=7))
    shard = coordinator.shard(PARTITION)
    assert shard is not None
    stored = shard.offsets.committed.get("g1", "orders", 0)
    assert stored is not None
    assert (stored.value["offset"], stored.record_offset) == (7, 10)
    tombstone = Record("offset_commit", {"group_id": "g1", "topic": "orders", "partition": 0}, None, None)
    coordinator = loaded(offset_record(), tombstone)
    group = coordinator.group("g1")
    assert group is not None
    assert (group.state, group.protocol_type) == (State.EMPTY, None)


def test_group_tombstone() -> None:
    """A deleted group is gone, and may be born again."""
    tombstone = Record("group_metadata", {"group_id": "g1"}, None, None)
    assert loaded(group_record(), tombstone).group("g1") is None
    group = loaded(group_record(), tombstone, group_record(generation=1)).group("g1")
    assert group is not None
    assert group.generation_id == 1


def test_other_group_types_are_skipped() -> None:
    """Their records take their places in the log and nothing else."""
    other = Record("consumer_group_metadata", {"group_id": "g1"}, 0, {"epoch": 3, "metadata_hash": 0})
    coordinator = loaded(other, offset_record())
    shard = coordinator.shard(PARTITION)
    assert shard is not None
    assert shard.log_end_offset == 11


def test_log_survives_the_codec(driver: Any) -> None:
    """Every record of a busy group survives encoding and decoding: a broker would read the same group."""
    group = driver.stable_group("a", None, session_ms=60_000)
    driver.commit(member_id=group.leader.member_id, generation_id=1)
    driver.leave(*group.members)
    records = [record for batch in driver.batches for record in batch.records]
    assert [decode_record(*encode_record(record)) for record in records] == records
    key, value = encode_record(records[0])
    assert key == b"\0\2\0\2g1"
    assert value is not None
    assert value[:8] == b"\0\3\0\0\0\0\0\0"


def test_unsynced_generation_is_forgotten(driver: Any) -> None:
    """A generation that no leader synced is used again after a failover."""
    group = driver.stable_group(None, session_ms=60_000)
    rejoined = driver.join(group.leader.member_id, session_ms=60_000)
    assert rejoined.response.generation_id == 2
    driver.failover()
    assert driver.heartbeat(group.leader.member_id, 2) is Error.ILLEGAL_GENERATION
    again = driver.join(group.leader.member_id, session_ms=60_000)
    assert again.response.generation_id == 2


def test_pending_transactions_survive(driver: Any) -> None:
    """The new leader knows what is pending, and the marker finds it."""
    driver.txn_commit(7, offset=9)
    driver.failover()
    shard = driver.coordinator.shard(PARTITION)
    assert shard.offsets.has_pending("g1", "orders", 0)
    shard.offsets.end_transaction(7, committed=True)
    assert shard.offsets.committed.get("g1", "orders", 0).value["offset"] == 9
