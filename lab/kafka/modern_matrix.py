"""Lets share consumers and Streams applications of Kafka's Java client join, leave, be killed and stall at random, and
compares the history of their groups with the broker's descriptions.

The groups live side by side on one broker. After each step the group comes to rest, and the broker describes it
(`modern_groups_log.Stage`). Later the records that were written by then are folded, and the history is compared with
the description. It is known which changes a step may make, so the cause of each epoch is compared with these, too, and
no epoch may lack a cause. Two things are not played: Streams groups of 4.2 have no static members, and no consumer of
another protocol becomes a member of a Streams group while it runs.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kafka.admin import KafkaAdminClient

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kinds import changes as kinds
from groupledger.schemas.words import GroupType
from groupledger.transforms.records.decoded_record import base64_text
from lab.kafka.consumer_protocol_log import group_level_records
from lab.kafka.modern_groups_log import SHARE, STANDBYS, STREAMS, STREAMS_SETTINGS, TOPICS, Host, Stage
from lab.kafka.oracle import read_topic
from lab.kafka.topics import make_topics
from lab.truth.consumer_groups import History, event_of_line
from lab.truth.modern_groups import differs_from, topic_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from lab.kafka.local_broker import LocalBroker

GROUPS = {SHARE: GroupType.SHARE, STREAMS: GroupType.STREAMS}
MEMBERS_MAX = 5
STALL_S = 6  # twice the session
PARTITIONS_MAX = 8
STANDBYS_MAX = 2
_LEAVE = {kinds.MEMBER_LEFT, kinds.GROUP_EMPTIED, kinds.PARTITIONS_FREED}
_JOIN = {kinds.GROUP_STARTED, kinds.MEMBER_JOINED, kinds.PARTITIONS_INITIALIZED, kinds.TOPOLOGY_READY}
# The possible causes of the epochs of a step.
MAY_CHANGE = {
    "join": _JOIN,
    "leave": _LEAVE,
    "kill": _LEAVE,
    "stall": _JOIN | _LEAVE,
    "subscribe": {kinds.SUBSCRIPTION_CHANGED, kinds.PARTITIONS_INITIALIZED, kinds.PARTITIONS_FREED},
    "grow": {kinds.TOPICS_CHANGED, kinds.PARTITIONS_INITIALIZED},
    "standbys": {kinds.ASSIGNMENT_CONFIGURED},
}


@dataclass
class Compared:
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Play:
    """Plays the steps of one group. Its members run in `stage.host`, or in a second process that may be killed or
    stopped."""

    def __init__(self, stage: Stage, group_id: str, dice: Random, hosts: Callable[[], Host], topics: str) -> None:
        self.stage, self.group_id, self.dice, self._hosts = stage, group_id, dice, hosts
        self.group_type = GROUPS[group_id]
        self._topics = topics.split(",")
        self._partition_count = TOPICS[self._topics[0]]
        self._members: dict[str, Host] = {}
        self._victims: Host | None = None
        self._made = 0
        self._subscribed: dict[str, tuple[str, ...]] = {}

    def step(self, admin: KafkaAdminClient) -> None:
        """Does one random action that is possible now, and waits until the group is at rest."""
        actions: dict[str, Callable[[], None]] = {}
        if len(self._members) < MEMBERS_MAX:
            actions["join"] = self._join
        if self._members:
            actions["leave"] = self._leave
        if self._victims is not None:
            actions |= {"kill": self._kill, "stall": self._stall}
        if self.group_type == GroupType.SHARE and self._members:
            actions["subscribe"] = self._subscribe
            if self._partition_count < PARTITIONS_MAX:
                actions["grow"] = partial(self._grow, admin)
        if self.group_type == GroupType.STREAMS and self._members:
            actions["standbys"] = self._set_standbys
        names = [*actions]
        # Members come more often than they go.
        name = self.dice.choices(names, [3 if each == "join" else 1 for each in names])[0]
        self.stage.step(f"{self.group_id} {name} {len(self.stage.steps)}")
        actions[name]()
        states = ("Stable",) if self._members else ("Empty", "Dead")
        self.stage.settle(self.group_type, self.group_id, len(self._members), states)

    def end(self) -> None:
        if self._victims is not None:
            self._victims.kill()

    def _join(self) -> None:
        host = self.stage.host
        if self.dice.random() < 0.5:
            self._victims = host = self._victims or self._hosts()
        self._made += 1
        name = f"{self.group_id}-{self._made}"
        self._members[name] = host
        if self.group_type == GroupType.STREAMS:
            host.streams(name, *self._topics)
            return
        self._subscribed[name] = tuple(self.dice.sample(self._topics, self.dice.randint(1, len(self._topics))))
        host.share(name, *self._subscribed[name])

    def _leave(self) -> None:
        name = self.dice.choice([*self._members])
        self._members.pop(name).order("close", name)

    def _kill(self) -> None:
        assert self._victims is not None
        self._victims.kill()
        self._members = {name: host for name, host in self._members.items() if host is not self._victims}
        self._victims = None

    def _stall(self) -> None:
        assert self._victims is not None
        self._victims.signal(signal.SIGSTOP)
        time.sleep(STALL_S)
        self._victims.signal(signal.SIGCONT)

    def _subscribe(self) -> None:
        name = self.dice.choice([*self._members])
        others = [topic for topic in self._topics if (topic,) != self._subscribed[name]]
        self._subscribed[name] = (self.dice.choice(others),)
        self._members[name].order("subscribe", name, ",".join(self._subscribed[name]))

    def _grow(self, admin: KafkaAdminClient) -> None:
        self._partition_count += 1
        admin.create_partitions({self._topics[0]: self._partition_count})

    def _set_standbys(self) -> None:
        self.stage.configure(self.group_id, **{STANDBYS: str(self.dice.randint(0, STANDBYS_MAX))})


def play(broker: LocalBroker, dice: Random, steps: int) -> Compared:
    """Plays `steps` steps of each group on a broker that does not have these groups yet, and returns the comparison."""
    address, folder = broker.bootstrap_servers, broker.directory
    make_topics(address, TOPICS)

    def new_host() -> Host:
        return Host(address, folder / "state")

    with closing(KafkaAdminClient(bootstrap_servers=address)) as admin, new_host() as host:
        stage = Stage(broker, host)
        stage.configure(STREAMS, **STREAMS_SETTINGS)
        plays = [
            Play(stage, SHARE, dice, new_host, "pages,clicks"),
            Play(stage, STREAMS, dice, new_host, "orders,refunds"),
        ]
        try:
            for _ in range(steps):
                for each in plays:
                    each.step(admin)
        finally:
            for each in plays:
                each.end()
    return compared(broker, stage)


def compared(broker: LocalBroker, stage: Stage) -> Compared:
    stored = sorted(read_topic(broker, OFFSETS_TOPIC, "read_uncommitted").items())
    began_ms = stored[0][1].timestamp_ms
    steps = [(min(stage.steps[0][0], began_ms), stage.steps[0][1]), *stage.steps[1:]]
    lines = (json.dumps(record, default=base64_text) for record in group_level_records(stored, steps))
    log = [json.loads(line) for line in lines]
    found = Compared()
    for group_id, group_type in GROUPS.items():
        records = [record for record in log if record["key"]["group_id"] == group_id]
        described = [said for said in stage.described if said["group_id"] == group_id]
        found.wrong += wrong_in(group_id, group_type, records, described, began_ms, topic_names(log), found.counts)
    return found


def wrong_in(
    group_id: str,
    group_type: str,
    records: Sequence[dict[str, Any]],
    described: Sequence[dict[str, Any]],
    began_ms: int,
    names: dict[str, str],
    counts: Counter[str],
) -> list[str]:
    """Returns a sentence for each difference between a group's history and the broker's descriptions. Adds to `counts`
    what was compared."""
    history, rest, wrong = History(group_id), [*records], []
    for said in described:
        seen = [record for record in rest if began_ms + record["after_ms"] <= said["at_ms"]]
        rest = rest[len(seen) :]
        history.fold([event_of_line(record, names) for record in seen])
        if said["state"] == "Dead":
            continue
        differences = differs_from(said, history.tables, group_type)
        counts[f"{group_type} descriptions"] += 1
        counts[f"{group_type} members"] += len(said["members"])
        counts[f"{group_type} partitions or tasks held"] += sum(
            len(each) for member in said["members"] for each in member["holds"]
        )
        wrong += [f"{said['step']}: {each}" for each in differences]
    step_of = {record["kafka_offset"]: record["step"] for record in records}
    for row in sorted(history.tables["rebalances"].values(), key=itemgetter("kafka_offset")):
        owner, what, _ = (step := step_of[row["kafka_offset"]]).split()
        changes = {each["kind"] for each in row["changes"] or ()}
        counts[f"{group_type} causes"] += 1
        if owner != group_id or not changes or not changes <= {each.name for each in MAY_CHANGE[what]}:
            wrong.append(f"{step}: the epoch {row['to_generation']} shows {sorted(changes) or 'nothing'}")
    return wrong
