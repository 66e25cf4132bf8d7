"""Goal: each fault of real consumers of three clients is one episode, with its root, found in the broker's own logs.

Each client has groups of its own: in `poll-CLIENT` a consumer processes for longer than its poll interval and then
commits, in `pause-CLIENT` a whole process is stopped past its session, in `twice-CLIENT` another process starts under
an instance id that is in use. In `raw` a commit with an old generation is sent as bytes. All of it happens at once.

Requests that a broker refuses from members of consumer groups (KIP-848) and of streams groups are sent as bytes, too,
in groups of their own: `refused` and `topology` get refusals that last, `repaired` those that a client recovers from at
once, and in `slow` a member gives nothing up."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest

from groupledger.coordinator.model.messages import ConsumerGroupHeartbeatRequest, OffsetCommitRequest, OffsetToCommit
from groupledger.schemas.kinds.incidents import REFUSALS
from groupledger.transforms.incidents.rules import GroupFacts, Rules, incidents
from lab.kafka.broker_driver import GROUP_KEY, await_groups, await_topic
from lab.kafka.connection import Connection
from lab.kafka.group_member import GroupMember
from lab.kafka.group_messages import to_wire
from lab.kafka.incident_facts import events_of, refused_lines, requests_of
from lab.kafka.matrix import JAVA, KAFKA_PYTHON, LIBRDKAFKA, Host
from lab.kafka.producers import retried
from lab.kafka.topics import make_topics
from lab.truth.scores import replayed_answers
from tests.broker import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lab.kafka.local_broker import LocalBroker

CLIENTS = (JAVA, LIBRDKAFKA, KAFKA_PYTHON)
SESSION_MS = 8_000
POLL_INTERVAL_MS = 10_000
TOO_LONG_S = 16
SETTLE_S_MAX = 90
AWAKE_S = 6  # for a woken client to learn what it missed
ROOTS = {
    "poll": "poll_timeout_exceeded",
    "pause": "session_expired",
    "twice": "instance_started_twice",
    "raw": "stale_generation_kept",
}
GROUPS = [*(f"{what}-{client}" for what in ("poll", "pause", "twice") for client in CLIENTS), "raw"]
SECOND_GENERATION = 2
PARTITIONS = 2
RECORDS = 20
SETTINGS = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 1_000,
    "max.poll.interval.ms": POLL_INTERVAL_MS,
    "auto.offset.reset": "earliest",
}


def settings(group: str, name: str, **others: str) -> dict[str, Any]:
    return {**SETTINGS, "group.id": group, "client.id": f"{group}-{name}", **others}


def start(host: Host, group: str, name: str, **others: str) -> None:
    chosen = settings(group, name, **{"partition.assignment.strategy": _strategy(group), **others})
    words = [str(word) for pair in {**chosen, "auto.commit.interval.ms": 500}.items() for word in pair]
    host.send("start", f"{group}-{name}", group, *words)


def _strategy(group: str) -> str:
    return "org.apache.kafka.clients.consumer.RangeAssignor" if group.endswith(JAVA) else "range"


def await_owned(group: str, hosts: Iterable[Host], *names: str) -> None:
    """Until these consumers own all partitions between them, each something."""
    deadline = time.monotonic() + SETTLE_S_MAX
    while True:
        owned = [len(host.owned.get(f"{group}-{name}", ())) for name in names for host in hosts]
        if sum(owned) == PARTITIONS and sum(map(bool, owned)) == len(names):
            return
        assert time.monotonic() < deadline, f"{group}: {names} own {owned}"
        time.sleep(0.1)


def await_coordinators(connection: Connection, groups: list[str]) -> None:
    """Until no request of these groups is refused only because the broker is new: the first one makes it create
    `__consumer_offsets`."""
    retried(connection, FindCoordinatorRequest(version=3, key=groups[0], key_type=GROUP_KEY))
    await_groups(connection, groups)


def await_record(poll: Callable[[], object]) -> None:
    deadline = time.monotonic() + SETTLE_S_MAX
    while not poll():
        assert time.monotonic() < deadline


def await_assignment(poll: Callable[[], object], assignment: Callable[[], Iterable[Any]]) -> None:
    """The first polls may still belong to the assignment that is lost."""
    deadline = time.monotonic() + AWAKE_S
    while time.monotonic() < deadline or not list(assignment()):
        poll()
        assert time.monotonic() < deadline + SETTLE_S_MAX


# A consumer that processes for too long, and then commits


def oversleep_with_librdkafka(bootstrap_servers: str, group: str) -> None:
    given = {"bootstrap.servers": bootstrap_servers, "enable.auto.commit": "false", "log_level": 2}
    consumer = Consumer({**settings(group, "a"), **given})
    consumer.subscribe([group])
    await_record(lambda: consumer.poll(0.5))
    time.sleep(TOO_LONG_S)
    with suppress(KafkaException):
        consumer.commit(asynchronous=False)
    await_assignment(lambda: consumer.poll(0.5), consumer.assignment)
    consumer.close()


def oversleep_with_kafka_python(bootstrap_servers: str, group: str) -> None:
    given = {name.replace(".", "_"): value for name, value in settings(group, "a").items()}
    consumer = GroupMember(bootstrap_servers=bootstrap_servers, enable_auto_commit=False, **given)
    consumer.subscribe([group])
    await_record(lambda: consumer.poll(timeout_ms=500, max_records=1))
    time.sleep(TOO_LONG_S)
    with suppress(KafkaError):
        consumer.commit()
    await_assignment(lambda: consumer.poll(timeout_ms=500), consumer.assignment)
    consumer.close()


def oversleep_with_java(host: Host, group: str) -> None:
    start(host, group, "a")
    await_owned(group, [host], "a")
    host.send("stall", f"{group}-a")
    time.sleep(TOO_LONG_S)
    host.send("resume", f"{group}-a")


# The others


def pause(stayers: Host, victims: Host, group: str) -> None:
    start(stayers, group, "b")
    start(victims, group, "a")
    await_owned(group, [stayers, victims], "a", "b")
    time.sleep(1)
    os.kill(victims.pid, signal.SIGSTOP)
    time.sleep(TOO_LONG_S)
    os.kill(victims.pid, signal.SIGCONT)


def start_twice(first: Host, second: Host, group: str) -> None:
    start(first, group, "a", **{"group.instance.id": "i"})
    await_owned(group, [first], "a")
    start(second, group, "b", **{"group.instance.id": "i"})


def commit_with_an_old_generation(broker: LocalBroker, host: Host) -> None:
    """A second member makes the group rebalance; the first one then names its new generation in a heartbeat."""
    start(host, "raw", "a")
    await_owned("raw", [host], "a")
    start(host, "raw", "b")
    await_owned("raw", [host], "a", "b")
    generation, member_id = 0, ""
    deadline = time.monotonic() + SETTLE_S_MAX
    while generation < SECOND_GENERATION:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        for each in requests_of(broker).get("raw", ()):
            if each.api == "HEARTBEAT" and each.client_id == "raw-a":
                generation, member_id = each.generation or 0, each.member_id or ""
    offsets = (OffsetToCommit(topic="raw", partition=0, offset=RECORDS),)
    request = OffsetCommitRequest(
        0, "raw", offsets=offsets, generation_id=generation - 1, member_id=member_id, api_version=9
    )
    with closing(Connection(broker.bootstrap_servers)) as connection:
        connection.call(to_wire(request))


@pytest.fixture(scope="module")
def played(broker: LocalBroker) -> dict[str, GroupFacts]:
    """What the logs hold of each group."""
    servers = broker.bootstrap_servers
    make_topics(servers, dict.fromkeys(GROUPS, PARTITIONS))
    with closing(Connection(servers)) as connection:
        await_coordinators(connection, GROUPS)
    with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
        for number in range(RECORDS):
            for group in GROUPS:
                producer.send(group, b"value", partition=number % PARTITIONS)
        producer.flush()
    stayers = {client: Host(client, servers) for client in CLIENTS}
    victims = {client: Host(client, servers) for client in CLIENTS}
    impostors = {client: Host(client, servers) for client in CLIENTS}
    plays = [
        threading.Thread(target=oversleep_with_librdkafka, args=(servers, f"poll-{LIBRDKAFKA}")),
        threading.Thread(target=oversleep_with_kafka_python, args=(servers, f"poll-{KAFKA_PYTHON}")),
        threading.Thread(target=oversleep_with_java, args=(stayers[JAVA], f"poll-{JAVA}")),
        threading.Thread(target=commit_with_an_old_generation, args=(broker, stayers[LIBRDKAFKA])),
    ]
    for client in CLIENTS:
        plays.append(threading.Thread(target=pause, args=(stayers[client], victims[client], f"pause-{client}")))
        twice = (stayers[client], impostors[client], f"twice-{client}")
        plays.append(threading.Thread(target=start_twice, args=twice))
    try:
        for play in plays:
            play.start()
        for play in plays:
            play.join()
        time.sleep(AWAKE_S)
    finally:
        for host in (*stayers.values(), *victims.values(), *impostors.values()):
            host.kill()
    requests, events = requests_of(broker), events_of(broker)
    now_ms = int(time.time() * 1_000)
    return {group: GroupFacts(group, now_ms, requests.get(group, []), events.get(group, [])) for group in GROUPS}


@pytest.mark.parametrize("group", GROUPS)
def test_one_episode(broker: LocalBroker, played: dict[str, GroupFacts], group: str) -> None:
    """Goal: one episode above severity info, with the right root and one incident for each kind; every line of the log
    with a refusal is in an incident."""
    rows = incidents(played[group], Rules())
    reported = "\n".join(
        f"{row['severity']} {row['episode_id'][:4]} {row['kind']}, {row['probable_root']}: {row['explanation']}"
        for row in rows
    )
    grave = [row for row in rows if row["severity"] != "info"]
    assert {row["probable_root"] for row in grave} == {ROOTS[group.partition("-")[0]]}, reported
    assert len({row["episode_id"] for row in grave}) == 1, reported
    assert len({row["kind"] for row in grave}) == len(grave), reported
    refusals = {kind.name for kind in REFUSALS}
    assert sum(row["occurrences"] for row in rows if row["kind"] in refusals) == len(refused_lines(broker, group)), (
        reported
    )


def test_the_reference_coordinator_agrees(played: dict[str, GroupFacts]) -> None:
    """Goal: asked the same in the same order, it answers as the broker did, but where arrivals are tied.

    An arrival is a log time less a duration, each cut to what the log prints: on a busy machine two requests of a group
    may change places. The answers that follow then differ until the group's next generation. So one group in five may
    differ, and of all answers one in fifty.
    """
    differences = []
    compared = 0
    for group, facts in played.items():
        answers = replayed_answers(facts, initial_rebalance_delay_ms=0)
        compared += len(answers)
        differences += [
            (group, request.api, request.line_number, request.error_code, error)
            for request, error in answers
            if request.error_code != error
        ]
    assert compared > 100 * len(CLIENTS)
    assert len({group for group, *_ in differences}) <= len(played) // 5, differences
    assert len(differences) <= compared // 50, differences


# Modern groups

EPOCHS = "epochs"  # the topic
MODERN = ("refused", "repaired", "slow", "topology")
JOIN: dict[str, Any] = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": (EPOCHS,), "owned": {}}
RETRY_S = 0.2  # a client asks again after its retry.backoff.ms, 0.1 s
LATER_MS = 120_000  # nothing recovers any more
MEMBERS = [letter * 22 for letter in "ABCDEFG"]


def beat(connection: Connection, group: str, member: int, epoch: int, **words: Any) -> int:
    who: dict[str, Any] = {"member_id": MEMBERS[member], "member_epoch": epoch}
    code: int = connection.call(to_wire(ConsumerGroupHeartbeatRequest(0, group, **who, **words))).error_code
    return code


def commit(connection: Connection, group: str, member: int, epoch: int) -> int:
    offsets = (OffsetToCommit(topic=EPOCHS, partition=0, offset=0),)
    who: dict[str, Any] = {"member_id": MEMBERS[member], "generation_id": epoch, "api_version": 9}
    answer = connection.call(to_wire(OffsetCommitRequest(0, group, offsets=offsets, **who)))
    code: int = answer.topics[0].partitions[0].error_code
    return code


def topology(topic: str) -> bytes:
    """One subtopology with one source topic, in epoch 0."""
    none = wire.compact_array([])
    subtopology = wire.compact_string("0") + wire.compact_array([wire.compact_string(topic)]) + none * 5
    return b"\x01" + wire.int32(0) + wire.compact_array([subtopology + wire.NO_TAGS]) + wire.NO_TAGS


def be_refused(connection: Connection) -> None:
    """Sends what no retry helps."""
    assert beat(connection, "refused", 0, 0, **JOIN) == 0
    assert beat(connection, "refused", 0, 9) == 110
    assert beat(connection, "refused", 1, 0, **JOIN, server_assignor="theirs") == 112
    assert beat(connection, "refused", 2, 0, **JOIN, subscribed_topic_regex="[") == 128
    assert beat(connection, "refused", 3, 0, **JOIN, instance_id="i") == 0
    assert beat(connection, "refused", 4, 0, **JOIN, instance_id="i") == 111
    assert commit(connection, "refused", 0, 99) == 113


def repair(connection: Connection) -> None:
    """Sends what a client sends that retries, and that is started again."""
    assert beat(connection, "repaired", 0, 0, **JOIN, instance_id="i") == 0
    assert [beat(connection, "repaired", 0, epoch, instance_id="i") for epoch in (1, 1)] == [0, 0]
    assert [commit(connection, "repaired", 0, epoch) for epoch in (0, 1)] == [113, 0]
    assert beat(connection, "repaired", 1, 0, **JOIN, instance_id="i") == 111
    assert beat(connection, "repaired", 0, -2, instance_id="i") == 0
    time.sleep(RETRY_S)
    assert beat(connection, "repaired", 1, 0, **JOIN, instance_id="i") == 0
    assert beat(connection, "repaired", 1, -1, instance_id="i") == 0


def give_nothing_up(connection: Connection) -> None:
    assert [beat(connection, "slow", member, 0, **JOIN) for member in (0, 1)] == [0, 0]
    assert beat(connection, "slow", 0, 1) == 0
    time.sleep(1.5)
    assert beat(connection, "slow", 0, 1) == 25


def bring_topologies(raw: wire.Connection) -> None:
    with pytest.raises(wire.BrokerError, match="error code 130"):
        raw.streams_heartbeat("topology", MEMBERS[0], 0, topology=topology("__consumer_offsets"))
    raw.streams_heartbeat("topology", MEMBERS[1], 0, topology=topology(EPOCHS))
    with pytest.raises(wire.BrokerError, match="error code 42"):
        raw.streams_heartbeat("topology", MEMBERS[2], 0, topology=topology("another"))


@pytest.fixture(scope="module")
def modern(broker: LocalBroker) -> dict[str, GroupFacts]:
    """What the logs hold of each modern group."""
    make_topics(broker.bootstrap_servers, {EPOCHS: 2})
    with closing(Connection(broker.bootstrap_servers)) as connection, wire.Connection(broker.bootstrap_servers) as raw:
        await_coordinators(connection, [*MODERN])
        # What has not heard of the topic gives other epochs, or fails with an exception (streams groups of 4.2.0).
        await_topic(connection, EPOCHS, [*MODERN])
        be_refused(connection)
        repair(connection)
        give_nothing_up(connection)
        bring_topologies(raw)
    deadline = time.monotonic() + SETTLE_S_MAX
    while not any(each.error_code == 25 for each in requests_of(broker).get("slow", ())):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    requests, events = requests_of(broker), events_of(broker)
    then_ms = int(time.time() * 1_000) + LATER_MS
    return {group: GroupFacts(group, then_ms, requests[group], events[group]) for group in MODERN}


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (
            "refused",
            {
                ("fenced_member_epoch", "warning", 9),
                ("unsupported_assignor", "error", 0),
                ("invalid_regex", "error", 0),
                ("unreleased_instance_id", "error", 0),
                ("stale_member_epoch", "error", 99),
            },
        ),
        ("repaired", set()),
        ("slow", {("rebalance_timeout_fenced", "warning", None), ("unknown_member", "warning", 1)}),
        ("topology", {("streams_invalid_topology", "error", 0), ("streams_topology_changed", "error", 0)}),
    ],
)
def test_refusals_of_modern_groups(
    modern: dict[str, GroupFacts], group: str, expected: set[tuple[str, str, int | None]]
) -> None:
    """Goal: each lasting refusal, and each fenced member, is reported once, with the epoch that the member claimed; a
    refusal from which a client recovers at once is not reported."""
    rows = incidents(modern[group], Rules())
    assert {(row["kind"], row["severity"], row["claimed_generation"]) for row in rows} == expected
    assert {row["occurrences"] for row in rows} <= {1}
