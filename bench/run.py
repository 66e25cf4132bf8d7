"""`make bench` measures the time of reading and decoding `__consumer_offsets`, and that of Kafka's own tools, in one
run.

A real broker is filled with commits of value version 4. The log is then read
- by Kafka's console consumer with its offsets formatter, and by DumpLogSegments: whole processes;
- by `groupledger ingest` into a new warehouse: as a whole process (cold), and again inside one session (warm), in which
  the next thousand records follow, again and again;
- by the decoder alone, and by the same Arrow round trip with an identity function: interleaved runs over one capture.
The program prints medians with minimum and maximum, and how many times as fast as the console consumer each reader of
the whole log is. It checks every count of records. Machines differ and are noisy: only the figures of one run may be
compared.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from groupledger.jobs.ingest.capture import capture
from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic
from groupledger.jobs.process.session import spark_session
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.ledger import open_ledger
from groupledger.schemas.codec.records import Record, encode_record
from groupledger.schemas.kafka.names import ADMIN_CLIENT_ID, OFFSETS_TOPIC
from groupledger.transforms.records.decode import KAFKA_COLUMNS, decode
from lab.kafka.local_broker import LocalBroker, run_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 50
GROUPS, TOPICS, TOPIC_PARTITIONS = 200, 2, 10
LITTLE = 1_000
RUNS = 5
WARM_UPS = 2
FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    count = parser.parse_args().records
    with (
        tempfile.TemporaryDirectory(prefix="groupledger-bench-") as name,
        LocalBroker(Path(name) / "kafka", properties={"log.cleaner.enable": "false"}, jvm_options=()) as broker,
    ):
        total = fill(broker.bootstrap_servers, count)
        print(f"{total:,} records in {PARTITIONS} partitions; medians (least to most)\n", flush=True)
        reference_s = kafka_tools(broker, total)
        total = count_records(broker.bootstrap_servers)
        cold(Path(name), broker.bootstrap_servers, total, reference_s)
        spark = spark_session("groupledger bench")
        warm(Path(name), broker.bootstrap_servers, total, reference_s)
        decode_beside_identity(spark, Path(name), broker.bootstrap_servers, total)
        little(Path(name), broker.bootstrap_servers)
        followed(Path(name), broker.bootstrap_servers)
        spark.stop()


def fill(bootstrap_servers: str, count: int) -> int:
    """Fills `__consumer_offsets` and returns the number of records. A first commit makes the broker create the topic,
    and only `ADMIN_CLIENT_ID` may write to it."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result()
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "first"})
    while not committed(consumer):
        threading.Event().wait(0.2)
    consumer.close()
    produce(bootstrap_servers, count)
    return count + 1


def produce(bootstrap_servers: str, count: int) -> None:
    """Writes so many commits of all partitions in turns."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "client.id": ADMIN_CLIENT_ID, "linger.ms": 50, "batch.size": 500_000}
        | {"queue.buffering.max.messages": count}
    )
    keys = [
        commit_bytes(f"group-{group}", f"topic-{topic}", partition, 0)[0]
        for group in range(GROUPS)
        for topic in range(TOPICS)
        for partition in range(TOPIC_PARTITIONS)
    ]
    for number in range(count):
        index = number * 7919 % len(keys)
        _, value = commit_bytes("g", "t", 0, number)
        group = index // (TOPICS * TOPIC_PARTITIONS)
        producer.produce(OFFSETS_TOPIC, value, keys[index], partition=group % PARTITIONS)
    if producer.flush(120) != 0:
        raise TimeoutError("the broker did not take all records")


def committed(consumer: Consumer) -> bool:
    try:
        consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    except KafkaException:
        return False
    return True


def commit_bytes(group_id: str, topic: str, partition: int, number: int) -> tuple[bytes, bytes | None]:
    key = {"group_id": group_id, "topic": topic, "partition": partition}
    value = {"offset": number, "leader_epoch": 0, "metadata": "", "commit_timestamp_ms": 1_760_000_000_000 + number}
    return encode_record(Record("offset_commit", key, 4, value))


def count_records(bootstrap_servers: str) -> int:
    """Counts the records again: the console consumer has joined a group of its own, which wrote some."""
    _, topic = describe_offsets_topic(bootstrap_servers, load_settings().kafka)
    return sum(topic.high_watermark.values())


def kafka_tools(broker: LocalBroker, total: int) -> float:
    """Measures Kafka's own readers, and returns the seconds of the console consumer."""
    arguments = ["--bootstrap-server", broker.bootstrap_servers, "--topic", OFFSETS_TOPIC, "--from-beginning"]
    arguments += ["--max-messages", str(total), "--formatter", FORMATTER]
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    formatter = tool(consumer, arguments)
    reference_s = measure("console consumer, offsets formatter, whole process", total, formatter, runs=3)
    segments = sorted(str(path) for path in broker.data_directory.glob(f"{OFFSETS_TOPIC}-*/*.log"))
    arguments = ["--offsets-decoder", "--files", ",".join(segments)]
    dump = tool("kafka.tools.DumpLogSegments", arguments)
    measure("DumpLogSegments --offsets-decoder, whole process", total, dump, reference_s, runs=3)
    return reference_s


def tool(main_class: str, arguments: list[str]) -> Callable[[], object]:
    return lambda: run_tool(main_class, *arguments, jvm_options=(), timeout_seconds=600, discard_output=True)


