"""Plays all groups side by side on one broker, and writes the inputs of a ledger, and the truth, into a folder.

FOLDER/kafka/              the broker's files, with its server log and its request log
FOLDER/capture/            `__consumer_offsets`, as `groupledger capture` copies it
FOLDER/samples/            the sampling rounds, as a monitor takes them
FOLDER/truth.jsonl         the causes that were played (`lab.diagnosis.truth`)
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.diagnosis.group import Group
from lab.diagnosis.plays import PLAYS
from lab.diagnosis.sampler import Sampler
from lab.diagnosis.stage import CALM_S, PROPERTIES, Stage
from lab.diagnosis.truth import write_truth
from lab.kafka.local_broker import LocalBroker
from lab.kafka.local_traffic import make_offsets_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lab.diagnosis.plays import Play
    from lab.diagnosis.truth import Played

BROKER_HEAP = "768m"
EXPIRED = re.compile(r"(?:group|GroupId) (?P<group>g\d{4})\b.*(?:on heartbeat expiration|session expired)")
STAGGER_S = 0.25
INTERVAL_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The times of a run in seconds: its length, the calm time at its beginning, and the sampling interval. If
    `restarts` is true, the broker is restarted soon after the calm time, which is then a cause in all groups."""

    seconds: float
    calm_s: float = CALM_S
    interval_s: float = INTERVAL_S
    restarts: bool = False


def play_all(
    folder: Path,
    plays: Iterable[tuple[Play, str]],
    timeline: Timeline,
    beside: Callable[[LocalBroker, list[Played]], AbstractContextManager[object]] = lambda *_: nullcontext(),
) -> list[Played]:
    """Plays each of `plays`, a play and the client that plays it, in a group of its own, and returns the truth about
    all groups. What `beside` makes of the broker and of the truth, which grows, runs while they are played."""
    folder.mkdir(parents=True, exist_ok=True)
    with LocalBroker(folder / "kafka", properties=PROPERTIES, heap=BROKER_HEAP, log_requests=True) as broker:
        make_offsets_topic(broker.bootstrap_servers)
        played: list[Played] = []
        with beside(broker, played), Stage(broker, timeline.seconds, timeline.calm_s) as stage:
            wanted = list(plays)
            groups = [Group(stage, number, play.name, client) for number, (play, client) in enumerate(wanted, 1)]
            for group, (play, _) in zip(groups, wanted, strict=True):
                group.make_topic(play.partitions, play.rate)
                played.append(group.played)
            sampler = Sampler(broker.bootstrap_servers, timeline.interval_s)
            sampler.start()
            if timeline.restarts:
                threading.Thread(target=_restart, args=(stage, groups), daemon=True).start()
            _run(groups, wanted)
            stage.until(timeline.seconds)
            sampler.stop(folder / "samples")
            write_truth(folder / "truth.jsonl", played)
            capture(folder, broker.bootstrap_servers)
    count_removals(folder, played)
    write_truth(folder / "truth.jsonl", played)
    return played


def _run(groups: Sequence[Group], wanted: Sequence[tuple[Play, str]]) -> None:
    def run(number: int) -> None:
        group, (play, _) = groups[number], wanted[number]
        group.stage.until(min(group.stage.calm_s / 2, number * STAGGER_S))
        try:
            play.run(group)
        except Exception as error:  # noqa: BLE001  # one play that fails spoils its own group
            group.played.fault = f"{type(error).__name__}: {error}"
            traceback.print_exc()

    with ThreadPoolExecutor(len(groups)) as pool:
        list(pool.map(run, range(len(groups))))


def _restart(stage: Stage, groups: Sequence[Group]) -> None:
    stage.until(stage.kill_s)
    causes = [group.cause("coordinator_moved") for group in groups]
    stage.broker.restart()
    for group, cause in zip(groups, causes, strict=True):
        group.end(cause)


def capture(folder: Path, bootstrap_servers: str) -> None:
    command = ["capture", "--bootstrap-servers", bootstrap_servers, "--out", str(folder / "capture")]
    subprocess.run([sys.executable, "-m", "groupledger.jobs.cli.main", *command], check=True)


def count_removals(folder: Path, played: Iterable[Played]) -> None:
    """Sets `removals` of each group to the number of its sessions that expired by the broker's log, or to 0 if its play
    means sessions to expire."""
    lines = (folder / "kafka" / "server.log").read_text(errors="replace").splitlines()
    found = Counter(match["group"] for line in lines if (match := EXPIRED.search(line)))
    for each in played:
        each.removals = 0 if PLAYS[each.play].ends_sessions else found[each.group_id]
