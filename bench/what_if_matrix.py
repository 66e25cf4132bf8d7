"""Measures how far what-if predictions are from what happens to real consumers on a real broker.

Each workload is played under four settings at the same time by Kafka's Java client: eager, static, cooperative, and the
protocol of KIP-848. A pipeline reads the topic; then the ledger of each group is asked what the other settings would
have come to, and that is held against what the groups of these settings went through. Rebalances and moves are those of
their ledgers; stopped time is what the consumers were told.

    python -m bench.what_if_matrix [--workloads 10] [--keep DIRECTORY]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from bench.what_if_accuracy import Errors
from groupledger.coordinator.what_if.answer import answers
from groupledger.coordinator.what_if.setting import changed
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.what_if import rows_of
from groupledger.transforms.history.rules.what_if import NotReplayableError, observed_of, workload_of
from lab.kafka.local_broker import LocalBroker
from lab.kafka.what_if_matrix import BROKER, SETTINGS, TOLD, Played, play
from lab.truth.what_if import FIGURES

if TYPE_CHECKING:
    from groupledger.transforms.history.rules.what_if import GroupRows

EPOCH = datetime.fromtimestamp(0, timezone.utc)
AT_ONCE = 2
CLUSTER = "what-if"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="a new directory for broker and tables, which stays")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groupledger-what-if-") as temporary:
        directory: Path = given.keep or Path(temporary)
        with LocalBroker(directory / "broker", properties=BROKER) as broker:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                seeds = range(1, given.workloads + 1)
                played = list(pool.map(lambda seed: play(broker.bootstrap_servers, seed), seeds))
            warehouse = str(directory / "warehouse")
            command = ["pipeline", "--warehouse", warehouse, "--cluster", CLUSTER]
            subprocess.run(
                [
                    Path(sys.executable).with_name("groupledger"),
                    *command,
                    "--bootstrap-servers",
                    broker.bootstrap_servers,
                ],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        (directory / "played.json").write_text(json.dumps([[asdict(run) for run in runs] for runs in played]))
        tables = ClusterRows(warehouse, CLUSTER)
        report([{run.setting: (run, _rows(tables, run)) for run in runs} for runs in played])


def _rows(tables: ClusterRows, run: Played) -> GroupRows:
    since, until = (EPOCH + timedelta(milliseconds=at) for at in (run.since_ms, run.until_ms))
    return rows_of(tables, run.group, since, until)


def report(runs: list[dict[str, tuple[Played, GroupRows]]]) -> None:
    errors: dict[tuple[str, str, str], Errors] = defaultdict(Errors)
    told = refused = 0
    for of_workload in runs:
        happened = {setting: _figures(*run) for setting, run in of_workload.items()}
        for known, (run, rows) in of_workload.items():
            asked = [setting for setting in SETTINGS if setting != known]
            try:
                workload = workload_of(rows, TOLD)
            except NotReplayableError as error:
                refused += len(asked)
                print(f"{run.group} ({known}): {error}")
                continue
            settings = [changed(workload.actual, (*setting.split(","), TOLD[0])) for setting in asked]
            for setting, answer in zip(asked, answers(workload, settings, observed_of(rows.rebalances)), strict=True):
                if answer.refusal is not None:
                    refused += 1
                    print(f"{run.group} ({known}), {setting}: {answer.refusal}")
                    continue
                told += 1
                for figure in FIGURES:
                    if figure in happened[setting]:
                        found, came = answer.told[figure], happened[setting][figure]
                        if not errors[known, setting, figure].note(found, came):
                            print(f"{run.group} ({known}), {setting}: {figure} {found} came to {came:.1f}")
    print(f"{'had':<28}{'asked':<28}{'figure':<28}{'n':>6}{'median':>10}{'error':>10}{'95%':>10}{'within':>9}")
    for (known, setting, figure), each in sorted(errors.items()):
        print(f"{known:<28}{setting:<28}{figure:<28}{each.line()}")
    print(f"{told:,} answers told, {refused:,} refused")


def _figures(run: Played, rows: GroupRows) -> dict[str, float]:
    observed = {name: interval.low for name, interval in observed_of(rows.rebalances).items() if interval is not None}
    return {**observed, "stopped_partition_seconds": run.stopped_s}


if __name__ == "__main__":
    main()