def cold(directory: Path, bootstrap_servers: str, total: int, reference_s: float) -> None:
    numbers = iter(range(100))

    def ingest() -> None:
        warehouse = directory / f"cold-{next(numbers)}"
        command = [
            sys.executable,
            "-m",
            "groupledger.jobs.cli.main",
            "ingest",
            "--bootstrap-servers",
            bootstrap_servers,
        ]
        answer = subprocess.run(
            [*command, "--warehouse", str(warehouse)], capture_output=True, text=True, check=True, timeout=600
        )
        if f"{total:,} records read" not in answer.stderr:
            raise AssertionError(answer.stderr)

    measure("groupledger ingest, whole process (cold)", total, ingest, reference_s, runs=3)


def warm(directory: Path, bootstrap_servers: str, total: int, reference_s: float) -> None:
    """Measures the job in a Spark session that has run it before, and the time of its micro-batch alone."""
    settings = load_settings()
    seconds: list[float] = []
    numbers = iter(range(100))

    def say(text: str) -> None:
        seconds.extend(seconds_of_batch(text))

    def ingest() -> None:
        with open_ledger(settings, str(directory / f"warm-{next(numbers)}"), "bench", say) as ledger:
            totals = ingest_kafka(ledger, KafkaIngest(settings, bootstrap_servers), threading.Event())
        if totals.rows != total:
            raise AssertionError(totals)

    for _ in range(WARM_UPS):
        ingest()
    seconds.clear()
    measure("groupledger ingest, the job in a warm session", total, ingest, reference_s)
    report("  of which the micro-batch: read, decode, Delta", total, seconds, reference_s)


def little(directory: Path, bootstrap_servers: str) -> None:
    """Measures the job in a warm session with few new records, in a warehouse of `warm`."""
    settings = load_settings()
    micro_batches: list[float] = []
    jobs: list[float] = []

    def say(text: str) -> None:
        micro_batches.extend(seconds_of_batch(text))

    with open_ledger(settings, str(directory / "warm-0"), "bench", say) as ledger:
        for _ in range(WARM_UPS + RUNS):
            produce(bootstrap_servers, LITTLE)
            began = time.perf_counter()
            totals = ingest_kafka(ledger, KafkaIngest(settings, bootstrap_servers), threading.Event())
            jobs.append(time.perf_counter() - began)
            if totals.rows != LITTLE:
                raise AssertionError(totals)
    report(f"{LITTLE:,} records more, the job in a warm session", LITTLE, jobs[WARM_UPS:])
    report("  of which the micro-batch", LITTLE, micro_batches[WARM_UPS:])


def followed(directory: Path, bootstrap_servers: str) -> None:
    """Measures the micro-batches of a running query, as a monitor has it, with few records at a time."""
    settings, stop = load_settings(), threading.Event()
    micro_batches: list[float] = []

    def say(text: str) -> None:
        micro_batches.extend(seconds_of_batch(text))

    with open_ledger(settings, str(directory / "warm-0"), "bench", say) as ledger:
        ingest = KafkaIngest(settings, bootstrap_servers, is_continuous=True)
        query = threading.Thread(target=ingest_kafka, args=(ledger, ingest, stop))
        query.start()
        for number in range(WARM_UPS + RUNS):
            produce(bootstrap_servers, LITTLE)
            while query.is_alive() and len(micro_batches) <= number:
                time.sleep(0.1)
        stop.set()
        query.join()
    report("  a micro-batch of a query that stays", LITTLE, micro_batches[WARM_UPS:])


def seconds_of_batch(text: str) -> list[float]:
    """Returns how long a micro-batch took, if a sentence of a job reports it."""
    return [float(text.split(" in ")[1].split(" s", maxsplit=1)[0])] if text.startswith("batch") else []


def decode_beside_identity(spark: SparkSession, directory: Path, bootstrap_servers: str, total: int) -> None:
    copied = capture(spark, load_settings(), bootstrap_servers, str(directory / "capture"), lambda _text: None)
    if copied != total:
        raise AssertionError(f"{copied} records were captured")
    rows = spark.read.parquet(str(directory / "capture")).select(*KAFKA_COLUMNS).coalesce(2)
    plans = {"identity": rows.mapInArrow(identity, rows.schema), "decode": decode(rows)}
    seconds: dict[str, list[float]] = {name: [] for name in plans}
    for run in range(WARM_UPS + RUNS):
        for name, plan in plans.items():
            one = timed(functools.partial(write_nowhere, plan))
            if run >= WARM_UPS:
                seconds[name].append(one)
    for name, measured in seconds.items():
        report(f"capture through Arrow and Python: {name}", total, measured)
    ratios = [one / other for one, other in zip(seconds["decode"], seconds["identity"], strict=True)]
    print(f"  decode / identity: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def identity(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def write_nowhere(plan: DataFrame) -> None:
    plan.write.format("noop").mode("overwrite").save()


def measure(
    name: str, total: int, action: Callable[[], Any], reference_s: float | None = None, *, runs: int = RUNS
) -> float:
    return report(name, total, [timed(action) for _ in range(runs)], reference_s)


def timed(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def report(name: str, total: int, seconds: list[float], reference_s: float | None = None) -> float:
    """Prints a line, with how many times as fast as the reference the median is, and returns the median."""
    median = statistics.median(seconds)
    spread = f"({min(seconds):.2f} to {max(seconds):.2f})"
    times = "" if reference_s is None else f" {reference_s / median:6.2f} times"
    print(f"{name:<52} {median:7.2f} s {spread:<18} {total / median:>11,.0f} records/s{times}", flush=True)
    return median


if __name__ == "__main__":
    main()
