"""Goal: `groupledger demo --bootstrap-servers` on a cluster that it does not know, with odd names in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from groupledger.jobs.cli.main import main
from groupledger.jobs.demo.demo import REPORT
from groupledger.jobs.warehouse.tables import ClusterTables
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.lag import LAG
from tests.broker.history import ODD_GROUPS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lab.kafka.local_broker import LocalBroker
    from tests.broker.conftest import Evidence


def test_every_step(spark: SparkSession, tmp_path: Path, broker: LocalBroker, evidence: Evidence) -> None:
    """Goal: the demo on a broker ends well, with every committed record, the present lag, the findings and the page; it
    does not print a comparison with a truth that nobody knows."""
    directory = tmp_path / "demo"
    where = ["--bootstrap-servers", broker.bootstrap_servers, "--directory", str(directory)]
    result = CliRunner().invoke(main, ["demo", *where])
    assert result.exit_code == 0, (result.exception, result.output[-3000:])
    titles = ("Records of __consumer_offsets", "Groups", "Most lag", "Incidents", "try: ")
    assert all(title in result.output for title in titles)
    assert "Beside what really happened" not in result.output
    ledger = ClusterTables(spark, str(directory / "warehouse"), "default")
    rows = ledger.rows(COORDINATOR_RECORDS).select("kafka_partition", "kafka_offset").collect()
    assert {(row.kafka_partition, row.kafka_offset) for row in rows} >= evidence.committed.keys()
    assert not ledger.rows(LAG).isEmpty()
    assert ODD_GROUPS[1] in (directory / REPORT).read_text()
