"""Asks the brokers each second for the truth: Admin's descriptions of groups, committed offsets, and ends of topics.

Each answer is a line of JSON. It has `asked_ms` and `answered_ms`, between which it came about, and in `of` its kind:

    group       `group_id`, `state`, `epoch`, `members` (each a member id, a client id and a list of topic partitions)
    positions   `group_id`, `offsets` of a share group (each a topic, a partition, its start offset and its lag)
    commits     `group_id`, `offsets` (each a topic, a partition and an offset)
    ends        `offsets` (the same)

A question that is not answered in time, for example by a frozen broker, leaves no line. A thread for each group asks
about it and about the topic of its name, so that no group waits for another one. Kafka's own Admin client describes
groups of all types (`java/ModernGroups.java`); share groups have no commits.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from groupledger.schemas.words import GroupType
from lab.kafka.matrix import JAVA_MODERN, PROGRAMS, java_program, now_ms
from lab.kafka.modern_groups_log import description

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Row = dict[str, Any]

ROOT = Path(__file__).parents[2]  # where `lab` is found
GROUPS, OFFSETS, SHARE = "groups", "offsets", GroupType.SHARE
EVERY_S = 1.0
TIMEOUT_S = 4.0


class Questions(threading.Thread):
    """A thread that asks for the offsets of one group until its process ends, and prints the answers."""

    def __init__(self, servers: str, group_id: str, partitions: int) -> None:
        super().__init__(daemon=True, name=group_id)
        self._group_id = group_id
        self._reader = Consumer({"bootstrap.servers": servers, "group.id": group_id, "log_level": 2})
        self._places = [TopicPartition(group_id, number) for number in range(partitions)]

    def run(self) -> None:
        due_s = time.monotonic()
        while True:
            time.sleep(max(0.0, due_s - time.monotonic()))
            due_s = max(due_s + EVERY_S, time.monotonic())
            self._ask("commits", self._committed)
            for place in self._places:
                self._ask("ends", partial(self._end, place))

    def _ask(self, of: str, question: Callable[[], Row]) -> None:
        asked_ms = now_ms()
        try:
            found = question()
        except KafkaException:  # no answer, no line
            return
        say({"of": of, "group_id": self._group_id, "asked_ms": asked_ms, "answered_ms": now_ms(), **found})

    def _committed(self) -> Row:
        answer = self._reader.committed(self._places, TIMEOUT_S)
        found = (place for place in answer if place.error is None and place.offset >= 0)
        return {"offsets": [(place.topic, place.partition, place.offset) for place in found]}

    def _end(self, place: TopicPartition) -> Row:
        _, end = self._reader.get_watermark_offsets(place, TIMEOUT_S, cached=False)
        return {"offsets": [(place.topic, place.partition, end)]}


class Observer:
    """Asks for descriptions in one process and for offsets in another, which write into one file. A process that ends
    is started again. `groups` has the type of each group."""

    def __init__(self, servers: str, groups: Mapping[str, str], partitions: int, path: Path) -> None:
        self._path = path
        self._command = [sys.executable, "-m", "lab.kafka.cluster_observer"]
        self._given = {
            GROUPS: [servers, *(word for pair in groups.items() for word in pair)],
            OFFSETS: [servers, str(partitions), *(name for name, of_type in groups.items() if of_type != SHARE)],
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._stopped = threading.Event()
        self._keepers = [threading.Thread(target=self._keep, args=(of,), daemon=True) for of in (GROUPS, OFFSETS)]

    def start(self) -> None:
        self._path.touch()
        for keeper in self._keepers:
            keeper.start()

    def stop(self) -> None:
        self._stopped.set()
        for process in self._processes.values():
            process.kill()
        for keeper in self._keepers:
            keeper.join()

    def _keep(self, of: str) -> None:
        while not self._stopped.wait(EVERY_S):
            with (
                self._path.open("a") as lines,
                subprocess.Popen(
                    [*self._command, of, *self._given[of]],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=lines,
                    stderr=subprocess.DEVNULL,
                ) as self._processes[of],
            ):
                self._processes[of].wait()

    def latest(self) -> list[Row]:
        """Returns the last answer to each question that is in the file."""
        found = {}
        for line in self._path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                row = json.loads(line)
                about = row["offsets"][0][:2] if row["of"] == "ends" else row["group_id"]
                found[row["of"], str(about)] = row
        return list(found.values())


def say(row: Row) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def ask_for_offsets(servers: str, partitions: str, *groups: str) -> None:
    for group_id in groups:
        Questions(servers, group_id, int(partitions)).start()
    sys.stdin.read()  # until whoever started this ends


def ask_for_groups(servers: str, *groups: str) -> None:
    """Prints the descriptions that a JVM asks for. `groups` are names of groups, each with its type after it."""
    command = [*java_program(PROGRAMS[JAVA_MODERN]), servers]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for group_id, group_type in zip(groups[::2], groups[1::2], strict=True):
            program.stdin.write(f"watch\t{group_type}\t{group_id}\n")
        program.stdin.flush()
        threading.Thread(target=_end_with_this, args=(program.stdin,), daemon=True).start()
        for line in program.stdout:
            asked, answered, kind, *words = line.rstrip("\n").split("\t")
            say({**_answer(kind, words), "asked_ms": int(asked), "answered_ms": int(answered)})


def _end_with_this(stdin_of_program: IO[str]) -> None:
    """Ends the JVM, which reads its standard input to the end, when whoever started this ends."""
    sys.stdin.read()
    stdin_of_program.close()


def _answer(kind: str, words: Sequence[str]) -> Row:
    if kind == "positions":
        group_id, *places = words
        return {"of": kind, "group_id": group_id, "offsets": [_position(each) for each in places if each]}
    found = description(words)
    members = [
        (each["member_id"], each["client_id"], sorted(_place(unit, found["group_id"]) for unit in each["holds"][0]))
        for each in found["members"]
    ]
    return {"of": "group", **found, "members": members}


def _position(text: str) -> tuple[str, int, int, int]:
    place, start, lag = text.split(";")
    return (*_place(place, ""), int(start), int(lag))


def _place(unit: str, topic_of_tasks: str) -> tuple[str, int]:
    """Returns the topic and the partition of `TOPIC-PARTITION`, or of the task `SUBTOPOLOGY_PARTITION`."""
    topic, dash, number = unit.rpartition("-")
    return (topic, int(number)) if dash else (topic_of_tasks, int(unit.rpartition("_")[2]))


if __name__ == "__main__":
    if sys.argv[1] == GROUPS:
        ask_for_groups(*sys.argv[2:])
    else:
        ask_for_offsets(*sys.argv[2:])
