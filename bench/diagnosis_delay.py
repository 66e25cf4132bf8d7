"""Measures how long a running monitor takes to name the cause of a trouble, from the instant when the trouble begins.

    python -m bench.diagnosis_delay [--interval 10] [--minutes 6] [--at-once 16] [--only NAME ...] [--keep FOLDER]
    python -m bench.diagnosis_delay --again FOLDER     # prints the delays of a run that was kept

Each play of `bench.diagnosis` is played once, by one of its clients in turns, on a real broker beside `groupledger
monitor`, which follows the brokers' logs, too. Few groups play at once, since a monitor that shares two cores with many
clients would be measured together with them. Every few seconds the program asks `why` about each group whose cause has
begun and was not named yet, and reads `groupledger_open_diagnoses` from `/metrics`.

Many causes can't be known when they begin: nobody knows that a member commits nothing any more before a commit is
missing. The rule that proves such a cause waits for a time, which is a setting. So the program prints, for each cause,
the delay since its beginning, the waiting time of its rule (`WAITS_S`, by the settings of this run), and the
difference. The limit for the difference is an interval of the monitor and 60 s. The run ends with 1 if a named cause is
above it.
Causes that were not named by the end of the play are listed; how many may be is `bench.diagnosis`'s subject.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import yaml
from prometheus_client.parser import text_string_to_metric_families

from groupledger.jobs.ask.one_diagnosis import UNREADABLE
from groupledger.jobs.process.settings import load_settings
from groupledger.transforms.incidents.diagnosis.episodes import WITHOUT_PARTITIONS_MIN
from groupledger.transforms.incidents.diagnosis.lag_signs import GROWS_FOR_LONG, STANDS_FOR_LONG, WAITS_FOR_LONG
from groupledger.transforms.incidents.diagnosis.request_signs import ROLLED_BACK_FOR, THROTTLED_MIN
from lab.diagnosis.clients import POLL_INTERVAL_MS, SESSION_MS
from lab.diagnosis.families.members import LOOP_AWAY_S, LOOP_STAYS_S
from lab.diagnosis.families.rebalances import TOPIC_CHANGES_EVERY_S
from lab.diagnosis.judge import RIGHT, judged, names_of
from lab.diagnosis.levels import SETTINGS, answer, said
from lab.diagnosis.plays import all_plays, in_rounds
from lab.diagnosis.run import Timeline, play_all
from lab.diagnosis.stage import CALM_S
from lab.diagnosis.truth import read_truth
from lab.kafka.matrix import now_ms
from lab.kafka.monitor_process import Monitor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.diagnosis.plays import Play
    from lab.diagnosis.truth import Cause, Played
    from lab.kafka.local_broker import LocalBroker

POLL_S = 2.0
INTERVAL_S = 10
LIMIT_S = 60.0  # and an interval
DIAGNOSES, DELAYS = "groupledger_open_diagnoses", "delays.json"
OF_RUN = yaml.safe_load(SETTINGS)
SESSION_S, POLL_INTERVAL_S = SESSION_MS / 1_000, POLL_INTERVAL_MS / 1_000
THREE_STARTS_S = 3 * (LOOP_STAYS_S + LOOP_AWAY_S)
GROWS_S, STANDS_S = GROWS_FOR_LONG.total_seconds(), STANDS_FOR_LONG.total_seconds()
STANDSTILL_S = float(OF_RUN["lag"]["standstill_s"])
WAITS_S: dict[str, float] = {
    **dict.fromkeys(("members_expired", "session_timeout", "static_member_away"), SESSION_S),
    **dict.fromkeys(("members_polled_too_late", "poll_timeout"), POLL_INTERVAL_S),
    **dict.fromkeys(("crash_loop", "subscription_alternates"), THREE_STARTS_S),
    **dict.fromkeys(("polls_without_commit", "never_commits"), float(OF_RUN["incidents"]["commit_gap_s"])),
    **dict.fromkeys(("waits_for_member", "alive_and_not_polling", "unsubscribed"), STANDSTILL_S),
    "held_back_partitions": float(OF_RUN["incidents"]["stuck_reconciliation_s"]),
    "assignor_gives_nothing": WITHOUT_PARTITIONS_MIN.total_seconds(),
    "leader_sends_no_assignment": float(OF_RUN["incidents"]["stuck_rebalance_s"]),
    **dict.fromkeys(("one_record_stops_every_owner", "commits_one_offset_again"), STANDS_S),
    **dict.fromkeys(("slower_than_producers", "more_members_than_partitions", "partition_skew"), GROWS_S),
    **dict.fromkeys(("uneven_assignment", "one_slow_member"), GROWS_S),
    "topics_keep_changing": (load_settings().history.storm_rebalances - 1) * TOPIC_CHANGES_EVERY_S,
    "subscribed_topic_missing": 2.0 * INTERVAL_S,  # two rounds have to ask for the topic
    "client_quota": THROTTLED_MIN.total_seconds(),
    "open_transaction": WAITS_FOR_LONG.total_seconds(),
    "transactions_rolled_back": ROLLED_BACK_FOR.total_seconds(),
}
"""For how long a cause has to last before its rule may prove it. A cause that is not here can be known at once."""


@dataclass(slots=True)
class Delays:
    """Seconds from the beginning of each cause until `why` and `/metrics` named it, by `key_of` group and cause."""

    by_why: dict[str, float] = field(default_factory=dict)
    on_metrics: dict[str, float] = field(default_factory=dict)


class Asker(threading.Thread):
    """Asks about all causes in `played` that have begun, until it is stopped."""

    def __init__(self, monitor: Monitor, played: Sequence[Played]) -> None:
        super().__init__(daemon=True, name="asker")
        self.delays = Delays()
        self._monitor, self._played = monitor, played
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def run(self) -> None:
        while not self._stopped.wait(POLL_S):
            self._read_metrics()
            for each in list(self._played):
                if not self._stopped.is_set() and any(self._is_asked(each, cause) for cause in each.causes):
                    self._ask(each)

    def _is_asked(self, played: Played, cause: Cause) -> bool:
        return key_of(played, cause) not in self.delays.by_why

    def _ask(self, played: Played) -> None:
        try:
            verdict = answer(self._monitor.warehouse, played.group_id, played.began_ms)
        except UNREADABLE:  # the monitor is just making its tables
            return
        # A cause may have begun since the list was read.
        for cause, (_, outcome) in zip(played.causes, judged(played, said(verdict)).outcomes, strict=False):
            if outcome == RIGHT:
                self.delays.by_why.setdefault(key_of(played, cause), _since(cause))

    def _read_metrics(self) -> None:
        named = defaultdict(set)
        for family in text_string_to_metric_families(self._monitor.metrics()):
            for sample in family.samples:
                if sample.name == DIAGNOSES and sample.value:
                    named[sample.labels["group"]].add(sample.labels["cause"])
        for played in list(self._played):
            for cause in played.causes:
                if names_of(cause) & named[played.group_id]:
                    self.delays.on_metrics.setdefault(key_of(played, cause), _since(cause))


def key_of(played: Played, cause: Cause) -> str:
    return f"{played.group_id} {cause.name}"


def _since(cause: Cause) -> float:
    return (now_ms() - (cause.since_ms or 0)) / 1_000


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--interval", type=int, default=INTERVAL_S, help="of the monitor, in seconds")
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument(
        "--calm-s", type=float, default=2 * CALM_S, help="when the causes begin, after the groups formed"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="the plays; by default all that are not well")
    parser.add_argument("--at-once", type=int, default=16, help="how many groups play on one broker")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where all of it stays")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="print the delays of a run that was kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groupledger-delay-") as made:
        folder = (arguments.again or arguments.keep or Path(made)).resolve()
        if arguments.again is None:
            for of_round, plays in in_rounds(folder, [*chosen(arguments.only)], arguments.at_once):
                play_round(of_round, plays, arguments)
        return report([*measured(folder)], arguments.interval)


def chosen(names: Sequence[str] | None) -> Iterator[tuple[Play, str]]:
    """Yields each play with one of its clients, so that all clients have about equally many."""
    for number, (name, play) in enumerate(all_plays().items()):
        if names is None or name in names:
            yield play, play.clients[number % len(play.clients)]


def play_round(folder: Path, plays: Sequence[tuple[Play, str]], arguments: argparse.Namespace) -> None:
    """Plays groups beside a monitor, and writes the truth and the delays into the folder."""
    asked: list[Asker] = []

    @contextmanager
    def beside(broker: LocalBroker, played: list[Played]) -> Iterator[None]:
        kafka = folder / "kafka"
        logs = {"server_logs": [str(kafka / "server.log")], "request_logs": [str(kafka / "kafka-request.log")]}
        with Monitor(folder, broker.bootstrap_servers, arguments.interval, {**OF_RUN, "logs": logs}) as monitor:
            monitor.await_healthy()
            asker = Asker(monitor, played)
            asker.start()
            asked.append(asker)
            try:
                yield
            finally:
                asker.stop()

    play_all(folder, plays, Timeline(seconds=arguments.minutes * 60, calm_s=arguments.calm_s), beside)
    (folder / DELAYS).write_text(json.dumps(asdict(asked[0].delays)))


def measured(folder: Path) -> Iterator[tuple[Played, Delays]]:
    """Yields each group that can be judged with the delays of its round."""
    for path in sorted(folder.glob(f"round-*/{DELAYS}")):
        delays = Delays(**json.loads(path.read_text()))
        for played in read_truth(path.with_name("truth.jsonl")):
            if played.spoiled_by is not None:
                print(f"not judged: {played.play} with {played.client}: {played.spoiled_by}")
            else:
                yield played, delays


def report(found: Sequence[tuple[Played, Delays]], interval_s: int) -> int:
    """Prints the delay of each cause. Returns the exit code."""
    limit_s = interval_s + LIMIT_S
    late, silent = [], []
    rests: list[float] = []
    print("| cause | client | waits | why | /metrics | why without the wait |\n|---|---|---:|---:|---:|---:|")
    for played, delays in found:
        for cause in played.causes:
            key, wait_s = key_of(played, cause), WAITS_S.get(cause.name, 0.0)
            by_why, on_metrics = delays.by_why.get(key), delays.on_metrics.get(key)
            if by_why is None:
                silent.append(f"{played.group_id} {played.play} {played.client}: {cause.name}")
                continue
            rests.append(by_why - wait_s)
            if rests[-1] > limit_s:
                late.append(f"{played.group_id} {played.play} {played.client}: {cause.name}")
            print(
                f"| {cause.name} ({played.play}) | {played.client} | {wait_s:.0f} | {by_why:.0f} |"
                f" {'' if on_metrics is None else f'{on_metrics:.0f}'} | {rests[-1]:.0f} |"
            )
    if rests:
        print(f"\n{len(rests)} causes were named: {median(rests):.0f} s (median), {max(rests):.0f} s at most;")
    print(f"{len(late)} later than {limit_s:.0f} s: {late}\n{len(silent)} not named by the end: {silent}")
    return int(bool(late))


if __name__ == "__main__":
    sys.exit(main())
