"""Goal: a pass over a recorded cluster finds the faults of its brokers in the tables, as rules find them in lists."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.group_timeline import group_timeline
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.derive.pipeline import derive
from groupledger.jobs.ingest.import_logs import LogSources, import_logs
from groupledger.jobs.ingest.ingest_capture import ingest_capture
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.tables.incidents import INCIDENTS
from lab.warehouses.ledgers import open_test_ledger
from tests.transforms.incidents.rules.test_broker_faults import ALL, HIT, LOGS, RECORDED

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    Row = dict[str, Any]

CLUSTER = "faults"


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("faults") / "warehouse"
    with open_test_ledger(spark, found, CLUSTER) as ledger:
        ingest_capture(ledger, str(RECORDED / "capture"), threading.Event(), recover=False)
        derive(ledger, threading.Event())
    return found


def found(spark: SparkSession, warehouse: Path) -> list[Row]:
    with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
        rows: list[Row] = ledger.arrow(INCIDENTS).to_pylist()
    return rows


def check(rows: list[Row], evidence: str) -> None:
    of_cluster = sorted(
        (row for row in rows if row["group_id"] is None and row["kind"] == "coordinator_failed"),
        key=lambda row: row["first_seen_at"],
    )
    assert [row["evidence"] for row in of_cluster] == [evidence] * 2
    hit = [{row["group_id"] for row in rows if row["episode_id"] == each["episode_id"]} - {None} for each in of_cluster]
    assert hit == HIT


def test_a_pass_finds_the_faults(spark: SparkSession, warehouse: Path) -> None:
    """Goal: from the topic alone, and then with the logs, each fault is one episode; killed members are found as well,
    and departures at the time of a fault have no cause."""
    check(found(spark, warehouse), "inferred")
    _, entries, _ = group_timeline(ClusterRows(str(warehouse), CLUSTER), "rd-0", None, None, 50)
    causes = [each["leave_cause"] for entry in entries for each in entry.get("members_left") or ()]
    assert "unknown" in causes or not causes
    with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
        import_logs(ledger, load_settings().logs, LogSources([], LOGS), threading.Event())
        update_incidents(ledger)
    rows = [row for row in found(spark, warehouse) if row["severity"] != "info"]
    check(rows, "observed")
    assert {row["group_id"] for row in rows if row["kind"] == "session_expired"} == ALL
    assert [row["group_id"] for row in rows if row["kind"] == "zombie_coordinator"] == ["rd-0"]
