"""Goal: a warehouse that an earlier release has written goes on with today's code, and holds the same truth.

`tests/data/warehouses` holds one archive for each release: the warehouse, and beside it what each cluster's ledger was
fed from (`east`, `west`: capture, samples, logs). Spark's checkpoints in it name the files of the captures by the paths
that they had then. These paths are not needed: which rows of a capture are new is decided by their offsets.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

import groupledger.jobs.derive.history
from groupledger.jobs.ask.engine import ask
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.derive.history import TABLES
from groupledger.jobs.warehouse.delta_log import dataset
from groupledger.jobs.warehouse.tables import Tables
from groupledger.jobs.warehouse.warehouse import plan_for
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.transforms.history.rules.state import load
from lab.warehouses.feeding import fed_as_then, feed
from lab.warehouses.releases import unpacked
from tests.jobs.simulated_log import append, assert_equal_tables, run, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from tests.jobs.simulated_log import Simulated

ARCHIVES = sorted((Path(__file__).parents[2] / "data/warehouses").glob("*.tar.gz"))
FED, OTHER = "east", "west"  # the clusters of a release; the other one is not fed again
# What says when and from where a row was written.
OF_THE_RUN = {
    "ingest_date",
    "computed_at",
    "imported_at",
    "source_file",
    "recorded_at",
    "proof",  # older releases kept none
    "is_time_ambiguous",  # older releases did not look
    "throttle_time_ms",  # older releases left it out
}
# An older release left the time lag null where it knew a lower bound only; its rows stay as they are.
OF_TIME_LAG = {"lag_seconds", "lag_seconds_lower_bound", "lag_seconds_method"}
OF_THE_VIEW = "SELECT count(*) FROM offset_commits"  # what else it says of them an older ledger may not know
# Tables about the runs themselves.
ABOUT_RUNS = ("quality_results", "log_files", "what_if_runs", "what_if_effects", "troubles")


def content(warehouse: Path, which: Table, cluster: str) -> list[str]:
    """Returns a cluster's rows without what says about the run, in an order that is the same for equal tables."""
    found = dataset(str(warehouse), which).to_table(filter=pc.field("cluster") == cluster)
    left_out = OF_THE_RUN | (OF_TIME_LAG if which is LAG else set())
    rows = found.drop_columns([name for name in found.column_names if name in left_out]).to_pylist()
    if which is OPEN_GROUPS:
        rows = [row | {"state": load(row["state"])} for row in rows]
    return sorted(map(repr, rows))


def record_offsets(warehouse: Path) -> list[str]:
    """Returns where the records of the other cluster lie."""
    columns = ["kafka_partition", "kafka_offset", "record_type", "group_id"]
    rows = dataset(str(warehouse), COORDINATOR_RECORDS).to_table(columns, filter=pc.field("cluster") == OTHER)
    assert rows.num_rows > 0
    return sorted(map(repr, rows.to_pylist()))


class Fresh(NamedTuple):
    """A warehouse that today's code has made, and the inputs that it was fed with."""

    warehouse: Path
    inputs: Path


@pytest.fixture(scope="module")
def fresh(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    folder = tmp_path_factory.mktemp("fresh")
    made = Fresh(folder / "warehouse", unpacked(ARCHIVES[0], folder) / FED)
    fed_as_then(spark, made.warehouse, made.inputs, FED)
    return made


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.gz"))
def test_a_release(spark: SparkSession, tmp_path: Path, archive: Path, fresh: Fresh) -> None:
    """Goal: the same inputs again add nothing, all tables are today's, and they equal those of a warehouse that today's
    code makes of the same inputs, except for columns that say when and from where a row was written. Another cluster's
    records stay as they are. Today's views answer before the tables are migrated."""
    release = unpacked(archive, tmp_path)
    old = release / "warehouse"
    assert files_of(release / FED) == files_of(fresh.inputs), "each release is fed with the inputs of the first"
    answered = ask(Snapshots(str(old)), OF_THE_VIEW, {})
    of_other = record_offsets(old)
    assert feed(spark, old, release / FED, FED) == 0
    assert record_offsets(old) == of_other
    assert ask(Snapshots(str(old)), OF_THE_VIEW, {}) == answered
    tables = Tables(spark, str(fresh.warehouse)).existing()
    for each in tables:
        assert not plan_for(Tables(spark, str(old)), each).is_needed
        if each.name not in ABOUT_RUNS:
            assert content(old, each, FED) == content(fresh.warehouse, each, FED), each.name
    assert {"incidents", "lag", "rebalances", "requests", "replay_findings"} <= {each.name for each in tables}


LACKED = "decode_error_detail"


def as_older(rows: DataFrame) -> DataFrame:
    """Rows of `coordinator_records` without a column and without a field of a struct."""
    return rows.drop(LACKED).withColumn("offset_commit", F.col("offset_commit").dropFields("metadata"))


def make_older(spark: SparkSession, warehouse: Path, which: Table, older: DataFrame) -> None:
    writer = older.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.partitionBy(*which.partition_columns).save(Tables(spark, str(warehouse)).path(which))


def prepare_as_then(ledger: Ledger) -> None:
    """Makes the tables as a release did for which `coordinator_records` was of today's schema."""
    ledger.create(*TABLES)


def test_a_table_without_a_column_and_a_field(
    spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a history that follows an older `coordinator_records` goes on from its checkpoint over the migration, with
    rows that came before and after it; a table of the history that lacks a column and a field of a struct in an array
    is filled up too; in the end all tables are as if nothing had been older."""
    append(spark, tmp_path, simulated.between(0, 20))
    make_older(spark, tmp_path, COORDINATOR_RECORDS, as_older(table(spark, tmp_path, COORDINATOR_RECORDS)))
    with monkeypatch.context() as patched:
        patched.setattr(groupledger.jobs.derive.history, "prepare_tables", prepare_as_then)
        run(spark, tmp_path)
    generations = table(spark, tmp_path, GENERATIONS)
    field = F.transform("changes", lambda change: change.dropFields("previous_protocol"))
    assert generations.where("finding is not null").isEmpty()
    make_older(spark, tmp_path, GENERATIONS, generations.drop("finding").withColumn("changes", field))

    records = Tables(spark, str(tmp_path)).path(COORDINATOR_RECORDS)
    older = as_older(simulated.between(20, 30)).withColumns(
        {"cluster": F.lit("test"), "ingest_date": F.lit("2026-01-05").cast("date")}
    )
    older.write.format("delta").mode("append").save(records)
    version = Tables(spark, str(tmp_path)).version(COORDINATOR_RECORDS)
    assert LACKED in Tables(spark, str(tmp_path)).rows(COORDINATOR_RECORDS).columns
    assert Tables(spark, str(tmp_path)).version(COORDINATOR_RECORDS) == version
    append(spark, tmp_path, simulated.between(30, 61))
    run(spark, tmp_path)
    for each in Tables(spark, str(tmp_path)).existing():
        assert table(spark, tmp_path, each).schema == each.schema
    assert_equal_tables(tmp_path, whole)
