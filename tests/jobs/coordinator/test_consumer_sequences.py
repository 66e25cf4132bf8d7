"""Goal: requests about KIP-848 groups, also of classic members, through the socket have the answers and the records of
the coordinator itself."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from groupledger.coordinator.model.config import Config
from groupledger.jobs.coordinator.testing import coordinator
from groupledger.jobs.kafka.messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from groupledger.schemas.kafka.errors import Error
from lab.kafka import consumer_differential, mixed_differential
from lab.kafka.connection import Connection
from lab.kafka.consumer_sequences import TOPICS

SEQUENCES, MIXED_SEQUENCES, SEED = 40, 15, 11


def test_random_sequences() -> None:
    """Goal: as on a broker (`tests/broker/test_consumer_coordinator_against_kafka.py`), no answer and no record
    differs."""
    config = Config(
        offsets_topic_num_partitions=1,
        group_initial_rebalance_delay_ms=0,
        group_consumer_heartbeat_interval_ms=500,
    )
    with coordinator(TOPICS, nodes=1, config=config) as kafka:
        outcome = consumer_differential.play_all(
            kafka.bootstrap_servers, range(SEQUENCES), SEED, rack=None, share_of_pauses=0
        )
        mixed = mixed_differential.play_all(kafka.bootstrap_servers, range(MIXED_SEQUENCES), SEED, rack=None)
    assert outcome.wrong == mixed.wrong == []
    assert outcome.compared["sequences"] == SEQUENCES
    assert outcome.compared["ConsumerGroupHeartbeatRequest NONE"] > 3 * SEQUENCES
    assert mixed.compared["SyncGroupRequest NONE"] > MIXED_SEQUENCES


def heartbeat(member_id: str, epoch: int) -> Any:
    is_joining = epoch == 0
    return ConsumerGroupHeartbeatRequest(
        version=1,
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if is_joining else -1,
        subscribed_topic_names=["orders"] if is_joining else None,
        topic_partitions=[] if is_joining else None,
    )


def test_what_a_test_may_force() -> None:
    """Goal: a member of a KIP-848 group can be expired, its heartbeat refused, its group rebalanced, loaded again, and
    looked at."""
    with coordinator({"orders": 2}, nodes=1) as kafka, closing(Connection(kafka.bootstrap_servers)) as connection:
        assert connection.call(heartbeat("a", 0)).error_code == Error.NONE
        kafka.move("g")
        kafka.until(lambda: connection.call(heartbeat("a", 1)).error_code == Error.NONE, "the log to be read")
        seen = kafka.group("g")
        assert seen is not None
        assert (seen.state, seen.generation, seen.members) == ("Stable", 1, {"a": "client"})
        kafka.fault(request="CONSUMER_GROUP_HEARTBEAT", do="answer", error="FENCED_MEMBER_EPOCH")
        assert connection.call(heartbeat("a", 1)).error_code == Error.FENCED_MEMBER_EPOCH
        assert connection.call(heartbeat("a", 1)).error_code == Error.NONE
        kafka.fault(request="CONSUMER_GROUP_DESCRIBE", do="answer", error="COORDINATOR_NOT_AVAILABLE")
        asked = ConsumerGroupDescribeRequest(version=1, group_ids=["g"])
        assert connection.call(asked).groups[0].error_code == Error.COORDINATOR_NOT_AVAILABLE
        assert connection.call(asked).groups[0].members[0].assignment.topic_partitions[0].topic_name == "orders"
        kafka.rebalance("g")
        assert kafka.group("g").state == "Assigning"  # type: ignore[union-attr]
        rebalanced = connection.call(heartbeat("a", 1))
        assert (rebalanced.error_code, rebalanced.member_epoch, rebalanced.assignment) == (Error.NONE, 2, None)
        kafka.expire("g")
        assert connection.call(heartbeat("a", 2)).error_code == Error.UNKNOWN_MEMBER_ID
        kafka.rebalance("g")
        assert (kafka.group("g").state, kafka.group("g").generation) == ("Empty", 3)  # type: ignore[union-attr]
