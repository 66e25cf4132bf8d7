"""Describes `__consumer_offsets` by an admin client: its identity, the ends of its partitions, and the options with
which Spark reads it.

The admin client joins no group and writes nothing: it only needs the permission Describe on the topic.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.errors import KafkaError
from kafka.protocol.consumer import IsolationLevel

from groupledger.jobs.kafka.login import kafka_python_security, spark_security
from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.warehouse.source import TopicIdentity
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.uuids import kafka_id_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from groupledger.jobs.process.settings import KafkaSettings, Settings

Answer = TypeVar("Answer")

ASK_AGAIN_S = 1.0
DELETE_RETENTION_MS = DAY_MS
"""How long a topic keeps tombstones if nothing else is set (`delete.retention.ms`)."""


@dataclass(frozen=True)
class TopicRange:
    """The start of the log and its two ends, by partition of `__consumer_offsets`: `high_watermark` is the end for a
    read_uncommitted reader, `last_stable_offset` for a read_committed one.

    While a transaction is open, `last_stable_offset` is below `high_watermark`, and a read_committed reader waits
    there.
    """

    log_start_offset: dict[int, int]
    last_stable_offset: dict[int, int]
    high_watermark: dict[int, int]


def describe_offsets_topic(bootstrap_servers: str, settings: KafkaSettings) -> tuple[TopicIdentity, TopicRange]:
    """Returns the identity of `__consumer_offsets`, and the offsets of its partitions in our shard. Raises OutsideError
    if the brokers can't be reached, or the topic does not exist or may not be described, and InputError if our shard
    has no partition."""

    def ranges(admin: Any) -> tuple[TopicIdentity, TopicRange]:
        identity, everything = identify(admin, bootstrap_servers, settings)
        partitions = [partition for partition in everything if settings.own.has(partition)]
        if not partitions:
            raise InputError(
                f"The shard {settings.shard} is empty, since {OFFSETS_TOPIC} has {len(everything)} partitions: divide"
                " the cluster into as many shards at most (`kafka.shard`)."
            )
        uncommitted, committed = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
        starts = list_offsets(admin, partitions, OffsetSpec.EARLIEST, uncommitted)
        # The log grows between two requests, so the last stable offset is asked last and cut: one that is still below
        # the end of before has an open transaction, whatever was written meanwhile.
        ends = list_offsets(admin, partitions, OffsetSpec.LATEST, uncommitted)
        stable = list_offsets(admin, partitions, OffsetSpec.LATEST, committed)
        return identity, TopicRange(starts, {key: min(stable[key], end) for key, end in ends.items()}, ends)

    return ask(bootstrap_servers, settings, ranges)


def offsets_topic_identity(bootstrap_servers: str, settings: KafkaSettings) -> TopicIdentity:
    """Returns the present identity of `__consumer_offsets`, over a new connection: an older connection could still lead
    to the brokers of before. Raises OutsideError as `describe_offsets_topic` does."""
    return ask(bootstrap_servers, settings, lambda admin: identify(admin, bootstrap_servers, settings)[0])


def identify(admin: Any, bootstrap_servers: str, settings: KafkaSettings) -> tuple[TopicIdentity, list[int]]:
    """Returns the identity of `__consumer_offsets` and the numbers of all its partitions. Raises OutsideError if the
    topic does not exist or may not be described."""
    cluster_id = admin.describe_cluster()["cluster_id"]
    (topic,) = admin.describe_topics([OFFSETS_TOPIC])
    if topic["error_code"] != 0 or not topic["partitions"]:
        raise OutsideError(
            f"The brokers at {bootstrap_servers} show no topic {OFFSETS_TOPIC} (error {topic['error_code']}): it is"
            " created with the first consumer group, and the principal needs Describe and Read on it."
        )
    partitions = sorted(partition["partition_index"] for partition in topic["partitions"])
    topic_id = kafka_id_of(UUID(topic["topic_id"]))
    return TopicIdentity(cluster_id, topic_id, len(partitions), settings.shard), partitions


def ask(bootstrap_servers: str, settings: KafkaSettings, question: Callable[[Any], Answer]) -> Answer:
    """Returns the answer to a question that gets an admin client. If a broker has just died, its partitions have no
    leader until another one is elected, so the question is asked again, with a new client, until
    `settings.request_timeout_ms` is over. Raises OutsideError if there is no answer by then, or if it is refused."""
    until_s = time.monotonic() + settings.request_timeout_ms / 1000
    while True:
        try:
            with admin_client(bootstrap_servers, settings) as admin:
                return question(admin)
        except OutsideError as error:
            if not getattr(error.__cause__, "retriable", False) or time.monotonic() >= until_s:
                raise
        time.sleep(ASK_AGAIN_S)


@contextmanager
def admin_client(bootstrap_servers: str, settings: KafkaSettings) -> Iterator[Any]:
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=bootstrap_servers.split(","),
            client_id="groupledger",
            bootstrap_timeout_ms=settings.request_timeout_ms,
            request_timeout_ms=settings.request_timeout_ms,
            **kafka_python_security(settings),
        )
    except KafkaError as error:
        raise OutsideError(
            f"No broker answers at {bootstrap_servers} ({type(error).__name__}): check the address, the listener and"
            " the security settings."
        ) from error
    try:
        yield admin
    except KafkaError as error:
        raise OutsideError(f"The brokers at {bootstrap_servers} refused or did not answer: {error}.") from error
    finally:
        admin.close()


def described(admin: Any, kind: str, name: str) -> dict[str, str] | None:
    """Returns the settings of the topic or broker `name`; None if this user may not see them (DescribeConfigs), or the
    request fails. `kind` is "topic" or "broker"."""
    try:
        found = admin.describe_configs([ConfigResource(ConfigResourceType[kind.upper()], name)], config_filter="all")
    except KafkaError:
        return None
    # A refusal is no error to kafka-python, and there is nothing in the answer then.
    return {key: str(value["value"]) for key, value in found[kind][name].items()} or None


def tombstone_retention_ms(bootstrap_servers: str, settings: KafkaSettings) -> int:
    """Returns how many milliseconds `__consumer_offsets` keeps tombstones: Kafka's default if the topic's configuration
    can't be read, for whatever reason. Raises OutsideError if no broker answers."""
    found = ask(bootstrap_servers, settings, lambda admin: described(admin, "topic", OFFSETS_TOPIC)) or {}
    return int(found.get("delete.retention.ms", DELETE_RETENTION_MS))


