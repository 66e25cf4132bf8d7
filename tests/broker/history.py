"""Makes real history in `__consumer_offsets` with real clients (librdkafka, kafka-python, the Java consumer, Kafka's
admin tool) and, where no client exists, raw requests (wire.py), all against one running broker.

A scenario owns its groups and states which kinds of record must be about them afterwards, so that a test notices if it
did not make its history. Scenarios are independent and mostly wait, so they run side by side.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PlainPartition
from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.structs import OffsetAndMetadata

from lab.kafka.group_member import GroupMember
from lab.kafka.local_broker import run_tool
from lab.kafka.topics import make_topics
from tests.broker import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lab.kafka.local_broker import LocalBroker

TOPIC = "source"
PARTITIONS = 4
OTHER_TOPIC = "target"
OTHER_PARTITIONS = 2
DOOMED_TOPIC = "doomed"
MESSAGES = 40
SETTLE_SECONDS_MAX = 120
SCENARIOS_AT_ONCE = 8
HOUR_MS = 3_600_000

TOMBSTONE = "tombstone"
Kind = tuple[str, int | str]  # a record type with the version of its value, or with TOMBSTONE

OFFSET: Kind = ("offset_commit", 4)
GENERATION: Kind = ("group_metadata", 3)
MEMBER_PARTS = ("member_metadata", "target_assignment_member", "current_member_assignment")
GROUP_PARTS = ("metadata", "target_assignment_metadata", *MEMBER_PARTS)


def kinds(prefix: str, parts: Iterable[str], version: int | str = 0) -> set[Kind]:
    return {(f"{prefix}_{part}", version) for part in parts}


CONSUMER_GROUP = kinds("consumer_group", GROUP_PARTS)
CONSUMER_MEMBER_GONE = kinds("consumer_group", MEMBER_PARTS, TOMBSTONE)
CONSUMER_GROUP_GONE = kinds("consumer_group", ("metadata", "target_assignment_metadata"), TOMBSTONE)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A function that makes history, its groups, and the kinds of record that it must leave (there may be more)."""

    play: Callable[[Stage], None]
    groups: tuple[str, ...]
    leaves: frozenset[Kind]


SCENARIOS: list[Scenario] = []


def scenario(*groups: str, leaves: set[Kind]) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    def register(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        SCENARIOS.append(Scenario(play, groups, frozenset(leaves)))
        return play

    return register


class Stage:
    """The broker's address and its clients, with the settings that all scenarios share. Kafka's own tools are of the
    broker's release."""

    def __init__(self, broker: LocalBroker) -> None:
        self.bootstrap_servers = broker.bootstrap_servers
        self.jars = broker.jars

    def librdkafka(self) -> dict[str, Any]:
        """Returns librdkafka's settings; its retries while the broker creates internal topics are not logged."""
        return {"bootstrap.servers": self.bootstrap_servers, "log_level": 2}

    def consumer(self, group: str, **settings: Any) -> Consumer:
        """Returns a librdkafka consumer without subscription; settings have _ for the dot in their names."""
        chosen = {
            **self.librdkafka(),
            "group.id": group,
            "client.id": f"client-of-{group}"[:50],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        if chosen.get("group.protocol") != "consumer":
            chosen = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 200, **chosen}
        return Consumer(chosen)

    def member(self, group: str, **settings: Any) -> Consumer:
        member = self.consumer(group, **settings)
        member.subscribe([TOPIC])
        return member

    def admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)

    def delete_groups(self, *groups: str) -> None:
        with closing(self.admin()) as admin:
            admin.delete_groups(list(groups))


