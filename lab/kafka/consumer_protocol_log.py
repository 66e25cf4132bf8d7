"""Runs events of KIP-848 groups with Kafka's own consumers, and stores the records that a broker writes.

`python -m lab.kafka.consumer_protocol_log FOLDER FILE [RELEASE]` makes `FILE` again. It has a JSON line for each record
of the three groups, in the order of their log, with the last step that had begun by the record's time. Random ids of
topics and members are replaced by names in the order of first appearance (`id-1`), and times count from the first
record, so that the file has nothing of the machine. FOLDER has the broker's data. The broker's release is 4.2 if none
is named; the consumers are those of 4.2.

A step ends when the consumers own all partitions between them and have reported nothing for a moment. The broker's
descriptions of its KIP-848 groups (ConsumerGroupDescribe) then go to a second file beside it, `..._described.jsonl`.
"""

from __future__ import annotations

import json
import re
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka.admin import KafkaAdminClient

from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.messages import ConsumerGroupDescribeRequest
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.codec.records import decode_record
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.records.decoded_record import base64_text, record_fields
from lab.kafka.local_broker import JARS_OF_RELEASE, LocalBroker
from lab.kafka.matrix import JAVA, Host, now_ms
from lab.kafka.oracle import read_topic
from lab.kafka.topics import make_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from groupledger.jobs.kafka.brokers import Brokers
    from lab.kafka.oracle import Position, Stored

    Log = list[tuple[Position, Stored]]

DYNAMIC, STATIC, MIGRATED = "dynamic", "static", "migrated"
TOPICS = {DYNAMIC: 4, STATIC: 2, MIGRATED: 2}
PROPERTIES = {"group.consumer.session.timeout.ms": "3000", "offsets.topic.num.partitions": "1"}
SETTLE_S_MAX, QUIET_S = 40, 1.2
# Neither names of fields nor types of records; some of these are as long as an id.
RANDOM_ID = re.compile(
    r'(?<!"record_type": )"([A-Za-z0-9_-]{22}|(?:[\w-]+-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"(?!:)'
)


class Stage:
    """Runs the consumers of the groups, which have short names, and stores the time at which each step began."""

    def __init__(self, bootstrap_servers: str, host: Host, brokers: Brokers) -> None:
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
        self.host = host
        self.brokers = brokers
        self.steps: list[tuple[int, str]] = []
        self.described: list[tuple[int, dict[str, object]]] = []

    def step(self, name: str) -> None:
        if self.steps:
            self.describe()
        self.steps.append((now_ms(), name))

    def describe(self) -> None:
        """Stores the broker's descriptions of the groups at the end of the present step."""
        answer = self.brokers.send(ConsumerGroupDescribeRequest(group_ids=[*TOPICS]), self.brokers.nodes()[0])
        for group in answer.groups:
            if not group.error_code:
                self.described.append((now_ms(), {"step": self.steps[-1][1], **described_group(group)}))

    def start(self, group: str, name: str, *, host: Host | None = None, **settings: str) -> None:
        given = {
            "group.id": group,
            "client.id": f"{group}-{name}",
            "group.protocol": "consumer",
            "auto.commit.interval.ms": "500",
            "metadata.max.age.ms": "500",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        words = [word for pair in given.items() for word in pair]
        (host or self.host).send("start", f"{group}-{name}", group, *words)

    def order(self, action: str, group: str, name: str) -> None:
        self.host.send(action, f"{group}-{name}")

    def settle(self, group: str, *names: str, partitions: int = 0, hosts: tuple[Host, ...] = ()) -> None:
        """Waits until the consumers `names` own all partitions of the group, each at least one, and have reported
        nothing for a moment. `partitions` is their number if the topic has grown."""
        wanted = partitions or TOPICS[group]

        def is_settled() -> bool:
            of_host = [(host, f"{group}-{name}") for host in (self.host, *hosts) for name in names]
            owned = [host.owned[name] for host, name in of_host if host.owned.get(name)]
            spoke_at = max(host.spoke_at.get(name, 0.0) for host, name in of_host)
            is_whole = len(owned) == len(names) and sum(map(len, owned)) == len(set().union(*owned)) == wanted
            return is_whole and time.monotonic() - spoke_at > QUIET_S

        await_(is_settled, f"{', '.join(names)} of {group} to own {wanted} partitions")


def described_group(group: Any) -> dict[str, object]:
    """Returns a KIP-848 group of the broker's answer to ConsumerGroupDescribe as a dictionary. The group must not have
    an error, as an unknown or a classic one has."""

    def owned(assignment: Any) -> dict[str, list[int]]:
        return {each.topic_name: sorted(each.partitions) for each in assignment.topic_partitions}

    return {
        "group_id": group.group_id,
        "state": group.group_state,
        "epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "member_epoch": member.member_epoch,
                "assigned": owned(member.assignment),
                "target": owned(member.target_assignment),
            }
            for member in group.members
        ],
    }


