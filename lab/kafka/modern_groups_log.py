"""Plays share and streams groups with Kafka's own clients, and stores the records that a broker writes about them.

`python -m lab.kafka.modern_groups_log FOLDER FILE` makes `FILE` again. It has a JSON line for each record, in the form
of `consumer_protocol_log`. The broker's descriptions of the groups at the end of each step go to a second file beside
it, `..._described.jsonl`. FOLDER gets the broker's data.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka.admin import KafkaAdminClient

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.words import GroupType
from groupledger.transforms.records.decoded_record import base64_text
from lab.kafka.consumer_protocol_log import anonymous, group_level_records
from lab.kafka.local_broker import LocalBroker, run_tool
from lab.kafka.matrix import JAVA_MODERN, PROGRAMS, java_program, now_ms
from lab.kafka.oracle import read_topic
from lab.kafka.topics import make_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from typing_extensions import Self

    Step = tuple[str, int, Callable[[], Any]]
    """What happens, how many members the group has then, and what is done for it."""

SHARE, STREAMS = "shared", "application"
TOPICS = {"pages": 4, "clicks": 2, "orders": 3, "refunds": 2}
SESSIONS = {
    f"group.{group_type}.{name}.ms": value
    for group_type in (GroupType.SHARE, GroupType.STREAMS)
    for name, value in {
        "min.session.timeout": "500",
        "session.timeout": "3000",
        "min.heartbeat.interval": "100",
        "heartbeat.interval": "500",
    }.items()
}
PROPERTIES = {"offsets.topic.num.partitions": "1", **SESSIONS}
# Changes on their own, so that a group's own settings do not take the place of the broker's.
STREAMS_SETTINGS = {"streams.session.timeout.ms": "3000", "streams.heartbeat.interval.ms": "500"}
STANDBYS = "streams.num.standby.replicas"
SETTLE_S_MAX, QUIET_S, LOOK_EVERY_S = 90.0, 4.0, 1.0


class Host:
    """A JVM with share consumers and Streams applications."""

    def __init__(self, bootstrap_servers: str, state: Path) -> None:
        self._state = state
        self._process = subprocess.Popen(
            [*java_program(PROGRAMS[JAVA_MODERN]), bootstrap_servers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def order(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()

    def share(self, name: str, *topics: str) -> None:
        settings = ("group.protocol", GroupType.SHARE, "group.id", SHARE, "client.id", name)
        self.order("start", name, ",".join(topics), *settings)

    def streams(self, name: str, *topics: str) -> None:
        settings = ("group.protocol", GroupType.STREAMS, "application.id", STREAMS, "client.id", name)
        more = ("state.dir", str(self._state / name), "num.stream.threads", "1", "metadata.max.age.ms", "500")
        self.order("start", name, ",".join(topics), *settings, *more)

    def described(self, group_type: str, group_id: str) -> dict[str, Any]:
        """Returns the broker's description of a group."""
        assert self._process.stdout is not None
        self.order("describe", group_type, group_id)
        words = [""]
        while words[0] != group_id:  # what clients report comes between
            words = self._process.stdout.readline().rstrip("\n").split("\t")
        return description(words)


def description(words: Sequence[str]) -> dict[str, Any]:
    """Returns the description of a group of which `words` are the words of its line."""
    group_id, state, epoch, target_epoch, *members = words
    return {
        "group_id": group_id,
        "state": state,
        "epoch": int(epoch),
        "assignment_epoch": int(target_epoch),
        "members": [_member(each) for each in members if each],
    }


def _member(text: str) -> dict[str, Any]:
    member_id, client_id, epoch, *held = text.split(";")
    return {
        "member_id": member_id,
        "client_id": client_id,
        "member_epoch": int(epoch),
        "holds": [sorted(each.split(",")) if each else [] for each in held],
    }


class Stage:
    """Stores the time at which each step began, and the broker's description of the group at its end."""

    def __init__(self, broker: LocalBroker, host: Host) -> None:
        self.broker, self.host = broker, host
        self.steps: list[tuple[int, str]] = []
        self.described: list[dict[str, Any]] = []

    def step(self, name: str) -> None:
        self.steps.append((now_ms(), name))

    def settle(self, group_type: str, group_id: str, member_count: int, states: Iterable[str] = ("Stable",)) -> None:
        """Waits until the group has `member_count` members and one of the `states`, and no longer changes. Then stores
        its description."""
        deadline = time.monotonic() + SETTLE_S_MAX
        before, since = None, time.monotonic()
        while True:
            said = self.host.described(group_type, group_id)
            if said != before:
                before, since = said, time.monotonic()
            is_settled = len(said["members"]) == member_count and said["state"] in states
            if is_settled and time.monotonic() - since > QUIET_S:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {SETTLE_S_MAX:g} s for {group_id}: {said}")
            time.sleep(LOOK_EVERY_S)
        self.described.append({"step": self.steps[-1][1], "at_ms": now_ms(), **before})

    def play(self, group_type: str, group_id: str, steps: Iterable[Step]) -> None:
        for name, member_count, act in steps:
            self.step(name)
            act()
            self.settle(group_type, group_id, member_count)

    def configure(self, group_id: str, **settings: str) -> None:
        of_group = ("--entity-type", "groups", "--entity-name", group_id)
        added = ",".join(f"{name}={value}" for name, value in settings.items())
        server = ("--bootstrap-server", self.broker.bootstrap_servers)
        run_tool("kafka.admin.ConfigCommand", *server, "--alter", *of_group, "--add-config", added)


