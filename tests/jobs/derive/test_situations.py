"""Goal: situations that people describe in public trackers, as a broker's logs recorded them, are reported as they
were."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.owner import owner
from groupledger.jobs.ask.why import why
from groupledger.jobs.derive.pipeline import derive
from groupledger.jobs.ingest.import_logs import LogSources, import_logs
from groupledger.jobs.ingest.ingest_capture import ingest_capture
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.tables.incidents import INCIDENTS
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Row = dict[str, Any]

RECORDED = Path(__file__).parents[2] / "data" / "situations"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ledger") / "warehouse"


@pytest.fixture(scope="module")
def incidents(spark: SparkSession, warehouse: Path) -> dict[str, dict[str, Row]]:
    """Returns the incidents of both brokers by group and kind."""
    stop = threading.Event()
    found: dict[str, dict[str, Row]] = {}
    for capture in ("beside_members", "kip848_loop"):
        with open_test_ledger(spark, warehouse, capture.replace("_", "-")) as ledger:
            if capture == "beside_members":
                sources = LogSources([RECORDED / "request.log"], [RECORDED / "server.log"])
                import_logs(ledger, load_settings().logs, sources, stop)
            ingest_capture(ledger, str(RECORDED / capture), stop, recover=False)
            derive(ledger, stop)
            for row in ledger.arrow(INCIDENTS).to_pylist():
                found.setdefault(row["group_id"], {})[row["kind"]] = row
    return found


def test_a_script_that_commits_beside_members(incidents: dict[str, dict[str, Row]]) -> None:
    row = incidents["assign-conflict"]["commit_from_outside"]
    assert (row["client_id"], row["occurrences"], row["setting_to_change"]) == ("the-script", 51, "group.id")
    assert not any(words in row["explanation"] for words in ("removed", "new owner", "server log"))


def test_an_assignment_too_large_to_be_stored(incidents: dict[str, dict[str, Row]]) -> None:
    of_group = incidents["toobig"]
    assert set(of_group) == {"assignment_not_stored"}
    row = of_group["assignment_not_stored"]
    assert (row["severity"], row["occurrences"], row["probable_root"]) == ("error", 52, "assignment_too_large")
    assert "max.message.bytes" in row["setting_to_change"]


@pytest.mark.usefixtures("incidents")
def test_the_owner_while_nothing_could_be_stored(warehouse: Path) -> None:
    """Goal: an owner from before generations without a record is not reported as certain, and `why` begins with the
    cause of these generations."""
    tables = ClusterRows(str(warehouse), "beside-members")
    at = datetime(2026, 11, 27, 12, 7, tzinfo=timezone.utc)
    (answer,) = owner(tables, "toobig", "small", 0, at)
    assert answer["reason"].startswith("2,220 generations without a record came before 2026-11-27T12:07:53.651Z")
    _, verdict = why(tables, "toobig", at - timedelta(hours=1), None)
    (episode,) = verdict["episodes"]
    assert (episode["kind"], verdict["root"]) == ("assignment_not_stored", "assignment_too_large")


def test_a_crash_loop_in_a_group_of_kip_848(incidents: dict[str, dict[str, Row]]) -> None:
    row = incidents["loop-848"]["rebalance_storm"]
    assert row["setting_to_change"] == "group.instance.id"
    assert "Members that keep their partitions continue to process" in row["explanation"]
