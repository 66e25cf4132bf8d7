"""Plays the same short life of groups of real consumers on two clusters, and tells what their coordinators wrote of it.

Consumers of a case join one after the other, one closes (a static one comes back), and all close in the end; each step
waits until the partitions are shared. The topic's records are there before. What is told holds no ids and no times, so
that it is equal wherever a coordinator does the same: of a classic group each generation with its leader, members and
their partitions; of a KIP-848 one each epoch and, for each target, how many partitions each member gets, since which
ones depends on ids that clients draw; and the offsets that were committed last.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.coordinator import partition_for
from groupledger.jobs.coordinator.testing import coordinator
from groupledger.schemas.codec.consumer_protocol import decode_assignment
from groupledger.schemas.kafka.topic_partition import TopicPartition
from lab.kafka.connection import Connection, read_offsets_topic
from lab.kafka.matrix import PARTITIONS, Group, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.schemas.codec.records import Record
    from lab.kafka.matrix import Case

RECORDS = 40  # in each partition
OFFSETS_PARTITIONS = 50


@dataclass
class Story:
    """What the records of one group tell."""

    steps: list[tuple[Any, ...]] = field(default_factory=list)
    committed: dict[TopicPartition, int] = field(default_factory=dict)


def play(bootstrap_servers: str, cases: Sequence[Case]) -> dict[str, Story]:
    """Plays all cases side by side, and returns their stories by group."""
    with ExitStack() as stack:
        groups = []
        for client in dict.fromkeys(case.client for case in cases):
            of_client = [case for case in cases if case.client == client]
            stage = stack.enter_context(Stage(bootstrap_servers, client, len(of_client)))
            stack.callback(stage.victims.kill)
            groups += [Group(stage, case) for case in of_client]
        with closing(groups[0].stage.admin()) as admin:
            topics = {group.topic: {"num_partitions": PARTITIONS, "replication_factor": 1} for group in groups}
            admin.create_topics(topics, wait_for_metadata=True)
        _produce(bootstrap_servers, topics)
        with ThreadPoolExecutor(len(groups)) as pool:
            for playing in [pool.submit(_live, group) for group in groups]:
                playing.result()
    return {case.group: story(bootstrap_servers, case.group) for case in cases}


def _produce(bootstrap_servers: str, topics: Iterable[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    for topic in topics:
        for number in range(PARTITIONS * RECORDS):
            producer.produce(topic, b"order", partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def _live(group: Group) -> None:
    group.start("a")
    group.settle("a")
    group.start("b")
    group.settle("a", "b")
    group.close("b")
    if group.case.is_static:
        group.start("b")
        group.settle("a", "b")
        group.close("b")
        group.remove("b")
    group.settle("a")
    group.close("a")
    if group.case.is_static:
        group.remove("a")


def story(bootstrap_servers: str, group_id: str) -> Story:
    found, members, targets = Story(), dict[str, str](), dict[str, int]()
    with closing(Connection(bootstrap_servers)) as connection:
        for _, appended in read_offsets_topic(connection, partition_for(group_id, OFFSETS_PARTITIONS), 0):
            record = appended.record
            if record.key.get("group_id") == group_id:
                _tell(found, members, targets, record)
    return found


def _tell(found: Story, members: dict[str, str], targets: dict[str, int], record: Record) -> None:
    value, kind = record.value, record.record_type
    if kind == "offset_commit" and value is not None:
        found.committed[TopicPartition(record.key["topic"], record.key["partition"])] = value["offset"]
    elif kind == "group_metadata" and value is not None:
        found.steps.append(_generation(value))
    elif kind == "consumer_group_member_metadata" and value is not None:
        members[record.key["member_id"]] = value["client_id"]
    elif kind == "consumer_group_metadata" and value is not None:
        found.steps.append(("epoch", value["epoch"]))
    elif kind == "consumer_group_target_assignment_member":
        targets.pop(record.key["member_id"], None)
        if value is not None:
            targets[record.key["member_id"]] = sum(len(each["partitions"]) for each in value["topic_partitions"])
    elif kind == "consumer_group_target_assignment_metadata" and value is not None:
        shares = sorted((members[member_id], count) for member_id, count in targets.items())
        found.steps.append(("target", value["assignment_epoch"], shares))


def _generation(value: dict[str, Any]) -> tuple[Any, ...]:
    clients = {each["member_id"]: each["client_id"] for each in value["members"]}
    members = sorted(
        (each["client_id"], each["group_instance_id"], each["session_timeout_ms"], _partitions(each["assignment"]))
        for each in value["members"]
    )
    return value["generation"], value["protocol"], clients.get(value["leader"]), members


def _partitions(assignment: bytes) -> list[tuple[str, tuple[int, ...]]]:
    if not assignment:
        return []
    topics = decode_assignment(assignment).fields["assigned_partitions"]
    return sorted((each["topic"], tuple(sorted(each["partitions"]))) for each in topics)


def differences(bootstrap_servers: str, cases: Sequence[Case]) -> list[str]:
    """Plays the cases on a broker and, at the same time, on a coordinator on a socket; returns what differs, and
    which groups told nothing."""
    config = Config(
        group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=500, group_consumer_heartbeat_interval_ms=500
    )
    with coordinator({}, rate=0, nodes=1, config=config) as kafka, ThreadPoolExecutor(2) as pool:
        of_broker = pool.submit(play, bootstrap_servers, cases)
        of_socket = play(kafka.bootstrap_servers, cases)
    found = []
    for group, story_there in of_broker.result().items():
        story_here = of_socket[group]
        if not (story_there.steps and story_there.committed):
            found.append(f"{group} told nothing")
        for one, other in zip_longest(story_here.steps, story_there.steps):
            if one != other:
                found.append(f"{group}\n  socket: {one}\n  broker: {other}")
        if story_here.committed != story_there.committed:
            found.append(f"{group}\n  socket: {story_here.committed}\n  broker: {story_there.committed}")
    return found