def await_(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SETTLE_S_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {SETTLE_S_MAX} s for {what}")
        time.sleep(0.05)


def play_dynamic(stage: Stage, victims: Host) -> None:
    """Plays joins, a release that waits for a poll loop, a kill, another partition, and leaves."""
    stage.step("a joins")
    stage.start(DYNAMIC, "a")
    stage.settle(DYNAMIC, "a")
    stage.step("b joins, and a does not poll")
    stage.order("stall", DYNAMIC, "a")
    stage.start(DYNAMIC, "b")
    time.sleep(QUIET_S)
    stage.step("a polls again")
    stage.order("resume", DYNAMIC, "a")
    stage.settle(DYNAMIC, "a", "b")
    stage.step("v joins")
    stage.start(DYNAMIC, "v", host=victims)
    stage.settle(DYNAMIC, "a", "b", "v", hosts=(victims,))
    stage.step("v is killed")
    victims.kill()
    stage.settle(DYNAMIC, "a", "b")
    stage.step("the topic grows")
    stage.admin.create_partitions({DYNAMIC: TOPICS[DYNAMIC] + 1})
    stage.settle(DYNAMIC, "a", "b", partitions=TOPICS[DYNAMIC] + 1)
    stage.step("b leaves")
    stage.order("close", DYNAMIC, "b")
    stage.settle(DYNAMIC, "a", partitions=TOPICS[DYNAMIC] + 1)
    stage.step("a leaves")
    stage.order("close", DYNAMIC, "a")
    time.sleep(QUIET_S)


def play_static(stage: Stage) -> None:
    """Plays a static member that goes away and comes back under another member id, and sessions that end."""
    stage.step("i0 and i1 join")
    for name in ("i0", "i1"):
        stage.start(STATIC, name, group_instance_id=name)
    stage.settle(STATIC, "i0", "i1")
    stage.step("i1 goes away")
    stage.order("close", STATIC, "i1")
    time.sleep(QUIET_S)
    stage.step("i1 comes back")
    stage.start(STATIC, "i1", group_instance_id="i1")
    stage.settle(STATIC, "i0", "i1")
    stage.step("i0 and i1 go away and their sessions end")
    for name in ("i0", "i1"):
        stage.order("close", STATIC, name)
    time.sleep(int(PROPERTIES["group.consumer.session.timeout.ms"]) / 1000 + QUIET_S)


def play_migration(stage: Stage) -> None:
    """Plays a group of one classic member, which a KIP-848 member joins and leaves again."""
    stage.step("a classic member joins")
    stage.start(MIGRATED, "classic", group_protocol="classic")
    stage.settle(MIGRATED, "classic")
    stage.step("a member of KIP-848 joins: an upgrade")
    stage.start(MIGRATED, "new")
    stage.settle(MIGRATED, "classic", "new")
    stage.step("it leaves: a downgrade")
    stage.order("close", MIGRATED, "new")
    stage.settle(MIGRATED, "classic")
    stage.step("the classic member leaves")
    stage.order("close", MIGRATED, "classic")
    time.sleep(QUIET_S)


def play(broker: LocalBroker) -> Stage:
    """Plays all steps on the broker, and returns the stage, which has the steps and the broker's descriptions at the
    end of each."""
    address = broker.bootstrap_servers
    with Host(JAVA, address) as host, Host(JAVA, address) as victims, connect(address, load_settings()) as brokers:
        stage = Stage(address, host, brokers)
        with closing(stage.admin):
            make_topics(address, TOPICS)
            play_dynamic(stage, victims)
            play_static(stage)
            play_migration(stage)
            stage.describe()
    return stage


def group_level_records(stored: Log, steps: list[tuple[int, str]]) -> Iterator[dict[str, Any]]:
    """Yields all records but offset commits, each with its step, and with its value as in `coordinator_records`."""
    for (_, offset), each in stored:
        record = decode_record(each.key, each.value)
        if "offset_commit" not in record.record_type:
            fields = record_fields(record)
            if fields.get("assignment_timestamp_ms"):
                fields["assignment_timestamp_ms"] -= stored[0][1].timestamp_ms
            yield {
                "step": [name for at_ms, name in steps if at_ms <= each.timestamp_ms][-1],
                "kafka_offset": offset,
                "after_ms": each.timestamp_ms - stored[0][1].timestamp_ms,
                "record_type": record.record_type,
                "key": record.key,
                "value": record.value and {name: fields[name] for name in fields if name not in record.key},
            }


def anonymous(line: str, names: dict[str, str]) -> str:
    """Returns the line with each random id replaced by a name, in the order of first appearance. `names` has those
    given so far."""

    def name_of(match: re.Match[str]) -> str:
        return f'"{names.setdefault(match[1], f"id-{len(names) + 1}")}"'

    return RANDOM_ID.sub(name_of, line)


def main(folder: str, file: str, release: str = "4.2") -> None:
    with LocalBroker(Path(folder), properties=PROPERTIES, jars=JARS_OF_RELEASE[release]) as broker:
        stage = play(broker)
        stored = sorted(read_topic(broker, OFFSETS_TOPIC, "read_uncommitted").items())
    names: dict[str, str] = {}
    began_ms = stored[0][1].timestamp_ms
    described = ({"after_ms": at_ms - began_ms, **group} for at_ms, group in stage.described)
    path = Path(file)
    for records, where in (
        (group_level_records(stored, stage.steps), path),
        (described, path.with_name(f"{path.stem}_described{path.suffix}")),
    ):
        lines = [anonymous(json.dumps(record, default=base64_text), names) for record in records]
        where.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
