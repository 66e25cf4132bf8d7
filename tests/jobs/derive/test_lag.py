"""Goal: `lag` holds each round once, the same however rounds are cut into runs or computed in memory; and answers."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.lag_answers import answer, changes, lag_rows
from groupledger.jobs.ask.lag_changes import rows_again
from groupledger.jobs.cli.main import main
from groupledger.jobs.derive.lag import group_histories, recover_state, rounds_after, update_lag
from groupledger.jobs.derive.lag_seeds import drop_seeds, seeds_at
from groupledger.jobs.ingest.coverage import write_coverage
from groupledger.jobs.ingest.samples import batch_of, last_sampled_at_ms
from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse import delta_log
from groupledger.jobs.warehouse.retention import Floor, with_floors
from groupledger.jobs.warehouse.source import KAFKA, LedgerSource, write_source
from groupledger.jobs.warehouse.tables import collect
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.lag_seeds import LAG_SEEDS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import LagFlag
from groupledger.transforms.coverage.rules.stretches import Reading
from groupledger.transforms.lag.rules import LagRules, Round, StatusRules, Watermark
from lab.warehouses.ledgers import open_test_ledger
from lab.warehouses.scatter import scatter
from tests.transforms.history.history_frames import CLUSTER, START_MS, cooperative_group, frames, simple_group

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.lag.rules import LagRow

ROUND_MS = 15_000
FIRST_MS = START_MS + 1_000
# What each round read: the ends of the log's partitions 3 (None: no answer) and 5, and the end of orders 0.
ROUNDS = [
    (2, 0, 10),
    (5, 2, 25),
    (6, 4, 41),
    (None, 4, 42),
    (12, 5, 60),
    (13, 5, 60),
    (15, 6, 8),
    (18, 7, 9),
    (28, 7, 12),
]
CUT, LATE_CUT = 4, 7


def row_of(number: int, **fields: Any) -> dict[str, Any]:
    at_ms = FIRST_MS + number * ROUND_MS
    return {"cluster": CLUSTER, "sampled_at": at_ms * 1_000, "sample_date": at_ms // 86_400_000, **fields}


def watermark(number: int, topic: str, partition: int, end: int, topic_id: str) -> dict[str, Any]:
    offsets = {"log_start_offset": 0, "high_watermark": end, "last_stable_offset": end}
    return row_of(number, topic=topic, partition=partition, leader_epoch=0, topic_id=topic_id, **offsets)


def samples(number: int) -> dict[Table, list[dict[str, Any]]]:
    """The topic is made anew before round 6; partition 1 does not answer in round 2."""
    third, fifth, end = ROUNDS[number]
    topic_id = "first" if number < 6 else "second"
    found = [watermark(number, "orders", partition, end + partition, topic_id) for partition in (0, 1, 2)]
    found += [watermark(number, OFFSETS_TOPIC, 5, fifth, "offsets")]
    if third is not None:
        found += [watermark(number, OFFSETS_TOPIC, 3, third, "offsets")]
    if number == 2:
        found[1] |= dict.fromkeys(("log_start_offset", "high_watermark", "last_stable_offset"))
    return {
        WATERMARKS: found,
        GROUP_STATES: [row_of(number, group_id="g1", state="Stable", subscribed_topics=["orders"])],
    }


def add_rounds(ledger: Ledger, numbers: Sequence[int]) -> None:
    for table in (WATERMARKS, GROUP_STATES):
        rows = [row for number in numbers for row in samples(number)[table]]
        arrow = pa.Table.from_pylist(rows, schema=arrow_schema(table.schema))
        ledger.create(table)
        ledger.commits.append(table, arrow, batch_of(ledger, table, FIRST_MS + numbers[-1] * ROUND_MS))


def new_warehouse(spark: SparkSession, path: Path) -> Path:
    for table, rows in frames(spark, cooperative_group(), simple_group()).items():
        writer = rows.coalesce(1).write.format("delta").partitionBy(*table.partition_columns)
        writer.save(str(path / table.name))
    return path


def table_rows(ledger: Ledger) -> list[LagRow]:
    return lag_rows(collect(ledger.rows(LAG)))


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All rounds in one run."""
    path = new_warehouse(spark, tmp_path_factory.mktemp("lag"))
    with open_test_ledger(spark, path) as ledger:
        add_rounds(ledger, range(len(ROUNDS)))
        assert update_lag(ledger, threading.Event()) == len(ROUNDS)
        assert update_lag(ledger, threading.Event()) == 0
    return path


