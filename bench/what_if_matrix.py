"""Measures how far what-if predictions are from what happens to real consumers on a real broker.

Each workload is played under four settings at the same time by Kafka's Java client: eager, static, cooperative, and the
protocol of KIP-848. `ingest` and `history` read the topic. Then the ledger of each group is asked what would have
happened under the other settings, and the answers are compared with what happened to the groups of these settings.
Rebalances and moves are those of their ledgers; the consumers report the stopped time. `--keep` leaves everything
in a directory, so that workloads can be played in pieces and asked again.

    python -m bench.what_if_matrix [--seeds 1-10] [--keep DIRECTORY]
    python -m bench.what_if_matrix --kept DIRECTORY [DIRECTORY]...
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
from pathlib import Path
from typing import TYPE_CHECKING

from bench.what_if_accuracy import Errors, seeds_of, table
from groupledger.coordinator.what_if.answer import answers
from groupledger.coordinator.what_if.setting import changed
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.what_if import rows_of
from groupledger.schemas.instants import instant_of_ms
from groupledger.transforms.history.rules.what_if import NotReplayableError, observed_of, workload_of
from lab.kafka.local_broker import LocalBroker
from lab.kafka.what_if_matrix import BROKER, SETTINGS, SETTINGS_GIVEN, Played, play
from lab.truth.what_if import FIGURES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.transforms.history.rules.what_if import WhatIfRows

AT_ONCE = 2
CLUSTER = "what-if"
WAREHOUSE, PLAYED = "warehouse", "played.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds_of, default="1-10", help="a workload each: 1-10, or 7")
    parser.add_argument("--keep", type=Path, help="a new directory for broker and tables, which stays")
    parser.add_argument("--kept", type=Path, nargs="+", help="directories that were kept, to be asked again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groupledger-what-if-") as temporary:
        directories: list[Path] = given.kept or [given.keep or Path(temporary)]
        if not given.kept:
            _play_all(directories[0], given.seeds)
        report([runs for directory in directories for runs in _kept(directory)])


def _play_all(directory: Path, seeds: range) -> None:
    """Plays the workloads, reads them with a pipeline, and leaves both in the directory."""
    with LocalBroker(directory / "broker", properties=BROKER) as broker:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            played = list(pool.map(lambda seed: play(broker.bootstrap_servers, seed), seeds))
        (directory / PLAYED).write_text(json.dumps([[asdict(run) for run in runs] for runs in played]))
        where = ["--warehouse", str(directory / WAREHOUSE), "--cluster", CLUSTER]
        for command in (["ingest", "--bootstrap-servers", broker.bootstrap_servers], ["history"]):
            program = Path(sys.executable).with_name("groupledger")
            subprocess.run([program, *command, *where], check=True, stdout=subprocess.DEVNULL)


def _kept(directory: Path) -> Iterator[dict[str, tuple[Played, WhatIfRows]]]:
    """Yields each workload's runs by setting, with their ledgers."""
    tables = ClusterRows(str(directory / WAREHOUSE), CLUSTER)
    for runs in json.loads((directory / PLAYED).read_text()):
        played = [Played(**run) for run in runs]
        yield {run.setting: (run, _rows(tables, run)) for run in played}


def _rows(tables: ClusterRows, run: Played) -> WhatIfRows:
    since, until = instant_of_ms(run.since_ms), instant_of_ms(run.until_ms)
    return rows_of(tables, run.group, since, until)


def report(runs: list[dict[str, tuple[Played, WhatIfRows]]]) -> None:
    errors: dict[tuple[str, str, str], Errors] = defaultdict(Errors)
    answered = refused = 0
    for of_workload in runs:
        happened = {setting: _figures(*run) for setting, run in of_workload.items()}
        for known, (run, rows) in of_workload.items():
            asked = [setting for setting in SETTINGS if setting != known]
            try:
                workload = workload_of(rows, SETTINGS_GIVEN)
            except NotReplayableError as error:
                refused += len(asked)
                print(f"{run.group} ({known}): {error}")
                continue
            settings = [changed(workload.actual, (*setting.split(","), SETTINGS_GIVEN[0])) for setting in asked]
            for setting, answer in zip(asked, answers(workload, settings, observed_of(rows.rebalances)), strict=True):
                if answer.refusal is not None:
                    refused += 1
                    print(f"{run.group} ({known}), {setting}: {answer.refusal}")
                    continue
                answered += 1
                for figure in FIGURES:
                    if figure in happened[setting]:
                        found, came = answer.figures[figure], happened[setting][figure]
                        if not errors[known, setting, figure].note(found.asked, came):
                            print(f"{run.group} ({known}), {setting}: {figure} {found} came to {came:.1f}")
    print(*table(errors), f"{answered:,} answers, {refused:,} refused", sep="\n")


def _figures(run: Played, rows: WhatIfRows) -> dict[str, float]:
    observed = {name: interval.low for name, interval in observed_of(rows.rebalances).items() if interval is not None}
    return {**observed, "stopped_partition_seconds": run.stopped_s}


if __name__ == "__main__":
    main()
