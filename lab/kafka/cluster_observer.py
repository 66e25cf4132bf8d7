"""Asks the brokers each second for the truth: Admin's descriptions of groups, committed offsets, and ends of topics.

Each answer is a line of JSON. It has `asked_ms` and `answered_ms`, between which it came about, and in `of` its kind:

    group     `group_id`, `state`, `members` (each a member id, a client id and a list of topic partitions)
    commits   `group_id`, `offsets` (each a topic, a partition and an offset)
    ends      `offsets` (the same)

A question that is not answered in time, for example by a frozen broker, leaves no line. A thread for each group asks
about it and about the topic of its name, so that no group waits for another one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from lab.kafka.matrix import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Row = dict[str, Any]

ROOT = Path(__file__).parents[2]  # where `lab` is found
GROUPS, OFFSETS = "groups", "offsets"
EVERY_S = 1.0
TIMEOUT_S = 4.0


class Questions(threading.Thread):
    """A thread that asks about one group until its process ends, and prints the answers. `of` says whether it asks for
    descriptions of the group or for offsets."""

    def __init__(self, of: str, servers: str, group_id: str, partitions: int) -> None:
        super().__init__(daemon=True, name=group_id)
        self._of, self._group_id = of, group_id
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 2})
        self._reader = Consumer({"bootstrap.servers": servers, "group.id": group_id, "log_level": 2})
        self._places = [TopicPartition(group_id, number) for number in range(partitions)]

    def run(self) -> None:
        due_s = time.monotonic()
        while True:
            time.sleep(max(0.0, due_s - time.monotonic()))
            due_s = max(due_s + EVERY_S, time.monotonic())
            if self._of == GROUPS:
                self._ask("group", self._described)
                continue
            self._ask("commits", self._committed)
            for place in self._places:
                self._ask("ends", partial(self._end, place))

    def _ask(self, of: str, question: Callable[[], Row]) -> None:
        asked_ms = now_ms()
        try:
            found = question()
        except KafkaException:  # no answer, no line
            return
        row = {"of": of, "group_id": self._group_id, "asked_ms": asked_ms, "answered_ms": now_ms(), **found}
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()

    def _described(self) -> Row:
        asked = self._admin.describe_consumer_groups([self._group_id], request_timeout=TIMEOUT_S)
        answer = asked[self._group_id].result()
        members = [
            (
                each.member_id,
                each.client_id,
                sorted((place.topic, place.partition) for place in each.assignment.topic_partitions),
            )
            for each in answer.members
        ]
        return {"state": answer.state.name, "members": members}

    def _committed(self) -> Row:
        answer = self._reader.committed(self._places, TIMEOUT_S)
        found = (place for place in answer if place.error is None and place.offset >= 0)
        return {"offsets": [(place.topic, place.partition, place.offset) for place in found]}

    def _end(self, place: TopicPartition) -> Row:
        _, end = self._reader.get_watermark_offsets(place, TIMEOUT_S, cached=False)
        return {"offsets": [(place.topic, place.partition, end)]}


class Observer:
    """Asks for descriptions in one process and for offsets in another, which write into one file. A process that ends
    is started again: librdkafka's Admin client sometimes fails an assertion of its own when it has asked a coordinator
    that dies."""

    def __init__(self, servers: str, groups: Sequence[str], partitions: int, path: Path) -> None:
        self._path = path
        self._command = [sys.executable, "-m", "lab.kafka.cluster_observer"]
        self._given = [servers, str(partitions), *groups]
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
            with self._path.open("a") as lines:
                self._processes[of] = process = subprocess.Popen(
                    [*self._command, of, *self._given],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=lines,
                    stderr=subprocess.DEVNULL,
                )
            process.wait()

    def latest(self) -> list[Row]:
        """Returns the last answer to each question that is in the file."""
        found = {}
        for line in self._path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                row = json.loads(line)
                about = row["offsets"][0][:2] if row["of"] == "ends" else row["group_id"]
                found[row["of"], str(about)] = row
        return list(found.values())


def main(of: str, servers: str, partitions: str, *groups: str) -> None:
    for group_id in groups:
        Questions(of, servers, group_id, int(partitions)).start()
    sys.stdin.read()  # until whoever started this ends


if __name__ == "__main__":
    main(*sys.argv[1:])