def settle(*members: Any, partitions: int = PARTITIONS) -> None:
    """Poll the members in turn until they all own something and own everything together."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while True:
        for member in members:
            if isinstance(member, Consumer):
                member.poll(0.05)
            else:
                member.poll(timeout_ms=1_000)
        owned = [len(member.assignment()) for member in members]
        if all(owned) and sum(owned) == partitions:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"the members own {owned} of {partitions} partitions")


def commit(member: Consumer, offset: int, metadata: str = "") -> None:
    """Commit the same offset for all that the member owns."""
    positions = [TopicPartition(owned.topic, owned.partition, offset, metadata) for owned in member.assignment()]
    member.commit(offsets=positions, asynchronous=False)


def make_history(broker: LocalBroker) -> None:
    """Play every scenario; the first that fails is raised."""
    stage = Stage(broker)
    make_topics(stage.bootstrap_servers, {TOPIC: PARTITIONS, OTHER_TOPIC: OTHER_PARTITIONS, DOOMED_TOPIC: 1})
    with wire.Connection(stage.bootstrap_servers) as connection:
        connection.await_coordinator()
    producer = Producer(stage.librdkafka())
    for number in range(MESSAGES):
        producer.produce(TOPIC, value=str(number), partition=number % PARTITIONS)
    producer.flush()
    with ThreadPoolExecutor(SCENARIOS_AT_ONCE) as pool:
        for played in [pool.submit(each.play, stage) for each in SCENARIOS]:
            played.result()


# Classic groups


@scenario("range", leaves={GENERATION, OFFSET})
def scale_out_and_in(stage: Stage) -> None:
    """One member, three, one: eager rebalances with commits in between, and the group ends empty."""
    strategy = {"partition_assignment_strategy": "range"}
    with closing(stage.member("range", **strategy)) as first:
        settle(first)
        commit(first, 1)
        with closing(stage.member("range", **strategy)) as second, closing(stage.member("range", **strategy)) as third:
            settle(first, second, third)
            for member in (first, second, third):
                commit(member, 2, "after scaling out")
        settle(first)
        commit(first, 3)


@scenario("roundrobin", leaves={GENERATION, OFFSET, ("group_metadata", TOMBSTONE), ("offset_commit", TOMBSTONE)})
def roundrobin_then_deleted(stage: Stage) -> None:
    """Two members, then none; DeleteGroups removes the group and its offsets."""
    strategy = {"partition_assignment_strategy": "roundrobin"}
    with (
        closing(stage.member("roundrobin", **strategy)) as first,
        closing(stage.member("roundrobin", **strategy)) as second,
    ):
        settle(first, second)
        commit(first, 4)
    stage.delete_groups("roundrobin")


@scenario("sticky", leaves={GENERATION})
def sticky_with_user_data(stage: Stage) -> None:
    """kafka-python: its sticky assignor sends the previous assignment as user data in the second generation.

    Only one member, for several that join at the same time from one thread lead kafka-python 3.0.12 into a series of
    rebalances.
    """
    member = GroupMember(
        bootstrap_servers=stage.bootstrap_servers,
        group_id="sticky",
        enable_auto_commit=False,
        partition_assignment_strategy=[StickyPartitionAssignor],
    )
    with closing(member):
        for topics, partitions in (([TOPIC], PARTITIONS), ([TOPIC, OTHER_TOPIC], PARTITIONS + OTHER_PARTITIONS)):
            member.subscribe(topics)
            settle(member, partitions=partitions)


@scenario("cooperative", leaves={GENERATION, OFFSET})
def cooperative_sticky(stage: Stage) -> None:
    """Incremental rebalances, where members bring what they own."""
    strategy = {"partition_assignment_strategy": "cooperative-sticky"}
    with closing(stage.member("cooperative", **strategy)) as first:
        settle(first)
        with closing(stage.member("cooperative", **strategy)) as second:
            settle(first, second)
            commit(second, 5)
        settle(first)


@scenario("static", leaves={GENERATION, OFFSET})
def static_member_replaced(stage: Stage) -> None:
    """An instance restarts within its session: the record is written again, at the same generation. Then both instances
    are removed by the administrator, for a static member does not leave when it closes."""
    instances = ("instance-0", "instance-1")
    with ExitStack() as members:
        both = [members.enter_context(closing(stage.member("static", group_instance_id=name))) for name in instances]
        settle(*both)
    with closing(stage.member("static", group_instance_id=instances[0])) as again:
        settle(again, partitions=PARTITIONS // 2)
        commit(again, 6)
    with closing(stage.admin()) as admin:
        admin.remove_group_members("static", [MemberToRemove(group_instance_id=name) for name in instances])


@scenario("java", "java-consumer", leaves={GENERATION, OFFSET, *CONSUMER_GROUP})
def java_consumers_then_reset(stage: Stage) -> None:
    """The Java client under both protocols; then the admin tool resets offsets of the classic group."""
    server = ("--bootstrap-server", stage.bootstrap_servers)
    for group, protocol in (("java", "classic"), ("java-consumer", "consumer")):
        run_tool(
            "org.apache.kafka.tools.VerifiableConsumer",
            *(*server, "--topic", TOPIC, "--group-id", group, "--group-protocol", protocol),
            *("--reset-policy", "earliest", "--max-messages", str(MESSAGES)),
            jars=stage.jars,
        )
    run_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *(*server, "--group", "java", "--topic", f"{TOPIC}:0,1", "--reset-offsets", "--to-earliest", "--execute"),
        jars=stage.jars,
    )


# A subscription to `orders` with no user data and nothing owned, past its version; versions 1 and later have this form.
SUBSCRIPTION = b"\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff\x00\x00\x00\x00"
# What a member may send that no client would. A length or count past the end of a *subscription* is not among them: the
# 4.2 broker never answers that join (it expects a SchemaException, and a RuntimeException ends its join timer).
HOSTILE_MEMBERS = {
    "hostile-empty": (b"", b""),
    "hostile-version": (b"\xff\xff\x00\x00", b"\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff"),
    "hostile-cut": (b"\x00\x03\x00\x00", b"\x00\x01\x00\x00"),
    "hostile-length": (b"\x00\x01" + SUBSCRIPTION, b"\x00\x01\x00\x00\x00\x01\x00\x09trunc"),
    "hostile-future": (
        b"\x00\x09" + SUBSCRIPTION + b"\x00\x00\x00\x05\xff\xffmore",
        b"\x00\x09\x00\x00\x00\x00\x00\x00\x00\x02himore",
    ),
    "hostile-future-partitions": (
        b"\x00\x09" + SUBSCRIPTION + b"\x00\x00\x00\x05\xff\xff",
        b"\x00\x09\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x01\x00\x00\x00\x07\xff\xff\xff\xff",
    ),
}
# Bytes that the tool prints as if they were whole, and that are broken to us (schemas/codec/json_form.py).
LENIENTLY_PRINTED_MEMBERS = {
    "lenient-utf8": (b"\x00\x00\x00\x00\x00\x01\x00\x02\xc3(\xff\xff\xff\xff", b""),
    "lenient-length": (b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xfe", b""),
}


@scenario(*HOSTILE_MEMBERS, *LENIENTLY_PRINTED_MEMBERS, "hostile-type", leaves={GENERATION})
def members_with_any_bytes(stage: Stage) -> None:
    """Makes members with any bytes: nobody checks what a member sends, and only its members know what another protocol
    type means."""
    cases = [(name, "consumer", *sent) for name, sent in (HOSTILE_MEMBERS | LENIENTLY_PRINTED_MEMBERS).items()]
    with wire.Connection(stage.bootstrap_servers) as broker:
        for group, protocol_type, metadata, assignment in [*cases, ("hostile-type", "x" * 300, b"\x00", b"\xff" * 999)]:
            member = broker.join_and_lead(
                group, protocol_type=protocol_type, protocol="range", metadata=metadata, assignment=assignment
            )
            broker.leave(group, member)


# Commits from outside of a group's generations

METADATA = ("plain", "größe 😀", 'two\nlines\tand "quotes" \\', "ends in NUL\x00", "\x7f\u2028\ufeff", "")


@scenario("simple", leaves={OFFSET, ("offset_commit", TOMBSTONE)})
def simple_consumer(stage: Stage) -> None:
    """assign() and commit, with every kind of metadata, then DeleteConsumerGroupOffsets for one partition."""
    partitions = [PlainPartition(TOPIC, number) for number in range(PARTITIONS)]
    settings = {"bootstrap_servers": stage.bootstrap_servers, "group_id": "simple", "enable_auto_commit": False}
    with closing(KafkaConsumer(**settings)) as consumer:
        consumer.assign(partitions)
        for offset, metadata in enumerate(METADATA):
            consumer.commit({partitions[offset % PARTITIONS]: OffsetAndMetadata(offset, metadata, offset - 1)})
    with closing(stage.admin()) as admin:
        admin.delete_group_offsets("simple", partitions[:1])


ODD_GROUPS = ("", "größe 😀", 'a "b" \\c\\ {"d": [1]}', "line\nbreak\ttab\x00nul\x7f", "payload: x", "é" * 1_000)


@scenario(*ODD_GROUPS, leaves={("offset_commit", 1)})
def odd_names_and_explicit_retention(stage: Stage) -> None:
    """OffsetCommit 2 with a retention gives value version 1; any text is a group id, the empty one too."""
    with wire.Connection(stage.bootstrap_servers) as broker:
        for number, group in enumerate(ODD_GROUPS):
            metadata = METADATA[number % len(METADATA)] or None
            broker.commit_with_retention(group, TOPIC, 0, number - 1, metadata=metadata, retention_ms=HOUR_MS)


@scenario("bereft", leaves={OFFSET, ("offset_commit", TOMBSTONE)})
def topic_deleted(stage: Stage) -> None:
    """The offsets of a deleted topic become tombstones."""
    with closing(stage.admin()) as admin:
        admin.alter_group_offsets("bereft", {PlainPartition(DOOMED_TOPIC, 0): OffsetAndMetadata(7, "", -1)})
        admin.delete_topics([DOOMED_TOPIC])


@scenario("transactional", leaves={OFFSET})
def transactional_commits(stage: Stage) -> None:
    """A transaction that commits its offsets, and one that aborts."""
    with closing(stage.member("transactional")) as member:
        settle(member)
        producer = Producer({**stage.librdkafka(), "transactional.id": "ledger"})
        producer.init_transactions()
        for offset, end in (
            (TRANSACTION_COMMITTED, producer.commit_transaction),
            (TRANSACTION_ABORTED, producer.abort_transaction),
        ):
            producer.begin_transaction()
            producer.produce(OTHER_TOPIC, b"copied")
            positions = [TopicPartition(TOPIC, number, offset) for number in range(PARTITIONS)]
            producer.send_offsets_to_transaction(positions, member.consumer_group_metadata())
            end()


TRANSACTION_COMMITTED = 8
TRANSACTION_ABORTED = 9


# KIP-848 groups, share groups, streams groups


@scenario(
    "consumer",
    leaves={
        OFFSET,
        *CONSUMER_GROUP,
        *CONSUMER_MEMBER_GONE,
        *CONSUMER_GROUP_GONE,
        ("consumer_group_partition_metadata", TOMBSTONE),
    },
)
def consumer_group(stage: Stage) -> None:
    """Two members of the new protocol join and leave; then the group is deleted."""
    with closing(stage.member("consumer", group_protocol="consumer")) as first:
        settle(first)
        commit(first, 10)
        second_settings = {"group_protocol": "consumer", "group_remote_assignor": "range", "client_rack": "rack-2"}
        with closing(stage.member("consumer", **second_settings)) as second:
            settle(first, second)
            commit(second, 11)
        settle(first)
    stage.delete_groups("consumer")


@scenario("consumer-static", leaves={*CONSUMER_GROUP, *CONSUMER_MEMBER_GONE})
def consumer_group_static_member(stage: Stage) -> None:
    """A static member leaves for a while (epoch -2) and comes back under a new member id."""
    for _ in range(2):
        with closing(stage.member("consumer-static", group_protocol="consumer", group_instance_id="one")) as member:
            settle(member)


@scenario("consumer-regex", leaves={*CONSUMER_GROUP, ("consumer_group_regular_expression", 0)})
def consumer_group_by_regular_expression(stage: Stage) -> None:
    """The broker resolves the expression and records the topics."""
    with closing(stage.consumer("consumer-regex", group_protocol="consumer")) as member:
        member.subscribe([f"^{TOPIC[:-1]}.$"])
        settle(member)


@scenario("upgraded", leaves={GENERATION, ("group_metadata", TOMBSTONE), *CONSUMER_GROUP, *CONSUMER_GROUP_GONE})
def classic_group_upgraded_and_back(stage: Stage) -> None:
    """A member of the new protocol joins a live classic group, which changes its kind, and back when it leaves."""
    with closing(stage.member("upgraded", partition_assignment_strategy="range")) as classic:
        settle(classic)
        with closing(stage.member("upgraded", group_protocol="consumer")) as modern:
            settle(classic, modern)
        settle(classic)


SHARE_GROUP = kinds("share_group", (*GROUP_PARTS, "state_partition_metadata"))


@scenario("share", leaves={*SHARE_GROUP, *kinds("share_group", MEMBER_PARTS, TOMBSTONE)})
def share_group(stage: Stage) -> None:
    """Two members share the topic's partitions and leave."""
    with wire.Connection(stage.bootstrap_servers) as broker:
        for member in ("A" * 22, "B" * 22):
            epoch = broker.share_heartbeat("share", member, 0, [TOPIC])
            broker.share_heartbeat("share", member, epoch)
        for member in ("A" * 22, "B" * 22):
            broker.share_heartbeat("share", member, -1)


STREAMS_GROUP = kinds("streams_group", (*GROUP_PARTS, "topology"))


@scenario("streams", leaves={*STREAMS_GROUP, *kinds("streams_group", MEMBER_PARTS, TOMBSTONE)})
def streams_group(stage: Stage) -> None:
    """Two members run one subtopology; the first gives tasks up for the second, then both leave."""
    no_topics = wire.compact_array([])
    subtopology = wire.compact_string("0") + wire.compact_array([wire.compact_string(TOPIC)]) + no_topics * 5
    topology = b"\x01" + wire.int32(0) + wire.compact_array([subtopology + wire.NO_TAGS]) + wire.NO_TAGS
    with wire.Connection(stage.bootstrap_servers) as broker:
        epoch = broker.streams_heartbeat("streams", "A" * 22, 0, topology=topology)
        broker.streams_heartbeat("streams", "B" * 22, 0, topology=topology)
        epoch = broker.streams_heartbeat("streams", "A" * 22, epoch)
        broker.streams_heartbeat("streams", "A" * 22, epoch, tasks=no_topics)
        for member in ("A" * 22, "B" * 22):
            broker.streams_heartbeat("streams", member, -1)