def play_share(stage: Stage, victims: Host, admin: KafkaAdminClient) -> None:
    """Plays a share group: joins, a kill, another subscription, more partitions, leaves, and the deletion of the
    group."""
    steps: tuple[Step, ...] = (
        ("s1 joins", 1, lambda: stage.host.share("s1", "pages")),
        ("s2 joins", 2, lambda: stage.host.share("s2", "pages", "clicks")),
        ("s3 joins", 3, lambda: victims.share("s3", "pages")),
        ("s4 and s5 join, more members than partitions", 5, lambda: _two_more(stage)),
        ("s3 is killed", 4, victims.kill),
        ("s1 subscribes to clicks, too", 4, lambda: stage.host.order("subscribe", "s1", "pages,clicks")),
        ("the topic grows", 4, partial(admin.create_partitions, {"pages": TOPICS["pages"] + 2})),
        ("s2 leaves", 3, lambda: stage.host.order("close", "s2")),
        ("s4 leaves", 2, lambda: stage.host.order("close", "s4")),
        ("s5 leaves", 1, lambda: stage.host.order("close", "s5")),
    )
    stage.play(GroupType.SHARE, SHARE, steps)
    stage.step("s1 leaves")
    stage.host.order("close", "s1")
    stage.settle(GroupType.SHARE, SHARE, 0, ("Empty",))
    stage.step("the group is deleted")
    admin.delete_groups([SHARE])
    time.sleep(QUIET_S)


def _two_more(stage: Stage) -> None:
    for name in ("s4", "s5"):
        stage.host.share(name, "pages")


def play_streams(stage: Stage, victims: Host, admin: KafkaAdminClient) -> None:
    """Plays a streams group: joins with standbys, a kill, another number of standbys, a topic that no longer fits the
    topology, and the deletion of the group."""
    topics = ("orders", "refunds")
    stage.configure(STREAMS, **STREAMS_SETTINGS, **{STANDBYS: "1"})
    steps: tuple[Step, ...] = (
        ("a1 joins", 1, lambda: stage.host.streams("a1", *topics)),
        ("a2 joins", 2, lambda: stage.host.streams("a2", *topics)),
        ("a3 joins", 3, lambda: victims.streams("a3", *topics)),
        ("a3 is killed", 2, victims.kill),
        ("no standbys any more", 2, lambda: stage.configure(STREAMS, **{STANDBYS: "0"})),
    )
    stage.play(GroupType.STREAMS, STREAMS, steps)
    stage.step("a topic grows, and its changelog does not fit any more")
    admin.create_partitions({"orders": TOPICS["orders"] + 1})
    stage.settle(GroupType.STREAMS, STREAMS, 0, ("Empty",))
    stage.step("the group is deleted")
    admin.delete_groups([STREAMS])
    time.sleep(QUIET_S)


def main(folder: str, file: str) -> None:
    path, state = Path(file), Path(folder) / "state"
    with LocalBroker(Path(folder) / "broker", properties=PROPERTIES) as broker:
        address = broker.bootstrap_servers
        with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
            make_topics(address, TOPICS)
            with Host(address, state) as host:
                stage = Stage(broker, host)
                for play in (play_share, play_streams):
                    with Host(address, state) as victims:
                        play(stage, victims, admin)
        stored = sorted(read_topic(broker, OFFSETS_TOPIC, "read_uncommitted").items())
    names: dict[str, str] = {}
    began_ms = stored[0][1].timestamp_ms
    described = ({"after_ms": each.pop("at_ms") - began_ms, **each} for each in stage.described)
    steps = [(min(stage.steps[0][0], began_ms), stage.steps[0][1]), *stage.steps[1:]]
    for records, where in (
        (group_level_records(stored, steps), path),
        (described, path.with_name(f"{path.stem}_described{path.suffix}")),
    ):
        lines = [anonymous(json.dumps(record, default=base64_text), names) for record in records]
        where.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
