"""Goal: numbers and names of errors and APIs are those of Kafka."""

from __future__ import annotations

import kafka.errors
from kafka.protocol.api_key import ApiKey as ClientApiKey

from groupledger.schemas.kafka.api_keys import ApiKey, api_name
from groupledger.schemas.kafka.errors import Error, error_name

# kafka-python kept the names of an older Kafka.
RENAMED = {
    "NO_ERROR": "NONE",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
    "INVALID_REPLICATION_ASSIGNMENT": "INVALID_REPLICA_ASSIGNMENT",
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
}


def test_errors_are_kafkas() -> None:
    """Goal: a client that was written by others has the same name for every error code that it knows."""
    theirs = {each.errno: each.message for each in vars(kafka.errors).values() if hasattr(each, "errno")}
    known = {code: name for code, name in theirs.items() if isinstance(code, int) and isinstance(name, str)}
    assert len(known) > 100
    assert {code: error_name(code) for code in known} == {code: RENAMED.get(name, name) for code, name in known.items()}


def test_apis_are_kafkas() -> None:
    """Goal: the same for the numbers of APIs that the client knows, whose names it writes in another case."""
    ours = {api.value: api.name.replace("_", "").lower() for api in ApiKey}
    assert {api.value: api.name.lower() for api in ClientApiKey}.items() <= ours.items()


def test_numbers_that_kafka_does_not_have() -> None:
    """Goal: a number of a later version, or a forged one, has no name."""
    assert [error_name(code) for code in (None, -2, len(Error), 1 << 40)] == [None] * 4
    assert [api_name(key) for key in (-1, len(ApiKey))] == [None] * 2
