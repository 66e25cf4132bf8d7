"""Goal: passes that judge only groups with new rows find the same incidents as one that judges all groups.

`bench.incidents_by_new` plays many more groups and pieces.
"""

from __future__ import annotations

import shutil
import threading
from itertools import pairwise
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import pytest

from bench.lag_cost import table_rows
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.jobs.derive import (
    commit_steps,
    coordinator_faults,
    incidents,
    lag_stretches,
    open_transactions,
    rebalance_stretches,
    settled_faults,
)
from groupledger.jobs.derive.history import update_history
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.derive.judged_groups import read_judged
from groupledger.jobs.ingest.import_logs import LogSources, import_logs
from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.forget import forget
from groupledger.schemas.instants import ms_of
from groupledger.schemas.kinds.triggers import SESSION_EXPIRED
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.schemas.words import CoordinatorEventKind
from groupledger.transforms.forgetting import Forgotten
from groupledger.transforms.incidents import coordinator_faults as faults_of_tables
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.derive.incident_pieces import CLUSTER, MINUTE_MS, NOTE, content, judged_at_once, pieces_of
from tests.jobs.simulated_log import REQUESTS_OF, SEED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.derive.reach import Piece
    from groupledger.jobs.warehouse.ledger import Ledger
    from tests.jobs.simulated_log import Simulated

PIECES, LATER = (0, 33, 60), (75, 240)
KEEPING = (commit_steps, lag_stretches, open_transactions, rebalance_stretches)
Compared = tuple[list[str], list[str]]


class StoppedError(Exception):
    """Stops a pass as soon as it is known which groups it judges."""


@pytest.fixture(scope="module", autouse=True)
def _often_kept() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in KEEPING:
            patch.setattr(module, "KEPT_EVERY_MS", 12 * MINUTE_MS)
        for module in (faults_of_tables, coordinator_faults, settled_faults):
            patch.setattr(module, "STATED_WITHIN_MS", 6 * MINUTE_MS)
        patch.setattr(settled_faults, "SETTLED_AFTER_MS", 12 * MINUTE_MS)
        yield


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, simulated: Simulated, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path | Compared]:
    """Returns a warehouse that was filled in pieces, each of which was judged, and the same after some time without
    records, each with its incidents and with those of a pass over all groups."""
    warehouse, folder = tmp_path_factory.mktemp("pieces") / "warehouse", tmp_path_factory.mktemp("copies")
    pieces = pieces_of(simulated.rows, Random(SEED), late_ms=2 * MINUTE_MS)

    def compared() -> Compared:
        return content(warehouse), judged_at_once(spark, warehouse, folder)

    for begin, end in pairwise(PIECES):
        with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
            pieces.take(ledger, begin, end)
            if end == PIECES[1]:
                with_a_fault(ledger)
                with_logs(ledger, LogSources([simulated.broker_logs / "request-log"], []))
    with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
        with_logs(ledger, LogSources([], [simulated.broker_logs / "server-log"]))
    computed: dict[str, Path | Compared] = {"warehouse": folder / "pieces", "pieces": compared()}
    shutil.copytree(warehouse, folder / "pieces")
    for begin, end in pairwise((PIECES[-1], *LATER)):
        with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
            pieces.take(ledger, begin, end)
    return computed | {"later": compared()}


