"""Random sequences of requests through the socket: the answers and the records are those of the coordinator itself.

`tests/broker/test_random_sequences_against_kafka.py` plays such sequences on a real broker with the same comparison, so
that the socket, the coordinator and Kafka answer alike, request by request.
"""

from __future__ import annotations

from collections import Counter

from groupledger.coordinator.model.config import Config
from groupledger.jobs.coordinator.testing import coordinator
from lab.kafka import differential
from lab.kafka.broker_driver import TOPIC_PARTITIONS, TOPICS, Broker

SEQUENCES = 60
SEED = 7


def test_random_sequences() -> None:
    """No answer and no record of `__consumer_offsets` differs."""
    topics = dict.fromkeys(TOPICS, TOPIC_PARTITIONS)
    with coordinator(topics, rate=0, nodes=1, config=Config(**differential.CONFIG)) as kafka:
        broker = Broker(kafka.bootstrap_servers, {name: kafka.topic_id(name) for name in topics})
        outcomes = list(differential.play_all(broker, differential.generated(SEQUENCES, SEED)))
    assert [str(each.difference) for each in outcomes if each.difference] == []
    compared = sum((each.compared for each in outcomes), Counter[tuple[str, str]]())
    assert {api for api, _ in compared} >= {
        "JoinGroupRequest",
        "TxnOffsetCommitRequest",
        "OffsetFetchRequest",
        "Record",
    }