def test_rows(spark: SparkSession, warehouse: Path) -> None:
    """Goal: each round has the commits that it counted and the owners of that time; it has no rows of a topic or an
    incarnation that had ended."""
    with open_test_ledger(spark, warehouse) as ledger:
        rows = table_rows(ledger)
    assert all(row.status for row in rows)
    first = {
        (row.sampled_at_ms - FIRST_MS) // ROUND_MS: row for row in rows if (row.group_id, row.partition) == ("g1", 0)
    }
    assert [(number, row.committed_offset, row.lag, row.owner) for number, row in first.items()] == [
        (0, 10, 0, None),
        (1, 5, 20, "a"),
        (2, 5, 36, "a"),
        (3, 5, None, "a"),
        (4, 40, 20, "b"),
        (5, None, None, "b"),
        (6, 1, None, None),
        (7, 3, None, None),
        (8, 0, None, None),
    ]
    assert first[3].flags == ("commits_late",)
    assert [number for number, row in first.items() if "topic_recreated" in row.flags] == [6, 7, 8]


@pytest.mark.parametrize("few", [delta_log.FEW_ROWS, -1])
def test_cut_runs_and_memory(
    spark: SparkSession, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Goal: several runs, and a run followed by rounds in memory, give the rows of one run, whether what is new is read
    without Spark or by it, and though every table lies in several files."""
    monkeypatch.setattr(delta_log, "FEW_ROWS", few)
    with open_test_ledger(spark, warehouse) as ledger:
        expected = table_rows(ledger)
    path = new_warehouse(spark, tmp_path)
    with open_test_ledger(spark, path) as ledger:
        add_rounds(ledger, range(CUT))
        update_lag(ledger, threading.Event())
        scatter(ledger)
        state = recover_state(ledger, rules_from(LagRules, ledger.settings.lag))
        for part in (range(CUT, LATE_CUT), range(LATE_CUT, len(ROUNDS))):  # from kept seeds, and from some after
            add_rounds(ledger, part)
            update_lag(ledger, threading.Event())
        in_memory = [
            row
            for at_ms, ends in rounds_after(ledger, FIRST_MS + (CUT - 1) * ROUND_MS)
            for row in state.round(Round(at_ms, ends, watermarks_at(ledger, at_ms)), {})
        ]
        assert table_rows(ledger) == expected
        assert last_sampled_at_ms(ledger, LAG_SEEDS) == FIRST_MS + (CUT - 1) * ROUND_MS
        assert set(group_histories(ledger)) == {"g1"}
    later = [row for row in expected if row.sampled_at_ms >= FIRST_MS + CUT * ROUND_MS]
    assert {numbers(row) for row in in_memory} == {numbers(row) for row in later if row.committed_offset is not None}


def test_behind_retention_and_a_rebuild(spark: SparkSession, warehouse: Path, tmp_path: Path) -> None:
    """Goal: commits that retention has removed count on, though a rebuild of the history drops what was kept of rounds;
    one that is still there counts once."""
    with open_test_ledger(spark, warehouse) as ledger:
        expected = table_rows(ledger)
    path = new_warehouse(spark, tmp_path)
    with open_test_ledger(spark, path) as ledger:
        add_rounds(ledger, range(CUT))
        update_lag(ledger, threading.Event())
        seeds_at(ledger, FIRST_MS + (CUT - 1) * ROUND_MS, rules_from(LagRules, ledger.settings.lag))  # keeps them
        ledger.create(COORDINATOR_RECORDS)
        floors = {ledger.cluster: {5: Floor(4, START_MS)}}
        ledger.commits.set_properties(COORDINATOR_RECORDS, lambda before: with_floors(before, ledger.storage, floors))
        ledger.commits.delete(COORDINATOR_RECORDS, "kafka_partition = 5 AND kafka_offset < 3")
        drop_seeds(ledger)
        add_rounds(ledger, range(CUT, len(ROUNDS)))
        update_lag(ledger, threading.Event())
        assert table_rows(ledger) == expected
    removed = [row for row in expected if row.kafka_partition == 5 and (row.kafka_offset or 4) < 3]
    assert any(row.sampled_at_ms >= FIRST_MS + CUT * ROUND_MS for row in removed)


def test_a_log_that_was_cleaned_before_it_was_read(spark: SparkSession, warehouse: Path, tmp_path: Path) -> None:
    """Goal: the log was cleaned between the first round and the read, and a commit that the round would count may be
    gone: the table and the question say so, and all other rows are as they were."""
    path = new_warehouse(spark, tmp_path)
    reading = Reading(from_offset=0, complete_from=2, complete_from_ms=FIRST_MS, settled_from=12)
    source = LedgerSource(KAFKA, None, {3: [reading]})
    with open_test_ledger(spark, path) as ledger:
        ledger.create(COVERAGE)
        write_source(ledger.storage, CLUSTER, source)
        write_coverage(ledger, source, {3: 28}, None)
        add_rounds(ledger, range(len(ROUNDS)))
        update_lag(ledger, threading.Event())
        found = table_rows(ledger)
    with open_test_ledger(spark, warehouse) as ledger:
        whole = table_rows(ledger)
    other = [(was, now) for was, now in zip(whole, found, strict=True) if was != now]
    assert [(was.sampled_at_ms, was.group_id, was.partition, was.committed_offset) for was, _ in other[:1]] == [
        (FIRST_MS, "g1", 0, 10)
    ]
    # Without that commit nothing shows that the next one went back.
    assert [(was, "rewound") for was, _ in other[1:]] == [
        (replace(now, status="rewound"), was.status) for was, now in other[1:]
    ]
    (_, now), *_ = other
    assert (now.status, now.flags, now.committed_offset, now.lag) == ("unknown", (LagFlag.COMMIT_UNKNOWN,), None, None)
    again = rows_again(ClusterRows(str(path), CLUSTER), "g1", instant_of_ms(FIRST_MS), None, LagRules())
    assert now in again


def watermarks_at(ledger: Ledger, at_ms: int) -> dict[TopicPartition, Watermark]:
    rows = collect(ledger.rows(WATERMARKS).where(f"unix_millis(sampled_at) = {at_ms} AND high_watermark IS NOT NULL"))
    return {
        TopicPartition(row["topic"], row["partition"]): Watermark(
            at_ms,
            *(
                row[name]
                for name in ("log_start_offset", "high_watermark", "last_stable_offset", "leader_epoch", "topic_id")
            ),
        )
        for row in rows
        if row["topic"] != OFFSETS_TOPIC
    }


def numbers(row: LagRow) -> tuple[Any, ...]:
    """What does not depend on owners and states."""
    return (
        *(row.sampled_at_ms, row.group_id, row.topic, row.partition, row.raw_lag, row.lag, row.lag_seconds),
        *(row.lag_seconds_lower_bound, row.lag_per_second, row.burrow_status, row.no_progress_since_ms),
    )


def test_computed_again(spark: SparkSession, warehouse: Path) -> None:
    """Goal: without Spark a group's rows come out as Spark has computed them; by rules that look back for one round
    only, so that everything older is read from the tables, they are the same from whichever round on."""
    with open_test_ledger(spark, warehouse) as ledger:
        expected = table_rows(ledger)
    tables = ClusterRows(str(warehouse), CLUSTER)
    short = LagRules(status=StatusRules(window_ms=ROUND_MS))
    for name in ("g1", "simple"):
        first = instant_of_ms(FIRST_MS)
        assert rows_again(tables, name, first, None, LagRules()) == [row for row in expected if row.group_id == name]
        by_short = rows_again(tables, name, first, None, short)
        for since_ms in range(FIRST_MS, FIRST_MS + len(ROUNDS) * ROUND_MS, ROUND_MS):
            again = rows_again(tables, name, instant_of_ms(since_ms), None, short)
            assert again == [row for row in by_short if row.sampled_at_ms >= since_ms]


def ask(warehouse: Path, *arguments: str) -> Any:
    wide = CliRunner(env={"COLUMNS": "300"})
    result = wide.invoke(main, ["lag", "--warehouse", str(warehouse), "--cluster", CLUSTER, *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_lag_command(warehouse: Path) -> None:
    """Goal: the columns of Kafka's tool come first; --at gives the round of that time, --by sums, and --since the
    changes of status."""
    text = ask(warehouse).stdout
    headings = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID"]
    positions = [text.find(heading) for heading in headings]
    assert -1 < positions[0] < positions[-1]
    assert positions == sorted(positions)
    found = [json.loads(line) for line in ask(warehouse, "--group", "g1", "--at", at(4), "--json").stdout.splitlines()]
    assert [(row["partition"], row["committed_offset"], row["lag"]) for row in found if row["partition"] < 2] == [
        (0, 40, 20),
        (1, None, None),
    ]
    sums = [json.loads(line) for line in ask(warehouse, "--by", "group", "--json").stdout.splitlines()]
    assert {row["group_id"] for row in sums} == {"g1", "simple"}
    reported = [
        json.loads(line) for line in ask(warehouse, "--group", "g1", "--since", at(0), "--json").stdout.splitlines()
    ]
    assert reported[0]["status_before"] is None
    assert any(row["status"] != row["status_before"] for row in reported[1:])


def at(number: int) -> str:
    return datetime.fromtimestamp((FIRST_MS + number * ROUND_MS) / 1_000, timezone.utc).isoformat()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--at", "2020-01-01"), "ask for a later instant"),
        (("--group", "nobody"), "knows nothing of the group nobody"),
        (("--since", "2020-01-01"), "--since needs the NAME"),
        (("--until", "2020-01-01"), "--until needs --since"),
    ],
)
def test_refused(warehouse: Path, arguments: Sequence[str], sentence: str) -> None:
    """Goal: a question that can't be answered is refused with the remedy."""
    result = ask(warehouse, *arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())


def test_changes(spark: SparkSession, warehouse: Path) -> None:
    """Goal: one answer where a status changes, the first one among them."""
    with open_test_ledger(spark, warehouse) as ledger:
        rows = [row for row in table_rows(ledger) if (row.group_id, row.partition) == ("g1", 0)]
    found = changes(rows)
    assert found[0] == answer(rows[0]) | {"status_before": None, "burrow_before": None}
    assert len(found) < len(rows)
