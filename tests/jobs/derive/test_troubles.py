"""Goal: a group on which a rule fails costs that group: all others have the rows that they would have without it."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import groupledger.jobs.derive.aside
import groupledger.jobs.derive.troubles
from groupledger.jobs.derive.history import rebuild_history, update_history
from groupledger.jobs.derive.troubles import RELEASE, look_for_anybody, note_troubles, open_troubles
from groupledger.jobs.derive.validate import damaged_groups, validate
from groupledger.jobs.warehouse.delta_log import dataset
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import INT64_MAX
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.tables.troubles import TROUBLES
from groupledger.schemas.words import TroubledStep
from groupledger.transforms.history import group_history
from groupledger.transforms.history.group_history import DERIVED_TABLES
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.troubles import Trouble
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.derive.recorded_log import add, log_rows
from tests.jobs.simulated_log import content, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

    Row = dict[str, Any]

COPIES = 17  # of the three groups of a recorded log: 51 groups, one of them poisoned
POISONED = "dynamic-0"
NEW_RELEASE = "99.0"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Returns the records of all groups, each at a place of its own."""
    return [
        {
            **row,
            "group_id": f"{row['group_id']}-{copy}",
            "kafka_offset": row["kafka_offset"] * COPIES + copy,
        }
        for row in log_rows()
        for copy in range(COPIES)
    ]


