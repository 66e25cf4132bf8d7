"""Feeds inputs to a warehouse as was done when the archives in `tests/data/warehouses` were made."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.derive.pipeline import derive
from groupledger.jobs.derive.validate import validate
from groupledger.jobs.ingest.import_logs import LogSources, import_logs
from groupledger.jobs.ingest.import_samples import import_samples
from groupledger.jobs.ingest.ingest_capture import ingest_capture
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def feed(spark: SparkSession, warehouse: Path, inputs: Path, cluster: str) -> int:
    """Runs one pass of `pipeline` over the samples and the capture in `inputs`, and returns the number of records that
    it added."""
    with open_test_ledger(spark, warehouse, cluster) as ledger:
        import_samples(ledger, str(inputs))
        totals = ingest_capture(ledger, str(inputs / "capture"), threading.Event(), recover=False)
        derive(ledger, threading.Event())
    return totals.rows


def fed_as_then(spark: SparkSession, warehouse: Path, inputs: Path, cluster: str) -> None:
    """Feeds a warehouse as each release's archive was made: a pass, an import of the logs, an update of the incidents,
    and the quality checks."""
    feed(spark, warehouse, inputs, cluster)
    with open_test_ledger(spark, warehouse, cluster) as ledger:
        sources = LogSources([*(inputs / "request-log").iterdir()], [*(inputs / "server-log").iterdir()])
        import_logs(ledger, ledger.settings.logs, sources, threading.Event())
        update_incidents(ledger)
        validate(ledger)