def with_a_fault(ledger: Ledger) -> None:
    """Appends the line in which a broker loads a partition, half a minute before a member drops out there."""
    gone = ledger.arrow(MEMBERS, pc.field("leave_cause") == SESSION_EXPIRED.name, ["group_id", "left_at"]).to_pylist()
    first = min(gone, key=itemgetter("left_at"))
    of_group = ledger.arrow(GROUPS, pc.field("group_id") == first["group_id"], ["kafka_partition"])
    at_ms = ms_of(first["left_at"]) - MINUTE_MS // 2
    line = {
        "source_file": ["moves.log"],
        "line_number": np.array([1]),
        "kind": [CoordinatorEventKind.PARTITION_LOADED],
        "kafka_partition": of_group["kafka_partition"].to_numpy(),
        "logged_at": np.array([at_ms * 1_000]),
        "logged_date": np.array([at_ms // DAY_MS]),
    }
    ledger.create(COORDINATOR_EVENTS)
    ledger.commits.append(COORDINATOR_EVENTS, table_rows(COORDINATOR_EVENTS, CLUSTER, line))


def with_logs(ledger: Ledger, sources: LogSources) -> None:
    import_logs(ledger, load_settings().logs, sources, threading.Event())
    update_incidents(ledger)


def test_pieces(found: dict[str, Any]) -> None:
    """Goal: after the last piece, and after logs and samples of a time that was judged before, no row is missing, left
    over or outdated."""
    by_new, at_once = found["pieces"]
    assert by_new == at_once
    assert len(by_new) > 10
    assert any("coordinator_failed" in row for row in by_new)


def test_only_time_goes_on(found: dict[str, Any]) -> None:
    """Goal: the same holds when no records come any more, and incidents that were open end."""
    by_new, at_once = found["later"]
    assert by_new == at_once
    assert any("coordinator_failed" in row for row in by_new)
    stuck = [[row for row in found[name][0] if "rebalance_stuck" in row] for name in ("pieces", "later")]
    assert [["('is_open', True)" in row for row in rows] for rows in stuck] == [[True], [False]]


def test_a_past_that_changes(spark: SparkSession, found: dict[str, Any], tmp_path: Path) -> None:
    """Goal: the same holds after a compaction, which changes no group, after a retention, and after a group was
    forgotten and the history rebuilt. No file of the cluster's state names the forgotten group."""
    warehouse = tmp_path / "warehouse"
    shutil.copytree(found["warehouse"], warehouse)
    at_us = (BEGAN_AT_MS + 20 * MINUTE_MS) * 1_000
    instant = f"arrow_cast({at_us:d}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
        for table in (MEMBERS, GENERATIONS, REQUESTS, INCIDENTS, COORDINATOR_RECORDS):
            ledger.commits.compact(table, [], 1 << 30)
        assert_few(ledger)
        for table, name in ((MEMBERS, "left_at"), (REQUESTS, "happened_at"), (COORDINATOR_EVENTS, "logged_at")):
            ledger.commits.delete(table, f"{name} < {instant}")
        update_incidents(ledger)
    assert content(warehouse) == judged_at_once(spark, warehouse, tmp_path)
    settings = load_settings(cluster=CLUSTER)
    forget(spark, str(warehouse), settings, Forgotten("group", (REQUESTS_OF,)), is_dry_run=False, say=lambda _: None)
    assert not any(
        REQUESTS_OF in path.read_text(errors="replace") for path in (warehouse / "_groupledger").rglob("*.json")
    )
    with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
        update_history(ledger, threading.Event())
        update_incidents(ledger)
    assert content(warehouse) == judged_at_once(spark, warehouse, tmp_path)
    assert not any(REQUESTS_OF in row for row in content(warehouse))


def judged(ledger: Ledger) -> Sequence[str] | None:
    """Returns the groups that a pass would judge; None if it would judge all."""
    found: list[Sequence[str] | None] = []

    def record(_run: Any, _known: Any, piece: Piece, _plan: Any) -> None:
        found.append(piece.names)
        raise StoppedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incidents.Judging, "judge", record)
        try:
            update_incidents(ledger)
        except StoppedError:
            return found[0]
    return []


def assert_few(ledger: Ledger) -> None:
    """Asserts that a pass judges the groups with an open incident, and not all groups."""
    names = judged(ledger)
    assert names is not None
    every = {*ledger.arrow(GENERATIONS, columns=["group_id"])["group_id"].to_pylist()}
    assert open_groups(ledger) <= {*names} < every


def open_groups(ledger: Ledger) -> set[str]:
    rows = ledger.arrow(INCIDENTS, pc.field("is_open") & pc.field("group_id").is_valid(), ["group_id"])
    return {*rows["group_id"].to_pylist()}


def test_when_all_groups_are_judged(spark: SparkSession, found: dict[str, Any], tmp_path: Path) -> None:
    """Goal: a pass judges all groups if the last one that did is long ago, and if somebody else wrote incidents, as a
    pass does that is killed before it writes its note. A note that can't be read, or none, counts as a first pass."""
    warehouse = tmp_path / "warehouse"
    shutil.copytree(found["warehouse"], warehouse)
    note = warehouse / NOTE
    with open_test_ledger(spark, warehouse, CLUSTER) as ledger, pytest.MonkeyPatch.context() as patch:
        patch.setattr(incidents, "HOUR_MS", 0)
        assert judged(ledger) is None
        patch.undo()
        ledger.commits.append(INCIDENTS, ledger.arrow(INCIDENTS).slice(0, 1))
        assert judged(ledger) is None
        for text in ("{", "[]", '{"of_a_later_release": 1}'):
            note.write_text(text)
            assert read_judged(ledger) is None
        note.unlink()
        assert read_judged(ledger) is None
