"""Compares `groupledger failover` with what a consumer really reads after it moved: two brokers, and MirrorMaker.

    python -m bench.failover JARS

JARS is a folder with `connect-mirror` and `connect-mirror-client` of the same release as the broker (4.2), which Maven
Central has; the other JARs that they need are among the broker's. Transactions leave markers in the source, so that
offsets of source and target differ. MirrorMaker is stopped, both ledgers are brought up to date by `pipeline`, and the
answer for each partition is compared with the records themselves. The run ends with 1 if a bound does not hold."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from lab.kafka.local_broker import KAFKA_JARS, SHORT_LIVED_JVM, LocalBroker, _java
from lab.kafka.local_traffic import make_offsets_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GROUP, TOPIC, COPY, PARTITIONS = "pay", "orders", "east.orders", 4
RECORDS, IN_A_TRANSACTION = 700, 7
COMMITS = {0: 137, 1: 400, 2: 1, 3: 790}
AHEAD = 25
WAIT_S_MAX = 180
PROPERTIES = """\
clusters = east, west
east.bootstrap.servers = {east}
west.bootstrap.servers = {west}
east->west.enabled = true
west->east.enabled = false
topics = orders
groups = pay
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
offset.lag.max = 40
emit.checkpoints.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
refresh.groups.interval.seconds = 1
"""


@contextmanager
def mirroring(jars: Path, folder: Path, east: str, west: str) -> Iterator[None]:
    """Runs MirrorMaker for as long as the block lasts."""
    settings = folder / "mirror.properties"
    settings.write_text(PROPERTIES.format(east=east, west=west))
    command = _java(KAFKA_JARS)
    command[-1] += f":{jars}/*"
    command += [*SHORT_LIVED_JVM, "org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]
    with (folder / "mirror.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as program:
        try:
            yield
        finally:
            program.terminate()
            try:
                program.wait(30)
            except subprocess.TimeoutExpired:
                program.kill()


def produce(servers: str) -> None:
    """Writes RECORDS records into each partition, in transactions; the value is the number of the record."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "orders"})
    producer.init_transactions()
    for first in range(0, RECORDS, IN_A_TRANSACTION):
        producer.begin_transaction()
        for number in range(first, min(first + IN_A_TRANSACTION, RECORDS)):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, str(number).encode(), partition=partition)
        producer.commit_transaction()


def records(servers: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    """Returns (offset, number) of all records, by partition."""
    found: dict[int, list[tuple[int, int]]] = {partition: [] for partition in range(PARTITIONS)}
    reader = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": True})
    with closing(reader):
        reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        ended = 0
        while ended < PARTITIONS:
            message = reader.poll(WAIT_S_MAX)
            if message is None or message.error():
                ended += 1
            else:
                found[message.partition() or 0].append((message.offset() or 0, int(message.value() or b"")))
    return found


def commit(servers: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": GROUP})
    with closing(consumer):
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        consumer.commit(offsets=places, asynchronous=False)


def committed(servers: str) -> dict[int, int]:
    """Returns the offsets that MirrorMaker has committed for the group in the target, by partition."""
    admin = AdminClient({"bootstrap.servers": servers})  # it has to live until it has answered
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
    places = asked[GROUP].result().topic_partitions
    return {place.partition: place.offset for place in places if place.topic == COPY and place.offset >= 0}


def until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"{what} took more than {WAIT_S_MAX} s")
        time.sleep(1)


def groupledger(*words: str) -> str:
    program = str(Path(sys.executable).parent / "groupledger")
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def ends(servers: str) -> int:
    with closing(Consumer({"bootstrap.servers": servers, "group.id": "reader"})) as reader:
        try:
            every = [reader.get_watermark_offsets(TopicPartition(COPY, each)) for each in range(PARTITIONS)]
        except KafkaException:  # the copy is not there yet
            return 0
    return sum(high for _, high in every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jars", type=Path)
    jars = parser.parse_args().jars.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with LocalBroker(folder / "east") as east, LocalBroker(folder / "west") as west:
            for broker in (east, west):
                make_offsets_topic(broker.bootstrap_servers)
            admin = AdminClient({"bootstrap.servers": east.bootstrap_servers})
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
            with mirroring(jars, folder, east.bootstrap_servers, west.bootstrap_servers):
                # Where MirrorMaker is already running, it syncs offsets all the way.
                produce(east.bootstrap_servers)
                until("mirroring", lambda: ends(west.bootstrap_servers) >= RECORDS * PARTITIONS)
                commit(east.bootstrap_servers, TOPIC, COMMITS)
                until("the sync of offsets", lambda: len(committed(west.bootstrap_servers)) >= PARTITIONS - 1)
                time.sleep(5)
            there = committed(west.bootstrap_servers)
            commit(west.bootstrap_servers, COPY, {1: min(there.get(1, 0) + AHEAD, RECORDS)})
            for cluster, broker in (("east", east), ("west", west)):
                servers = ("--bootstrap-servers", broker.bootstrap_servers)
                conf = folder / f"{cluster}.yaml"
                conf.write_text(f"cluster: {cluster}\n")
                groupledger("pipeline", "--warehouse", f"{folder}/ledger", "--conf", str(conf), *servers)
            asked = ("failover", GROUP, "--warehouse", f"{folder}/ledger", "--cluster", "east", "--to", "west")
            print(groupledger(*asked))
            rows = list(map(json.loads, groupledger(*asked, "--json").splitlines()))
            there = committed(west.bootstrap_servers)
            truth = really(records(east.bootstrap_servers, TOPIC), records(west.bootstrap_servers, COPY), there)
    checked = [check(row, truth.get(row["partition"])) for row in rows]
    sys.exit(not all(checked))


def really(
    source: dict[int, list[tuple[int, int]]], target: dict[int, list[tuple[int, int]]], there: dict[int, int]
) -> dict[int, tuple[int, int]]:
    """Returns how many records are read again, and never, by partition, if the group goes on in the target."""
    found = {}
    for partition, begins in there.items():
        following = [number for offset, number in source[partition] if offset >= COMMITS[partition]]
        numbers = [number for _, number in target[partition]]
        place = numbers.index(following[0]) if following else len(numbers)
        begin = bisect_left([offset for offset, _ in target[partition]], begins)
        found[partition] = max(place - begin, 0), max(begin - place, 0)
    return found


def check(row: dict[str, Any], true: tuple[int, int] | None) -> bool:
    if true is None or row["repeated_min"] is None:
        print(f"partition {row['partition']}: {row['outcome']}, really {true}: {row['reason']}")
        return row["outcome"] in {"no_commit", "unknown"}
    again, never = true
    holds = bool(
        row["repeated_min"] <= again <= row["repeated_max"] and row["skipped_min"] <= never <= row["skipped_max"]
    )
    print(
        f"partition {row['partition']}: {row['outcome']}, again {row['repeated_min']} to {row['repeated_max']}, really"
        f" {again}; never {row['skipped_min']} to {row['skipped_max']}, really {never}: {'holds' if holds else 'WRONG'}"
    )
    return holds


if __name__ == "__main__":
    main()
