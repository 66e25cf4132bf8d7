"""Goal: a night of planted incidents, in virtual time, reaches a web server as messages: each episode once, and its end
once, though each pass begins anew and one is killed in the middle."""

from __future__ import annotations

import json
import shutil
import threading
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.jobs.derive import pipeline
from groupledger.jobs.derive.pipeline import derive
from groupledger.jobs.ingest.import_samples import import_samples
from groupledger.jobs.ingest.ingest_capture import ingest_capture
from groupledger.jobs.notify.notify import Notifier
from groupledger.jobs.process.outside import COMPUTED
from groupledger.jobs.process.settings import load_settings
from lab.faults.contents import contents, differences, without
from lab.faults.growing_log import HOUR_MS, make_pieces
from lab.faults.trials import KEPT
from lab.warehouses.ledgers import open_test_ledger
from lab.warehouses.sessions import forget_tables
from tests.jobs.killed import KilledError, kill
from tests.jobs.notify.receiving import receiving

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PIECES, KILLED = 2, 2
PLANTED = {"member_flapping", "offset_rewind"}


def test_a_night(tmp_path: Path, spark: SparkSession) -> None:
    """Goal: the messages that were sent agree with the table at the end, and the planted incidents are among them."""
    pieces = make_pieces(tmp_path / "log", 1, PIECES)
    warehouse, inputs, conf = tmp_path / "warehouse", tmp_path / "inputs", tmp_path / "settings.yaml"
    with receiving() as web:
        chat = {"kind": "json", "url": web.url, "severity": "warning"}
        conf.write_text(json.dumps({"notify": {"receivers": {"chat": chat}}}))
        for number, piece in enumerate(pieces, 1):
            shutil.rmtree(inputs, ignore_errors=True)
            shutil.copytree(piece, inputs)
            if number == KILLED:
                kill_in_the_middle(spark, warehouse, inputs, conf)
            look(spark, warehouse, inputs, conf, BEGAN_AT_MS + HOUR_MS * number // PIECES)
    reported = defaultdict(list)
    for body in web.bodies:
        reported[body["event"]].append(body["episode_id"])
    rows = DeltaTable(str(warehouse / "incidents")).to_pyarrow_table().to_pylist()
    wanted = {row["episode_id"] for row in rows if row["severity"] in ("warning", "error")}
    still_open = {row["episode_id"] for row in rows if row["is_open"]}
    assert sorted(reported["fired"]) == sorted(wanted)
    assert sorted(reported["resolved"]) == sorted(wanted - still_open)
    assert {kind for body in web.bodies for kind in body["kinds"]} >= PLANTED
    assert reported["resolved"]
    computed_tables_are_made_again(spark, warehouse)


def computed_tables_are_made_again(spark: SparkSession, warehouse: Path) -> None:
    """Removes the tables that a sentence may say to remove, and sees that a pass makes them as they were."""
    before = contents(warehouse)
    for name in COMPUTED:
        shutil.rmtree(warehouse / name)
    forget_tables(spark)
    with open_test_ledger(spark, warehouse) as ledger:
        derive(ledger, threading.Event())
    assert differences(without(contents(warehouse), KEPT), without(before, KEPT)) == []


def look(spark: SparkSession, warehouse: Path, inputs: Path, conf: Path, now_ms: int) -> None:
    """Does what a pass of the pipeline does, at an instant of the night, with nothing in memory of the pass before."""
    with open_test_ledger(spark, warehouse) as opened:
        ledger, stop = replace(opened, settings=load_settings(conf, cluster=opened.cluster)), threading.Event()
        import_samples(ledger, str(inputs))
        ingest_capture(ledger, str(inputs / "capture"), stop, recover=False)
        derive(ledger, stop)
        Notifier(ledger).look(now_ms)


def kill_in_the_middle(spark: SparkSession, warehouse: Path, inputs: Path, conf: Path) -> None:
    """Ends a pass when its history is written, and its lag and incidents are not. Kills by the system, at any call of a
    pass, are in test_campaign."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "update_lag", kill)
        with pytest.raises(KilledError):
            look(spark, warehouse, inputs, conf, 0)
