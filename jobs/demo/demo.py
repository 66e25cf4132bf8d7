"""Implements `groupledger demo`: simulates a day of a cluster, runs the whole pipeline on it, and prints the findings.

The simulator plays forty groups in a process of its own, while Spark starts. It writes the records, logs and samples
that a real cluster would have written, and the same steps of the pipeline read them. The findings are compared with
what really happened, and the comparison is printed. `--bootstrap-servers` runs the pipeline on a real cluster, where
nobody knows what really happened.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.demo.directory import new_directory
from groupledger.jobs.demo.findings import show_findings
from groupledger.jobs.demo.truth import show_truth
from groupledger.jobs.derive.history import TABLES as HISTORY_TABLES
from groupledger.jobs.derive.pipeline import derive
from groupledger.jobs.ingest.import_logs import TABLES as LOG_TABLES
from groupledger.jobs.ingest.import_logs import LogSources, import_logs
from groupledger.jobs.ingest.import_samples import import_samples
from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
from groupledger.jobs.ingest.ingest_capture import ingest_capture
from groupledger.jobs.ingest.samples import SAMPLE_TABLES, sample
from groupledger.jobs.ingest.stream import TABLES as INGEST_TABLES
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.jars import is_checkout
from groupledger.jobs.process.session import SHORT_LIVED
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.process.worker import together
from groupledger.jobs.report.report import write_report
from groupledger.jobs.warehouse.ledger import open_ledger
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from groupledger.jobs.process.settings import Settings

SCENARIO = "demo"
CLUSTER = "demo"
REPORT = "report.html"
ALL_TABLES = (*SAMPLE_TABLES, *INGEST_TABLES, *LOG_TABLES, *HISTORY_TABLES, LAG, INCIDENTS)


def run_demo(directory: Path, seed: int, say: Callable[[str], None]) -> None:
    new_directory(directory)
    settings, stop = load_settings(cluster=CLUSTER), threading.Event()
    warehouse, simulated = directory.resolve() / "warehouse", directory / "simulation"
    with (
        simulation(simulated, seed) as finish,
        open_ledger(settings, str(warehouse), "demo", say, java_options=SHORT_LIVED) as ledger,
    ):
        say("simulating a day of forty groups")
        ledger.create(*ALL_TABLES)  # a core is idle, and the JVM cold
        finish()
        logs = LogSources([simulated / "request-log"], [simulated / "server-log"])
        together(
            lambda: ingest_capture(ledger, str(simulated / "capture"), stop, recover=False),
            lambda: import_samples(ledger, str(simulated)),
            lambda: import_logs(ledger, settings.logs, logs, stop),
        )
        derive(ledger, stop)

        def show() -> None:
            show_findings(ledger)
            show_truth(ledger, simulated / "truth")

        together(show, lambda: write_report(ClusterRows(ledger.warehouse, ledger.cluster), directory / REPORT, say))
    advise(directory, settings, say)


def run_demo_on_cluster(
    directory: Path, settings: Settings, bootstrap_servers: str, say: Callable[[str], None]
) -> None:
    """Runs one pass of the pipeline on a real cluster, prints the findings and writes the report."""
    new_directory(directory)
    stop = threading.Event()
    with open_ledger(settings, str(directory.resolve() / "warehouse"), "demo", say, java_options=SHORT_LIVED) as ledger:
        sample(ledger, bootstrap_servers)
        ingest_kafka(ledger, KafkaIngest(settings, bootstrap_servers), stop)
        derive(ledger, stop)
        show_findings(ledger)
        write_report(ClusterRows(ledger.warehouse, ledger.cluster), directory / REPORT, say)
    advise(directory, settings, say)


def advise(directory: Path, settings: Settings, say: Callable[[str], None]) -> None:
    tables = f"--warehouse {directory}/warehouse --cluster {settings.cluster}"
    command = ".venv/bin/groupledger" if is_checkout() else "groupledger"
    say(f"try: {command} incidents {tables}; or look at it: {command} serve --warehouse {directory}/warehouse")


@contextmanager
def simulation(directory: Path, seed: int) -> Iterator[Callable[[], None]]:
    """Runs the simulator in parallel to the block. Yields a function that waits for the simulator to end, and raises
    OutsideError if it fails."""
    command = [
        sys.executable,
        "-m",
        "groupledger.jobs.cli.main",
        "simulate",
        "--scenario",
        SCENARIO,
        "--seed",
        str(seed),
        "--until",
        "now",
    ]
    process = subprocess.Popen([*command, "--out", str(directory)])

    def finish() -> None:
        if process.wait() != 0:
            raise OutsideError("The simulation failed: its output above says why.")

    try:
        yield finish
    finally:
        process.terminate()
        process.wait()
