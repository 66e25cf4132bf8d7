"""Checks a ledger's claims about a topic on two real brokers whose logs were cleaned independently, against the whole
log.

An hour of ten simulated groups is written into the one partition of `__consumer_offsets`, in parts, and read in passes:

    1  both brokers have the partition
    2  the second broker is down while the first cleans its log
    3  the second is back, has copied what it lacks, and leads alone
    4  the second cleans its log while the first copies the log anew
    5  the first leads alone, with its copy

At the end another ledger reads everything for the first time. Each read goes through the evidence of `ingest` (offsets,
batch headers) and the fold, without Spark. The run ends with 1 if a claim is false, or if the history lacks a rebalance
that the log proves.

    python -m bench.replicas [--seed 4]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from kafka import TopicPartition

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.jobs.ingest.evidence import explained_by_headers
from groupledger.jobs.kafka.offsets_topic import admin_client, describe_offsets_topic
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.words import Proof
from groupledger.transforms.coverage.offset_gaps import gaps
from groupledger.transforms.coverage.rules.evidence import Read, judged
from groupledger.transforms.coverage.rules.stretches import Reading, stretches
from groupledger.transforms.history.rules.events import mark_of
from lab.faults.growing_log import HOUR_MS, MIX
from lab.kafka.cleaned_topic import ALWAYS, NEVER, PROPERTIES, await_cleaned, clean, make_topic, set_ratio, write
from lab.kafka.local_broker import LocalBroker
from lab.truth.claims import false_claims, missing_rebalances
from lab.truth.histories import Tables, folded, position
from lab.truth.simulated import decoded, in_one_partition

if TYPE_CHECKING:
    import pyarrow as pa

    from groupledger.transforms.coverage.rules.stretches import Stretch
    from lab.truth.histories import Entry

PARTS = 5
WAIT_S = 120
FIRST, SECOND = 1, 2  # the brokers' ids
PLACE = TopicPartition(OFFSETS_TOPIC, 0)


class Cluster:
    def __init__(self, directory: Path) -> None:
        self.first = LocalBroker(directory / "first", properties=PROPERTIES)
        self.second = LocalBroker(directory / "second", properties=PROPERTIES, joins=self.first)
        self.addresses = f"{self.first.bootstrap_servers},{self.second.bootstrap_servers}"

    def place_on(self, *brokers: int) -> None:
        """Moves the partition to these brokers, the first of them the leader, and waits until all have it."""
        with admin_client(self.addresses, load_settings().kafka) as admin:
            admin.alter_partition_reassignments({PLACE: list(brokers)})
        self.await_in_sync(*brokers)

    def await_in_sync(self, *brokers: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.addresses})
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            (partition,) = admin.list_topics(OFFSETS_TOPIC, timeout=30).topics[OFFSETS_TOPIC].partitions.values()
            if sorted(partition.isrs) == sorted(partition.replicas) == sorted(brokers) and partition.leader in brokers:
                return
            time.sleep(0.1)
        raise TimeoutError(f"the partition is not on the brokers {brokers}")


class Ledger:
    """A ledger that reads the topic in passes, with its history."""

    def __init__(self, addresses: str, log: list[tuple[str, Entry]]) -> None:
        self.addresses = addresses
        self.log = {entry.kafka_offset: (group, entry) for group, entry in log}  # type: ignore[union-attr]
        self.tables = {group: Tables() for group in dict(log)}
        self.readings: list[Reading] = []
        self.end = 0
        self.read = 0

    def pass_over(self) -> None:
        settings = load_settings()
        began_ms = now_ms()
        _, topic = describe_offsets_topic(self.addresses, settings.kafka)
        begin, end = self.end, topic.last_stable_offset[0]
        offsets = records_between(self.addresses, begin, end)
        missing = gaps(np.array(offsets, np.int64), begin, end)
        explained = explained_by_headers({0: missing}, {0: begin}, settings, self.addresses)[0]
        _, later = describe_offsets_topic(self.addresses, settings.kafka)
        read = Read(
            begin=begin,
            end=end,
            begin_ms=BEGAN_AT_MS,
            explained_from=explained,
            proof=Proof.BATCH_HEADERS if missing else Proof.NO_GAP,
            at_end=(later.last_stable_offset[0], now_ms()),
        )
        self.readings = self.readings or [Reading(from_offset=begin, complete_from=end, complete_from_ms=began_ms)]
        self.readings = judged(self.readings, read)
        self.end, self.read = end, self.read + len(offsets)
        marks = [mark_of(each) for each in self.stretches(None)]
        read_entries = [self.log[offset] for offset in offsets if offset in self.log]
        for group, tables in self.tables.items():
            tables.take(sorted([*marks, *(entry for of, entry in read_entries if of == group)], key=position))

    def stretches(self, known_until_ms: int | None) -> list[Stretch]:
        return stretches(self.readings, self.end, known_until_ms)


def records_between(addresses: str, begin: int, end: int) -> list[int]:
    """Returns the offsets of the committed records in [begin, end)."""
    consumer = Consumer(
        {
            "bootstrap.servers": addresses,
            "group.id": "reads nothing of its own",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([ConfluentPartition(OFFSETS_TOPIC, 0, begin)])
    offsets: list[int] = []
    deadline = time.monotonic() + WAIT_S
    try:
        while consumer.position([ConfluentPartition(OFFSETS_TOPIC, 0)])[0].offset < end:
            if time.monotonic() > deadline:
                raise TimeoutError(f"offset {end} was not reached")
            found = (message.offset() for message in consumer.consume(1_000, timeout=0.2) if not message.error())
            offsets += [offset for offset in found if offset is not None]
    finally:
        consumer.close()
    return [offset for offset in offsets if offset < end]


def play(cluster: Cluster, log: pa.Table, ledger: Ledger) -> None:
    size = -(-log.num_rows // PARTS)
    parts = [log.slice(part * size, size) for part in range(PARTS)]

    def add(part: int) -> None:
        write(cluster.addresses, parts[part])

    make_topic(cluster.addresses, replicas=2)
    cluster.await_in_sync(FIRST, SECOND)
    add(0)
    ledger.pass_over()
    cluster.second.stop()
    add(1)
    clean(cluster.first, size)
    ledger.pass_over()
    cluster.second.start()
    cluster.place_on(SECOND)
    add(2)
    ledger.pass_over()
    set_ratio(cluster.addresses, ALWAYS)
    add(3)
    cluster.place_on(SECOND, FIRST)
    await_cleaned(cluster.second, 2 * size)
    set_ratio(cluster.addresses, NEVER)
    cluster.place_on(FIRST)
    ledger.pass_over()
    add(4)
    ledger.pass_over()


def wrong(ledger: Ledger, truth: dict[str, Tables], seed: int) -> int:
    """Returns how many claims are false or missing, and prints them."""
    found = ledger.stretches(BEGAN_AT_MS + HOUR_MS)
    until_ms = (BEGAN_AT_MS, BEGAN_AT_MS + HOUR_MS)
    count = 0
    for group, tables in ledger.tables.items():
        false = false_claims(tables, truth[group], found, until_ms, Random(seed))  # noqa: S311  # runs repeat
        for each in (*false, *missing_rebalances(tables, truth[group], found)):
            count += 1
            print(f"{group}: {each}", flush=True)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=4)
    seed: int = parser.parse_args().seed
    rows = in_one_partition(MIX, seed)
    log = sorted(decoded(rows), key=lambda each: position(each[1]))
    truth = {group: folded([entry for of, entry in log if of == group]) for group in dict(log)}
    with tempfile.TemporaryDirectory(prefix="groupledger-replicas-") as directory:
        cluster = Cluster(Path(directory))
        with cluster.first, cluster.second:
            often, late = Ledger(cluster.addresses, log), Ledger(cluster.addresses, log)
            play(cluster, rows, often)
            late.pass_over()
    count = 0
    for name, ledger in (("in passes", often), ("at last", late)):
        of_ledger = wrong(ledger, truth, seed)
        count += of_ledger
        found = sum(not row["is_hole"] for tables in ledger.tables.values() for row in tables.table("rebalances"))
        print(f"read {name}: {ledger.read:,} of {rows.num_rows:,} records, {found} rebalances found, {of_ledger} wrong")
        for each in ledger.stretches(None):
            print(f"    {each.from_offset:,} to {each.to_offset:,}: {each.completeness}, {each.proof}")
    happened = sum(not row["is_hole"] for tables in truth.values() for row in tables.table("rebalances"))
    print(f"in the whole log: {happened} rebalances")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