def offsets_retention_s(bootstrap_servers: str, settings: KafkaSettings) -> int | None:
    """Returns how many seconds the brokers keep the offsets of a group without members, by the setting of one broker.
    Returns None if this user may not see that setting. Raises OutsideError if no broker answers."""

    def minutes(admin: Any) -> str | None:
        broker = str(admin.describe_cluster()["brokers"][0]["broker_id"])
        return (described(admin, "broker", broker) or {}).get("offsets.retention.minutes")

    found = ask(bootstrap_servers, settings, minutes)
    return None if found is None else int(found) * 60


def list_offsets(admin: Any, partitions: list[int], spec: OffsetSpec, isolation: IsolationLevel) -> dict[int, int]:
    asked = {TopicPartition(OFFSETS_TOPIC, partition): spec for partition in partitions}
    found = admin.list_partition_offsets(asked, isolation_level=isolation)
    return {key.partition: answer.offset for key, answer in sorted(found.items())}


def kafka_options(settings: Settings, bootstrap_servers: str, positions: Mapping[int, int]) -> dict[str, str]:
    """Returns the options of Spark's Kafka source, batch or streaming, to read `__consumer_offsets` from `positions`
    on, an offset for each partition.

    With `assign` the source joins no group, and so writes nothing into the topic that it reads. With read_committed it
    skips the offset commits of aborted transactions, which never took effect. If the source knows no reachable broker
    any more, it asks the bootstrap servers again (KIP-899).
    """
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "assign": json.dumps({OFFSETS_TOPIC: sorted(positions)}),
        "startingOffsets": json.dumps({OFFSETS_TOPIC: dict(positions)}),
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        "kafka.metadata.recovery.strategy": "rebootstrap",
        "kafka.request.timeout.ms": str(settings.kafka.request_timeout_ms),
        "kafka.default.api.timeout.ms": str(settings.kafka.request_timeout_ms),
        "kafka.fetch.max.wait.ms": str(settings.ingest.fetch_max_wait_ms),
        "kafka.max.poll.records": str(settings.ingest.max_poll_records),
        **spark_security(settings.kafka),
    }
