"""Goal: from a topic and samples that a broker and a monitor recorded, the incidents of groups whose records wait are
found as they happened.

The groups of `tests/data/situations/waiting` read as real clients do. Some of them are closed or killed 45 s after they
have begun, others go on, one waits for the end of a transaction, one has an offset beyond the end of its log."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.group_timeline import group_timeline
from groupledger.jobs.derive import lag_stretches
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.derive.pipeline import derive
from groupledger.jobs.ingest.import_logs import LogSources, import_logs
from groupledger.jobs.ingest.import_samples import import_samples
from groupledger.jobs.ingest.ingest_capture import ingest_capture
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.tables.incidents import INCIDENTS
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Row = dict[str, Any]
    ByGroup = dict[str, dict[str, Row]]

RECORDED = Path(__file__).parents[2] / "data" / "situations" / "waiting"
CLUSTER = "waiting"
WELL = ("alive", "batch", "eos-lag1", "gone-idle", "never-committed")


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("waiting") / "warehouse"
    with open_test_ledger(spark, found, CLUSTER) as ledger:
        import_samples(ledger, str(RECORDED))
        ingest_capture(ledger, str(RECORDED), threading.Event(), recover=False)
        derive(ledger, threading.Event())
    return found


@pytest.fixture(scope="module")
def incidents(spark: SparkSession, warehouse: Path) -> ByGroup:
    with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
        return by_group(ledger.arrow(INCIDENTS).to_pylist())


def by_group(rows: list[Row]) -> ByGroup:
    found: ByGroup = {}
    for row in rows:
        found.setdefault(row["group_id"], {})[row["kind"]] = row
    return found


def test_nobody_left(incidents: ByGroup) -> None:
    """Goal: a group whose consumers were stopped is reported without an alarm; a group whose consumers were killed
    alarms. The topic does not show whether a consumer of KIP-848 left by itself."""
    stopped, killed = incidents["gone-left"], incidents["gone-killed"]
    assert set(stopped) == {"group_without_members"}
    assert {"group_without_members", "session_expired"} <= set(killed)
    row = stopped["group_without_members"]
    assert (row["severity"], row["client_id"], row["client_host"]) == ("info", "gone-left-client", "127.0.0.1")
    assert {each["topic"] for each in row["partitions"]} == {"orders"}
    assert (len(row["partitions"]), row["is_open"]) == (3, True)
    assert "left by themselves" in row["explanation"]
    assert killed["group_without_members"]["severity"] == "warning"
    assert killed["group_without_members"]["probable_root"] == "session_expired"
    row = incidents["gone-left-848"]["group_without_members"]
    assert (row["severity"], row["client_id"]) == ("info", "gone-left-848-client")
    assert "whether they were stopped or died: import the server log" in row["explanation"]
    assert incidents["gone-killed-848"]["group_without_members"]["severity"] == "warning"


def test_somebody_came_back(incidents: ByGroup) -> None:
    row = incidents["came-back"]["group_without_members"]
    stopped = incidents["gone-left"]["group_without_members"]
    assert row["last_seen_at"] < stopped["last_seen_at"]
    assert 160 < (row["last_seen_at"] - row["first_seen_at"]).total_seconds() < 180


def test_who_waits_for_a_transaction_is_well(incidents: ByGroup) -> None:
    assert set(incidents["lso-stuck"]) == {"open_transaction_in_topic"}
    row = incidents["lso-stuck"]["open_transaction_in_topic"]
    assert (row["severity"], row["is_open"]) == ("warning", True)
    assert "316 records wait after that offset" in row["explanation"]
    assert "find-hanging" in row["explanation"]


def test_an_offset_beyond_the_end(incidents: ByGroup) -> None:
    assert set(incidents["ahead"]) == {"commit_ahead_of_end"}
    assert "by 4,970 in total" in incidents["ahead"]["commit_ahead_of_end"]["explanation"]


def test_a_new_partition(incidents: ByGroup) -> None:
    """Goal: a partition with 200 records before a consumer knew of it is reported of the group that began after them,
    and not of the one that began with them."""
    row = incidents["grow-latest"]["partition_not_read"]
    assert (row["never_read_max"], row["setting_to_change"]) == (200, "auto.offset.reset")
    assert "grow-earliest" not in incidents


def test_the_others_are_well(incidents: ByGroup) -> None:
    """Goal: no incident is reported of groups that read, of a job, of a marker as the last record, and of groups that
    left nothing unread."""
    assert not [group for group in WELL if group in incidents]


def test_the_same_however_much_is_kept(spark: SparkSession, warehouse: Path, incidents: ByGroup) -> None:
    """Goal: any division of the rounds into kept and new ones gives the same incidents."""
    with open_test_ledger(spark, warehouse, CLUSTER) as ledger, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lag_stretches, "KEPT_EVERY_MS", 0)
        for _ in range(2):
            update_incidents(ledger)
            assert by_group(ledger.arrow(INCIDENTS).to_pylist()) == incidents
        kept = ledger.storage.read(f"_groupledger/{CLUSTER}/lag_stretches.json")
        assert kept is not None
        assert "lso-stuck" in kept


def test_what_the_server_log_says_wins(spark: SparkSession, warehouse: Path, incidents: ByGroup) -> None:
    """Goal: with the server log imported, the incidents of KIP-848 consumers say, too, how the members left, and no
    longer ask for the log."""
    assert incidents
    with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
        import_logs(ledger, load_settings().logs, LogSources([], [RECORDED / "server.log"]), threading.Event())
        update_incidents(ledger)
        logged = by_group(ledger.arrow(INCIDENTS).to_pylist())
    reported = {
        name: of_group["group_without_members"] for name, of_group in logged.items() if name.startswith("gone-")
    }
    assert {name: row["severity"] for name, row in reported.items()} == {
        **dict.fromkeys(("gone-left", "gone-left-848"), "info"),
        **dict.fromkeys(("gone-killed", "gone-killed-848"), "warning"),
    }
    assert "left by themselves" in reported["gone-left-848"]["explanation"]
    assert "a member disappeared without leaving" in reported["gone-killed-848"]["explanation"]
    assert logged["gone-killed-848"]["session_expired"]["evidence"] == "observed"
    assert not any("import the server log" in row["explanation"] for row in reported.values())
    _, entries, _ = group_timeline(ClusterRows(str(warehouse), CLUSTER), "gone-killed-848", None, None, 100)
    (left,) = [member for entry in entries for member in entry.get("left", ())]
    assert (left["leave_cause"], left["leave_cause_confidence"]) == ("session_expired", 1.0)
