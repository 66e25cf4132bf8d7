"""Makes the settings of the clients that play: short timeouts, few requests, and the names that each client has for
them."""

from __future__ import annotations

from typing import Any

JAVA, LIBRDKAFKA, KAFKA_PYTHON = "java", "librdkafka", "kafka-python"
CLIENTS = (JAVA, LIBRDKAFKA, KAFKA_PYTHON)
SESSION_MS, HEARTBEAT_MS, POLL_INTERVAL_MS = 10_000, 2_000, 15_000
COMMIT_MS = 2_000
LONG_POLL_INTERVAL_MS = 600_000
_JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
# A fetch that waits for more costs less than one for each record: a hundred groups share two cores.
FETCH_WAIT_MS, FETCH_MIN_BYTES = 1_500, 4_000


def settings(client: str, group_id: str, client_id: str, **changed: Any) -> dict[str, str]:
    """Returns the settings of a consumer. `changed` has Kafka's names with underscores for dots; a setting whose value
    is None is left out."""
    wanted: dict[str, Any] = {
        "group.id": group_id,
        "client.id": client_id,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "max.poll.interval.ms": POLL_INTERVAL_MS,
        "auto.commit.interval.ms": COMMIT_MS,
        "auto.offset.reset": "earliest",
        "metadata.max.age.ms": 10_000,
        "fetch.min.bytes": FETCH_MIN_BYTES,
        "partition.assignment.strategy": "range",
        **_own(client),
        **{name.replace("_", "."): value for name, value in changed.items()},
    }
    if wanted.get("group.protocol") == "consumer":  # the broker has the times and the assignors
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
            wanted.pop(name)
    elif client == JAVA:
        wanted["partition.assignment.strategy"] = _JAVA_ASSIGNORS[wanted["partition.assignment.strategy"]]
    if client == LIBRDKAFKA:
        wanted.pop("max.poll.records", None)
    return {name: str(value) for name, value in wanted.items() if value is not None}


def _own(client: str) -> dict[str, Any]:
    if client == LIBRDKAFKA:
        return {"fetch.wait.max.ms": FETCH_WAIT_MS, "topic.metadata.refresh.interval.ms": 10_000}
    return {"fetch.max.wait.ms": FETCH_WAIT_MS, "max.poll.records": 5}
