"""Plays the short form of a broken cluster: one broker that coordinates groups is killed, and another one is frozen.

It has one group of each type, and nothing befalls a client. There is no monitor, and no cleaner. Each wait is for a
state of the cluster, and ends only after minutes, so that a busy machine takes longer and sees the same. The folder is
that of `lab.kafka.cluster_play`; `make_ledger` makes the warehouse while the brokers still answer.
"""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lab.kafka.cluster import Cluster
from lab.kafka.cluster_clients import CONSUMER, SHARE, SIMPLE, STREAMS, Clients, GroupKind
from lab.kafka.cluster_play import FREEZE, KILL, PROPERTIES, Show, write_lines
from lab.kafka.local_traffic import make_offsets_topic
from lab.kafka.matrix import JAVA_MODERN, LIBRDKAFKA, now_ms
from lab.truth.cluster_judge import STABLE
from lab.truth.cluster_truth import client_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from typing import Any

    Row = dict[str, Any]

KINDS = (
    GroupKind("classic-0", LIBRDKAFKA),
    GroupKind("new-0", LIBRDKAFKA, CONSUMER),
    GroupKind("share-0", JAVA_MODERN, SHARE),
    GroupKind("streams-0", JAVA_MODERN, STREAMS),
    GroupKind("simple-0", LIBRDKAFKA, SIMPLE, places=("a",)),
)
WAIT_S_MAX = 300.0
LOOK_EVERY_S = 1.0
SESSION_MS = 12_000  # after so long, whoever did not find the new coordinator has been removed


class ShortShow(Show):
    def run(self) -> None:
        self.start()
        self.settle("")
        self.note("begin")
        for fault in (KILL, FREEZE):
            self.doings()[fault]()
            self.settle(fault)
        self.rest(WAIT_S_MAX)
        write_lines(self.folder / "rest.jsonl", self.latest())

    def settle(self, fault: str) -> None:  # noqa: ARG002  # after each fault alike
        """Waits until every group is whole. Gives up after minutes: what is not whole then has no truth."""
        asked_ms, deadline_s = now_ms() + SESSION_MS, time.monotonic() + WAIT_S_MAX
        clients = {(life.kind.name, life.client_id) for life in self.clients.lives if life.kind.group_type != SIMPLE}
        while not is_whole(self.latest(), asked_ms, clients) and time.monotonic() < deadline_s:
            time.sleep(LOOK_EVERY_S)


def is_whole(latest: Iterable[Row], asked_ms: int, clients: set[tuple[str, str]]) -> bool:
    """Returns whether exactly these clients (each with its group) are members of stable groups, by answers to questions
    that were asked after `asked_ms`."""
    stable = [row for row in latest if row["of"] == "group" and row["asked_ms"] > asked_ms and row["state"] == STABLE]
    return clients == {(row["group_id"], client_of(client)) for row in stable for _, client, _ in row["members"]}


def play_short(folder: Path, seed: int, jars: Path, make_ledger: Callable[[str, Sequence[Path]], object]) -> None:
    """Plays the short form. `make_ledger` gets the bootstrap servers and the brokers' server logs."""
    with ExitStack() as opened:
        cluster = opened.enter_context(Cluster(folder / "brokers", jars, PROPERTIES))
        make_offsets_topic(cluster.servers)
        clients = opened.enter_context(Clients(cluster.servers, KINDS, folder / "state", has_victims=False))
        show = ShortShow(folder, cluster, clients, random.Random(seed))
        show.run()
        show.end()
        make_ledger(cluster.servers, [broker.server_log for broker in cluster.brokers])
