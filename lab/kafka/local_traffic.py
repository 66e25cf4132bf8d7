"""Runs real consumers for the demo: for some seconds, members of a few groups join, leave, restart and commit.

The plot is the table `TENURES`, whose times are fractions of the whole time. Every member is a kafka-python consumer in
a thread of its own, as in a service. In addition a producer writes records, and a batch job commits without joining its
group. All threads end in bounded time with every client closed, also when one of them fails or the caller is
interrupted.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorError,
)
from kafka.structs import OffsetAndMetadata

from lab.kafka.group_member import GroupMember
from lab.kafka.topics import make_topics

TOPICS = {"orders": 6, "payments": 3, "clicks": 4}
MESSAGES_PER_SECOND = 100
POLL_MS_MAX = 500
SESSION_MS = 10_000
HEARTBEAT_MS = 500
COMMIT_INTERVAL_MS = 1_000
CALL_MS_MAX = 5_000  # no call to the broker waits longer
OFFSETS_TOPIC_S_MAX = 60

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


@dataclass(frozen=True, slots=True)
class Tenure:
    """One consumer's time in a group. `joins` and `leaves` are fractions of the whole time."""

    group: str
    topics: tuple[str, ...]
    joins: float
    leaves: float
    assignor: str = "range"
    instance_id: str | None = None


TENURES = (
    # Scales from one to three, and in to two.
    Tenure("checkout", ("orders", "payments"), 0.0, 1.0),
    Tenure("checkout", ("orders", "payments"), 0.25, 0.7),
    Tenure("checkout", ("orders", "payments"), 0.25, 1.0),
    # One member comes and goes.
    Tenure("fraud", ("payments",), 0.05, 1.0, "roundrobin"),
    Tenure("fraud", ("payments",), 0.4, 0.8, "roundrobin"),
    # Two instances; the second restarts within its session, so that nothing moves.
    Tenure("billing", ("orders",), 0.0, 1.0, "sticky", "billing-0"),
    Tenure("billing", ("orders",), 0.0, 0.5, "sticky", "billing-1"),
    Tenure("billing", ("orders",), 0.55, 1.0, "sticky", "billing-1"),
    # Runs for a while; the group is deleted at the end.
    Tenure("preview", ("clicks",), 0.1, 0.6),
)
DELETED_GROUP = "preview"
SIMPLE_GROUP = "nightly-export"


class TrafficError(Exception):
    """Raised with one sentence about a failure between the clients and the broker."""


@dataclass(frozen=True, slots=True)
class _Stage:
    bootstrap_servers: str
    start: float
    seconds: float
    stop: threading.Event

    def remaining(self, fraction: float) -> float:
        """Returns the seconds until a fraction of the time has passed, 0 if it has or if all must end."""
        return 0.0 if self.stop.is_set() else max(0.0, self.start + fraction * self.seconds - time.monotonic())


def run_demo_traffic(bootstrap_servers: str, seconds: float) -> None:
    """Plays the whole plot, and returns at most a few seconds after `seconds`. The topics may exist already."""
    try:
        make_topics(bootstrap_servers, TOPICS)
        _play(_Stage(bootstrap_servers, time.monotonic(), seconds, threading.Event()))
        _delete_group(bootstrap_servers)
    except KafkaError as error:
        raise TrafficError(f"A client of the demo's traffic failed: {error}") from error


def make_offsets_topic(bootstrap_servers: str) -> None:
    """Makes the broker create `__consumer_offsets`, by asking for a group's offsets until its coordinator answers."""
    deadline = time.monotonic() + OFFSETS_TOPIC_S_MAX
    try:
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers, bootstrap_timeout_ms=CALL_MS_MAX)) as admin:
            while time.monotonic() < deadline:
                with suppress(CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError):
                    admin.list_group_offsets(SIMPLE_GROUP)
                    return
                time.sleep(POLL_MS_MAX / 1_000)
    except KafkaError as error:
        raise TrafficError(f"The broker did not say who coordinates a group: {error}") from error
    raise TrafficError(f"The broker had no group coordinator after {OFFSETS_TOPIC_S_MAX} s.")


def _play(stage: _Stage) -> None:
    with ThreadPoolExecutor(len(TENURES) + 2) as pool:
        played = [pool.submit(_produce, stage), pool.submit(_commit_without_joining, stage)]
        played += [pool.submit(_be_member, stage, tenure) for tenure in TENURES]
        try:
            wait(played, return_when=FIRST_EXCEPTION)
        finally:
            stage.stop.set()
    for each in played:
        each.result()


def _produce(stage: _Stage) -> None:
    producer = KafkaProducer(bootstrap_servers=stage.bootstrap_servers, max_block_ms=CALL_MS_MAX)
    try:
        number = 0
        while stage.remaining(1.0):
            for topic in TOPICS:
                producer.send(topic, key=str(number % 1_000).encode(), value=f"message {number}".encode())
            number += 1
            stage.stop.wait(len(TOPICS) / MESSAGES_PER_SECOND)
    finally:
        producer.close(timeout=CALL_MS_MAX / 1_000)


def _be_member(stage: _Stage, tenure: Tenure) -> None:
    stage.stop.wait(stage.remaining(tenure.joins))
    if stage.stop.is_set():
        return
    consumer = GroupMember(
        bootstrap_servers=stage.bootstrap_servers,
        client_id=tenure.instance_id or tenure.group,
        group_id=tenure.group,
        group_instance_id=tenure.instance_id,
        partition_assignment_strategy=[ASSIGNORS[tenure.assignor]],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    try:
        consumer.subscribe(tenure.topics)
        while remaining := stage.remaining(tenure.leaves):
            consumer.poll(timeout_ms=min(POLL_MS_MAX, int(remaining * 1_000) + 1))
    finally:
        consumer.close(timeout_ms=CALL_MS_MAX)


def _commit_without_joining(stage: _Stage) -> None:
    """A batch job that chooses its partitions itself and notes its progress, with a remark, now and then."""
    consumer = KafkaConsumer(bootstrap_servers=stage.bootstrap_servers, group_id=SIMPLE_GROUP, enable_auto_commit=False)
    try:
        partitions = [TopicPartition("clicks", number) for number in range(TOPICS["clicks"])]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while stage.remaining(1.0):
            consumer.poll(timeout_ms=POLL_MS_MAX)
            positions = [(each, consumer.position(each, timeout_ms=CALL_MS_MAX)) for each in partitions]
            progress = {each: OffsetAndMetadata(position or 0, "exported so far", -1) for each, position in positions}
            consumer.commit(progress, timeout_ms=CALL_MS_MAX)
            stage.stop.wait(min(COMMIT_INTERVAL_MS / 1_000, stage.remaining(1.0)))
    finally:
        consumer.close(timeout_ms=CALL_MS_MAX)


def _delete_group(bootstrap_servers: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers, bootstrap_timeout_ms=CALL_MS_MAX)) as admin:
        answer = admin.delete_groups([DELETED_GROUP])[DELETED_GROUP]  # "OK" or the error's name, whatever its help says
    if answer != "OK":
        raise TrafficError(f"The broker did not delete the group {DELETED_GROUP!r}: {answer}.")
