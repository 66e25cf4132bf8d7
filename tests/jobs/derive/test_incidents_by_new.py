"""Goal: passes that judge only what is new find the same incidents as one that judges everything."""

from __future__ import annotations

import json
import shutil
import threading
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.jobs.derive import commit_steps, incidents, lag_stretches, open_transactions, rebalance_stretches
from groupledger.jobs.derive.history import rebuild_history, update_history
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.ingest.import_logs import LogSources, import_logs
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.forget import forget
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.transforms.forgetting import Forgotten
from groupledger.transforms.incidents.rules import Rules
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.derive.incident_pieces import CLUSTER, MINUTE_MS, NOTE, content, judged_at_once, samples, take
from tests.jobs.simulated_log import REQUESTS_OF, SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger
    from tests.jobs.simulated_log import Simulated

PIECES = (0, 24, 33, 52, 60)
KEEPING = (commit_steps, lag_stretches, open_transactions, rebalance_stretches)


class StoppedError(Exception):
    """Stops a pass as soon as it is known whom it judges."""


@pytest.fixture(scope="module", autouse=True)
def _often_kept() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in KEEPING:
            patch.setattr(module, "KEPT_EVERY_MS", 12 * MINUTE_MS)
        yield


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, whole: Path, simulated: Simulated, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """A warehouse that was filled in pieces, each of which was judged, and what a pass over all found beside it."""
    warehouse, folder = tmp_path_factory.mktemp("pieces") / "warehouse", tmp_path_factory.mktemp("copies")
    told: dict[str, tuple[list[str], list[str]]] = {}

    def compare(name: str) -> None:
        told[name] = (content(warehouse), judged_at_once(spark, warehouse, folder))

    with open_test_ledger(spark, whole, CLUSTER) as donor:
        sampled = samples(donor.arrow(COORDINATOR_RECORDS), Random(SEED))
        for begin, end in pairwise(PIECES):
            with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
                take(ledger, donor, sampled, begin, end)
                if end == PIECES[2]:
                    with_logs(ledger, LogSources([simulated.broker_logs / "request-log"], []))
            compare(f"minute {end}")
    with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
        with_logs(ledger, LogSources([], [simulated.broker_logs / "server-log"]))
    compare("server log")
    return {"warehouse": warehouse, "folder": folder, "told": told}


def with_logs(ledger: Ledger, sources: LogSources) -> None:
    import_logs(ledger, load_settings().logs, sources, threading.Event())
    update_incidents(ledger)


def test_pieces(found: dict[str, Any]) -> None:
    """Goal: after each piece, and after logs of a time that was judged before, nothing is missing, left over, or of
    yesterday."""
    assert [name for name, (by_new, at_once) in found["told"].items() if by_new != at_once] == []
    assert len(found["told"]["server log"][0]) > len(found["told"]["minute 24"][0]) > 3


def test_a_past_that_changes(spark: SparkSession, found: dict[str, Any], tmp_path: Path) -> None:
    """Goal: the same holds after a compaction, which judges nobody, a retention, a rebuild, and when a group is
    forgotten, which no file of the cluster's state names any more."""
    warehouse = tmp_path / "warehouse"
    shutil.copytree(found["warehouse"], warehouse)

    def compacted(ledger: Ledger) -> None:
        for table in (MEMBERS, GENERATIONS, REQUESTS, INCIDENTS, COORDINATOR_RECORDS):
            ledger.commits.compact(table, [], 1 << 30)
        assert_few(ledger)

    def retained(ledger: Ledger) -> None:
        at_us = (BEGAN_AT_MS + 20 * MINUTE_MS) * 1_000
        instant = f"arrow_cast({at_us:d}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
        for table, name in ((MEMBERS, "left_at"), (REQUESTS, "happened_at"), (COORDINATOR_EVENTS, "logged_at")):
            ledger.commits.delete(table, f"{name} < {instant}")

    def rebuilt(ledger: Ledger) -> None:
        rebuild_history(ledger, threading.Event())

    for change in (compacted, retained, rebuilt):
        with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
            change(ledger)
            update_incidents(ledger)
        assert content(warehouse) == judged_at_once(spark, warehouse, tmp_path), change.__name__
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
    """Returns the groups that a pass would judge; None if that is all."""
    found: list[Sequence[str] | None] = []

    def record(_run: Any, _known: Any, names: Sequence[str] | None) -> None:
        found.append(names)
        raise StoppedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incidents.Judging, "judge", record)
        try:
            update_incidents(ledger)
        except StoppedError:
            return found[0]
    return []


def assert_few(ledger: Ledger) -> None:
    """Holds if those are judged that have an open incident, and fewer than have any."""
    names = judged(ledger)
    assert names is not None
    every = {*ledger.arrow(INCIDENTS)["group_id"].to_pylist()} - {None}
    assert open_groups(ledger) <= {*names}
    assert len(names) < len(every)


def open_groups(ledger: Ledger) -> set[str]:
    rows = ledger.arrow(INCIDENTS, pc.field("is_open") & pc.field("group_id").is_valid(), ["group_id"])
    return {*rows["group_id"].to_pylist()}


def test_who_is_judged(spark: SparkSession, found: dict[str, Any], tmp_path: Path) -> None:
    """Goal: with nothing new it is who has an open incident; everybody, if the note is lost, can't be read, is of
    another release or of other rules, or if somebody else wrote incidents, as a pass does that is killed before it
    notes them."""
    warehouse = tmp_path / "warehouse"
    shutil.copytree(found["warehouse"], warehouse)
    note = warehouse / NOTE
    text = note.read_text()

    def with_text(changed: str) -> Callable[[Ledger], None]:
        def write(_: Ledger) -> None:
            note.write_text(changed)

        return write

    def killed(ledger: Ledger) -> None:
        ledger.commits.append(INCIDENTS, ledger.arrow(INCIDENTS).slice(0, 1))

    with open_test_ledger(spark, warehouse, CLUSTER) as ledger:
        assert_few(ledger)
        of_others = json.dumps(json.loads(text) | {"fingerprint": "of another release"})
        for change in (with_text("{"), with_text("{}"), with_text(of_others), lambda _: note.unlink(), killed):
            change(ledger)
            assert judged(ledger) is None
            note.write_text(text)


def test_a_time_that_passes(spark: SparkSession, found: dict[str, Any], tmp_path: Path) -> None:
    """Goal: an incident that is open ends by time alone, without a record."""
    warehouse = tmp_path / "warehouse"
    shutil.copytree(found["warehouse"], warehouse)
    rules, later_ms = Rules(open_ms=45 * MINUTE_MS), BEGAN_AT_MS + 200 * MINUTE_MS
    with open_test_ledger(spark, warehouse, CLUSTER) as ledger, pytest.MonkeyPatch.context() as patch:
        patch.setattr(incidents, "rules_from", lambda *_: rules)
        update_incidents(ledger)
        assert open_groups(ledger)
        patch.setattr(incidents, "topic_until_ms", lambda _: later_ms)
        patch.setattr(incidents, "noted_until", lambda *_: instant_of_ms(later_ms))
        update_incidents(ledger)
        by_new = content(warehouse)
        (warehouse / NOTE).unlink()
        update_incidents(ledger)
        assert not open_groups(ledger)
    assert by_new == content(warehouse)