def poisoned(rows: list[Row]) -> tuple[list[Row], int]:
    """Returns the rows, with one in the poisoned group's log that lacks a field of its type, and the offset of that
    row."""
    epochs = [
        row
        for row in rows
        if row["group_id"] == POISONED and row["record_type"] == "consumer_group_metadata" and not row["is_tombstone"]
    ]
    broken = epochs[len(epochs) // 2]
    return [{**row, "record_json": "{}"} if row is broken else row for row in rows], broken["kafka_offset"]


def cut(rows: list[Row], *places: int) -> list[list[Row]]:
    """Returns the rows in pieces; the places are offsets of the recorded log, between records of the poisoned group."""
    bounds = [0, *(place * COPIES for place in places), INT64_MAX]
    return [[row for row in rows if begin <= row["kafka_offset"] < end] for begin, end in pairwise(bounds)]


def open_rows(spark: SparkSession, warehouse: Path) -> list[Row]:
    with open_test_ledger(spark, warehouse) as ledger:
        return open_troubles(ledger)


def states_aside(warehouse: Path) -> dict[str, str]:
    found = dataset(str(warehouse), OPEN_GROUPS).to_table(["group_id", "set_aside_by"]).to_pylist()
    return {row["group_id"]: row["set_aside_by"] for row in found if row["set_aside_by"] is not None}


def of_others(warehouse: Path, which: Table) -> list[str]:
    return [row for row in content(warehouse, which) if f"'group_id': '{POISONED}'" not in row]


@pytest.fixture(scope="module")
def healthy(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> Path:
    """Returns a ledger of all groups but the poisoned one."""
    warehouse = tmp_path_factory.mktemp("healthy")
    add(spark, warehouse, [row for row in rows if row["group_id"] != POISONED])
    run(spark, warehouse)
    return warehouse


def test_one_poisoned_group(spark: SparkSession, tmp_path: Path, healthy: Path, rows: list[Row]) -> None:
    """Goal: with one group whose log can't be folded, over two passes and a rebuild, the 50 others have the tables of a
    ledger without it; it has a trouble that names the record, and `validate` calls neither it nor them damaged."""
    log, broken = poisoned(rows)
    assert broken < 125 * COPIES
    for piece in cut(log, 125):
        add(spark, tmp_path, piece)
        run(spark, tmp_path)
    for is_rebuilt in (False, True):
        if is_rebuilt:
            run(spark, tmp_path, rebuild_history)
        assert states_aside(tmp_path) == {POISONED: RELEASE}
        (trouble,) = open_rows(spark, tmp_path)
        assert (trouble["group_id"], trouble["step"], trouble["release"]) == (POISONED, TroubledStep.HISTORY, RELEASE)
        assert (trouble["kafka_partition"], trouble["kafka_offset"]) == (0, broken)
        assert trouble["reason"].startswith("KeyError: 'epoch' (group_history.py, line ")
        for table in (*DERIVED_TABLES, OPEN_GROUPS):
            assert of_others(tmp_path, table) == content(healthy, table), table.name
    with open_test_ledger(spark, tmp_path) as ledger:
        assert damaged_groups(ledger) == []
        assert validate(ledger) == []
        assert {row["step"] for row in open_troubles(ledger)} == {TroubledStep.HISTORY, TroubledStep.VALIDATE}


def test_another_release_tries_again(
    spark: SparkSession, tmp_path: Path, healthy: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a group that a fault of ours set aside is folded from where its history stopped by the release that repairs
    the fault; then the tables agree with the records, and the trouble is over."""

    def faulty(group_id: str, *arguments: Any, **settings: Any) -> Any:
        folded = fold(group_id, *arguments, **settings)
        if group_id == POISONED:
            raise OverflowError("too large to be held")
        return folded

    first, second, last = cut(rows, 64, 125)
    add(spark, tmp_path, first)
    run(spark, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(group_history, "fold", faulty)  # tasks get it with the function that calls it
        add(spark, tmp_path, second)
        run(spark, tmp_path)
    (trouble,) = open_rows(spark, tmp_path)
    assert trouble["reason"].startswith("OverflowError: too large to be held (test_troubles.py, line ")
    assert states_aside(tmp_path) == {POISONED: RELEASE}
    for module in (groupledger.jobs.derive.aside, groupledger.jobs.derive.troubles):
        monkeypatch.setattr(module, "RELEASE", NEW_RELEASE)
    add(spark, tmp_path, last)
    run(spark, tmp_path)
    for table in (*DERIVED_TABLES, OPEN_GROUPS):
        assert of_others(tmp_path, table) == content(healthy, table), table.name
    with open_test_ledger(spark, tmp_path) as ledger:
        assert damaged_groups(ledger) == []
        assert open_troubles(ledger) == []
    assert states_aside(tmp_path) == {}
    (over,) = dataset(str(tmp_path), TROUBLES).to_table().to_pylist()
    assert over["ended_at"] > over["since"]


def test_nobody_can_be_judged(
    spark: SparkSession, tmp_path: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a fault that hits every group is no trouble of one group: this pass and the next say that the step can
    judge nobody, until a rebuild by the release that repairs the fault; if only one group among others is in trouble,
    they don't."""

    def faulty(*_: Any, **__: Any) -> Any:
        raise OverflowError("too large to be held")

    def judged_nobody(action: Callable[[Ledger, threading.Event], object]) -> tuple[set[str], list[str]]:
        said: list[str] = []
        with open_test_ledger(spark, tmp_path) as ledger:
            listening = replace(ledger, say=said.append)
            action(listening, threading.Event())
        return listening.judged_nobody, [line for line in said if "no group could be judged" in line]

    first, second, last = cut([row for row in rows if row["group_id"].endswith(("-0", "-1"))], 64, 125)
    with monkeypatch.context() as patched:
        patched.setattr(group_history, "fold", faulty)
        add(spark, tmp_path, first)
        steps, (line,) = judged_nobody(update_history)
        assert steps == {TroubledStep.HISTORY}
        assert line.startswith(
            "history: no group could be judged: 2 groups can't be judged, such as dynamic-0 (history: "
        )
    add(spark, tmp_path, second)
    assert judged_nobody(update_history)[0] == {TroubledStep.HISTORY}  # set aside, they are not even tried
    assert judged_nobody(rebuild_history) == (set(), [])
    with monkeypatch.context() as patched:
        patched.setattr(group_history, "fold", faulty)
        add(spark, tmp_path, [row for row in last if row["group_id"] == POISONED])
        assert judged_nobody(update_history) == (set(), [])
    assert states_aside(tmp_path) == {POISONED: RELEASE}


@pytest.mark.parametrize(
    ("known", "troubled", "met", "is_nobody"),
    [
        ("ab", "a", "", False),  # the one that the step met is in trouble, and the others are not its business
        ("ab", "ab", "a", True),
        ("abc", "ab", "abc", False),
        ("abc", "ab", "", True),
        ("a", "a", "", True),
        ("ab", "", "", False),
    ],
)
def test_what_is_nobody(tmp_path: Path, known: str, troubled: str, met: str, is_nobody: bool) -> None:
    """Goal: a step judges nobody if it fails on several groups, or on the only one, and met no other; a line says so
    once, and it is over when the troubles are."""
    said: list[str] = []
    nothing: Any = None  # no table is read by Spark
    with open_test_ledger(nothing, tmp_path) as opened:
        ledger = replace(opened, say=said.append)
        ledger.create(OPEN_GROUPS)
        rows = [{"cluster": "test", "group_id": name, "kafka_partition": 0, "last_kafka_offset": 1} for name in known]
        ledger.commits.append(OPEN_GROUPS, pa.Table.from_pylist(rows, arrow_schema(OPEN_GROUPS.schema)))
        for _ in range(2):
            note_troubles(ledger, TroubledStep.LAG, {name: Trouble(name, "no") for name in troubled})
            look_for_anybody(ledger, TroubledStep.LAG, lambda: met)
            assert ledger.judged_nobody == ({TroubledStep.LAG} if is_nobody else set())
        assert sum("lag: no group could be judged: " in line for line in said) == is_nobody
        note_troubles(ledger, TroubledStep.LAG, {})
        look_for_anybody(ledger, TroubledStep.LAG, lambda: met)
        assert ledger.judged_nobody == set()
