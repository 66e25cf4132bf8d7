"""Makes a `__consumer_offsets` of one partition on a real broker, writes a simulated log into it, and runs the log
cleaner on it when a test asks for that."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from groupledger.schemas.kafka.names import ADMIN_CLIENT_ID, OFFSETS_TOPIC

if TYPE_CHECKING:
    import pyarrow as pa

    from lab.kafka.local_broker import LocalBroker

PROPERTIES = {"offsets.topic.num.partitions": "1", "log.cleaner.backoff.ms": "100"}
# A segment for each minute of the simulated time: the cleaner takes all but the last.
TOPIC_SETTINGS = {"cleanup.policy": "compact", "segment.ms": "60000"}
RATIO = "min.cleanable.dirty.ratio"
ALWAYS, NEVER = "0.001", "1"  # of dirty records, so that the cleaner works
WAIT_S = 300
BATCH = 5  # records: a segment is rolled between two batches


def make_topic(bootstrap_servers: str, replicas: int = 1) -> None:
    """Creates `__consumer_offsets` before the broker does. Otherwise a member's record with today's time would come
    first, and its segment would never be rolled for records of an earlier day."""
    topic = NewTopic(OFFSETS_TOPIC, 1, replicas, config={**TOPIC_SETTINGS, RATIO: NEVER})
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([topic])[OFFSETS_TOPIC].result()


def write(bootstrap_servers: str, rows: pa.Table) -> None:
    """Writes the rows of a capture to `__consumer_offsets`, in their order and with their times."""
    settings = {"client.id": ADMIN_CLIENT_ID, "enable.idempotence": True, "batch.num.messages": BATCH}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
    for row in rows.to_pylist():
        at_ms = round(row["timestamp"].timestamp() * 1_000)
        producer.produce(OFFSETS_TOPIC, row["value"], row["key"], partition=0, timestamp=at_ms)
    assert producer.flush(WAIT_S) == 0


def set_topic(admin: AdminClient, settings: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result()


def set_ratio(bootstrap_servers: str, ratio: str) -> None:
    set_topic(AdminClient({"bootstrap.servers": bootstrap_servers}), {RATIO: ratio})


def await_cleaned(broker: LocalBroker, above: int) -> None:
    """Waits until the log cleaner has cleaned beyond the offset `above`, as its own checkpoint shows. Raises
    TimeoutError after `WAIT_S` seconds."""
    checkpoint = broker.data_directory / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        cleaned = [int(line.split()[2]) for line in lines if line.startswith(f"{OFFSETS_TOPIC} 0 ")]
        if cleaned and cleaned[0] > above:
            return
        time.sleep(0.1)
    raise TimeoutError(f"the cleaner has not gone beyond offset {above}")


def clean(broker: LocalBroker, above: int) -> None:
    """Lets the log cleaner work until it has cleaned beyond the offset `above`, and then stops it."""
    set_ratio(broker.bootstrap_servers, ALWAYS)
    await_cleaned(broker, above)
    set_ratio(broker.bootstrap_servers, NEVER)
