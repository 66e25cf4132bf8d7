"""Plays the same short life of groups of real consumers on two clusters, and compares the records of their
coordinators, and the requests of the consumers.

The consumers of a case join one after the other, one of them closes (a static one comes back), and all close at the
end. Each step waits until the consumers own all partitions. The topics' records are written before.

The comparison has no ids and no times, so it gives equal results if both coordinators do the same. Of a classic group
it has each generation with its leader, its members and their partitions. Of a KIP-848 group it has each epoch and, for
each target, how many partitions each member gets; which ones it gets depends on ids that clients draw. In addition it
has the last committed offsets. A kafka-python consumer that leads sometimes joins once more on either cluster
(`lab.kafka.group_member`), so a generation that repeats the one before is left out.

The requests of Java's client, which sends the same each time, are compared, too: APIs, versions and errors in the order
of the answers. Left out are heartbeats and commits, whose number depends on time, the search for the coordinator, and
whether another member's JoinGroup overtook a SyncGroup.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.offsets_partition import partition_for
from groupledger.coordinator.simulator.request_log import render_line
from groupledger.jobs.coordinator.testing import coordinator
from groupledger.schemas.codec.consumer_protocol import decode_assignment
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.logs.rules.request_log import parse_request_line
from groupledger.transforms.privacy import Privacy
from lab.kafka.connection import Connection, read_offsets_topic
from lab.kafka.local_traffic import make_offsets_topic
from lab.kafka.matrix import JAVA, KAFKA_PYTHON, PARTITIONS, Group, Stage
from lab.kafka.topics import make_topics

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from groupledger.schemas.codec.records import Record
    from lab.kafka.local_broker import LocalBroker
    from lab.kafka.matrix import Case

RECORDS = 40  # in each partition
OFFSETS_PARTITIONS = 50
TIMED = frozenset(api.name for api in (ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.FIND_COORDINATOR))


@dataclass
class Story:
    """What is compared of one group's records: its generations or epochs in `steps`, and its last committed offsets."""

    steps: list[tuple[Any, ...]] = field(default_factory=list)
    committed: dict[TopicPartition, int] = field(default_factory=dict)


def play(bootstrap_servers: str, cases: Sequence[Case]) -> dict[str, Story]:
    """Plays all cases side by side, and returns a story of each group, by group id."""
    with ExitStack() as stack:
        groups = []
        for client in dict.fromkeys(case.client for case in cases):
            of_client = [case for case in cases if case.client == client]
            stage = stack.enter_context(Stage(bootstrap_servers, client, len(of_client)))
            stack.callback(stage.victims.kill)
            groups += [Group(stage, case) for case in of_client]
        topics = {group.topic: PARTITIONS for group in groups}
        make_topics(bootstrap_servers, topics)
        _produce(bootstrap_servers, topics)
        with ThreadPoolExecutor(len(groups)) as pool:
            for playing in [pool.submit(_live, group) for group in groups]:
                playing.result()
    return {case.group: story(bootstrap_servers, case) for case in cases}


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


def story(bootstrap_servers: str, case: Case) -> Story:
    group_id = case.group
    found, members, targets = Story(), dict[str, str](), dict[str, int]()
    with closing(Connection(bootstrap_servers)) as connection:
        for _, appended in read_offsets_topic(connection, partition_for(group_id, OFFSETS_PARTITIONS), 0):
            record = appended.record
            if record.key.get("group_id") == group_id:
                _add_record(found, members, targets, record)
    if case.client == KAFKA_PYTHON:
        found.steps = list(_without_repeated(found.steps))
    return found


def _without_repeated(generations: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    last, repeated = None, 0
    for number, *content in generations:
        if last == (number - 1, content):
            repeated += 1
        else:
            yield number - repeated, *content
        last = number, content


def _add_record(found: Story, members: dict[str, str], targets: dict[str, int], record: Record) -> None:
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


Asked = dict[tuple[str, str], list[tuple[str, int, str]]]


def asked_in(lines: Iterable[str], groups: Collection[str]) -> Asked:
    """Returns the requests in the lines of a request log that clients of these groups sent, by group and client id."""
    found: Asked = defaultdict(list)
    for line in lines:
        row = parse_request_line(line, "UTC", Privacy()).row
        if row is None or row["group_id"] not in groups or row["api"] in TIMED:
            continue
        if row["api"] != ApiKey.CONSUMER_GROUP_HEARTBEAT.name or row["generation"] <= 0:  # it joins or leaves
            is_overtaken = row["api"] == ApiKey.SYNC_GROUP.name and row["error"] == Error.REBALANCE_IN_PROGRESS.name
            error = Error.NONE.name if is_overtaken else row["error"]
            found[row["group_id"], row["client_id"]].append((row["api"], row["api_version"], error))
    return found


def differences(broker: LocalBroker, cases: Sequence[Case]) -> list[str]:
    """Plays the cases on a broker that logs requests and, at the same time, on a coordinator behind a socket. Returns a
    text for each difference, and for each group without records or requests."""
    make_offsets_topic(broker.bootstrap_servers)
    begin = broker.request_log.stat().st_size
    config = Config(
        group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=500, group_consumer_heartbeat_interval_ms=500
    )
    with coordinator({}, rate=0, nodes=1, config=config) as kafka, ThreadPoolExecutor(2) as pool:
        of_broker = pool.submit(play, broker.bootstrap_servers, cases)
        of_socket = play(kafka.bootstrap_servers, cases)
        stories = of_broker.result()
        exchanges = kafka.exchanges()
    of_java = {case.group for case in cases if case.client == JAVA}
    with broker.request_log.open("rb") as log:
        log.seek(begin)
        there = asked_in(log.read().decode().splitlines(), of_java)
    here = asked_in(map(render_line, exchanges), of_java)
    return [
        *(f"{group} wrote nothing" for group, each in stories.items() if not (each.steps and each.committed)),
        *(f"{group} asked nothing" for group in of_java - {group for group, _ in there}),
        *(
            f"{group}\n  socket: {one}\n  broker: {other}"
            for group, story in stories.items()
            for one, other in zip_longest(of_socket[group].steps, story.steps)
            if one != other
        ),
        *_unequal(_committed(of_socket), _committed(stories)),
        *_unequal(here, there),
    ]


def _unequal(here: Mapping[Any, Any], there: Mapping[Any, Any]) -> Iterator[str]:
    for key in sorted(here.keys() | there.keys()):
        if here.get(key) != there.get(key):
            yield f"{key}\n  socket: {here.get(key)}\n  broker: {there.get(key)}"


def _committed(stories: Mapping[str, Story]) -> dict[str, dict[TopicPartition, int]]:
    return {group: story.committed for group, story in stories.items()}
