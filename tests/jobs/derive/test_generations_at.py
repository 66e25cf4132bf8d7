"""Goal: the generations that are read for a few steps judge them as all generations would."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.lag_cost import table_rows
from groupledger.jobs.derive.generations_at import generations_at
from groupledger.jobs.warehouse.retention import Floor, with_floors
from groupledger.jobs.warehouse.tables import every_row
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.words import EndedBy
from groupledger.transforms.offsets import offset_events
from lab.warehouses.ledgers import open_test_ledger
from lab.warehouses.opened_files import opened_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger

    Row = dict[str, Any]

HOUR_US = 3_600_000_000
BATCH_FROM, BATCH_TO = 700, 720  # hours: in each a generation has an offset, and a step the next one
SEEDS, GROUPS_OF_SEED, FLOOR = range(8), 25, 600
RESTARTED = "restarted"  # a rebuild went on from the middle of its records, and no longer knew that it had members


@pytest.fixture(scope="module")
def ledger(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """Returns a ledger with a month of generations, each week in a file, and an older one of `RESTARTED`."""
    rows = [row for seed in SEEDS for row in timelines(random.Random(seed), seed)]
    rows.append(closed(RESTARTED, 10, 20, EndedBy.TOMBSTONE))
    with open_test_ledger(spark, tmp_path_factory.mktemp("generations")) as opened:
        opened.create(GENERATIONS, GROUPS, COORDINATOR_RECORDS)
        for week in range(0, BATCH_TO, 168):
            of_week = [row for row in rows if week <= row["generation"] < week + 168]
            opened.commits.append(GENERATIONS, table_rows(GENERATIONS, opened.cluster, columns(of_week)))
        opened.commits.append(GROUPS, table_rows(GROUPS, opened.cluster, columns(groups_of(rows))))
        opened.commits.set_properties(
            COORDINATOR_RECORDS,
            lambda before: with_floors(before, opened.storage, {opened.cluster: {1: Floor(FLOOR, 0)}}),
        )
        yield opened


def timelines(chance: random.Random, seed: int) -> Iterator[Row]:
    """Yields the generations of groups. Each group may have pauses, may have ended for good, and may never have had
    any."""
    for number in range(GROUPS_OF_SEED):
        begin, name = chance.randrange(BATCH_TO), f"group-{seed}-{number}"
        while number % 5 and begin < BATCH_TO:
            end = begin + chance.randrange(1, 400)
            row = closed(name, begin, end, chance.choice([EndedBy.GENERATION, EndedBy.TOMBSTONE, EndedBy.HOLE]))
            yield row if end < BATCH_TO else row | {"is_open": 1, "to_offset": None, "ended_at": None, "ended_by": None}
            begin = end + chance.choice([0, 0, 5, 200, BATCH_TO])


def closed(group_id: str, begin: int, end: int, ended_by: str) -> Row:
    began_us, ended_us = begin * HOUR_US, end * HOUR_US
    return {
        "group_id": group_id,
        "incarnation": 1,
        "generation": begin,
        "revision": 0,
        "kafka_offset": 2 * begin,
        "to_offset": 2 * end,
        "protocol_type": "consumer",
        "member_count": begin % 3,
        "started_at": began_us,
        "current_state_at": began_us,
        "ended_at": ended_us,
        "ended_by": ended_by,
        "is_open": 0,
    }


def groups_of(generations: list[Row]) -> list[Row]:
    """Returns what the history has of the groups; those without generations are simple."""
    names = {f"group-{seed}-{number}" for seed in SEEDS for number in range(GROUPS_OF_SEED)} | {RESTARTED}
    with_any = {row["group_id"] for row in generations} - {RESTARTED}
    return [
        {
            "group_id": name,
            "kafka_partition": int(name == RESTARTED),
            "is_simple": name not in with_any,
            "incarnation": 1,
            "first_kafka_offset": 0,
        }
        for name in sorted(names)
    ]


def columns(rows: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def steps(ledger: Ledger, names: list[str], seed: int) -> DataFrame:
    chance = random.Random(seed)
    rows = [
        (name, 2 * offset + 1, offset * HOUR_US, chance.choice([0, 600, 1_399]), True)
        for name in names
        for offset in chance.sample(range(BATCH_FROM, BATCH_TO), 3)
    ]
    frame = ledger.spark.createDataFrame(
        rows, "group_id string, kafka_offset long, at_us long, known_from long, is_new boolean"
    )
    return frame.selectExpr("* EXCEPT (at_us)", "timestamp_micros(at_us) AS happened_at")


def test_judged_alike(ledger: Ledger) -> None:
    """Goal: whether a group is known, and its generation, are those that all generations give: of groups in force, in
    a pause, ended for good weeks ago, that began in the batch, and that never had members."""
    names = [row["group_id"] for row in ledger.arrow(GROUPS).to_pylist()]
    of_batch = steps(ledger, names, 1).persist()
    judge = offset_events._with_generation
    found, expected = (
        sorted(map(repr, judge(of_batch, rows).collect()))
        for rows in (generations_at(ledger, of_batch), ledger.rows_within(GENERATIONS, every_row))
    )
    assert found == expected
    assert len(found) == 3 * len(names)
    of_batch.unpersist()


def test_only_what_may_matter_is_read(ledger: Ledger) -> None:
    """Goal: for groups that never had members, and for those in force, no file of earlier weeks is opened; for one that
    a rebuild has cut off they are."""
    simple = [f"group-{seed}-{number}" for seed in SEEDS for number in range(0, GROUPS_OF_SEED, 5)]
    counts = []
    for names in (simple, [*simple, RESTARTED]):
        with opened_files(Path(ledger.warehouse)) as opened:
            generations_at(ledger, steps(ledger, names, 2)).collect()
        counts.append(opened[GENERATIONS.name].files)
    assert counts[0] < counts[1]
