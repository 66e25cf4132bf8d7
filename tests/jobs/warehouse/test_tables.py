"""Goal: reading makes no table; what is not there is an empty frame, or a sentence with the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.delta_log import last_transaction
from groupledger.jobs.warehouse.ledger import known_positions
from groupledger.jobs.warehouse.tables import ClusterTables, Tables
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.lag import LAG
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_reading_makes_no_table(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: what is asked of an empty warehouse leaves it empty; a ledger makes the tables that it is told to."""
    warehouse = tmp_path / "warehouse"
    with open_test_ledger(spark, warehouse) as ledger:
        with pytest.raises(InputError, match="has no tables: check the path"):
            ledger.rows(GROUPS)
        nothing = ledger.rows_if_any(GROUPS)
        assert (nothing.schema, nothing.count()) == (GROUPS.schema, 0)
        assert known_positions(ledger) == {}
        assert last_transaction(ledger.warehouse, LAG, "any") is None
        assert [path.name for path in warehouse.iterdir()] == ["_groupledger"]
        ledger.create(COVERAGE)
        assert ledger.existing() == [COVERAGE]
        with pytest.raises(InputError, match="has no table groups yet: run `groupledger history` first"):
            ledger.rows(GROUPS)


def test_rows_of_one_cluster_and_of_all(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: a cluster sees its own rows, as they are and as they were."""
    with open_test_ledger(spark, tmp_path, "east") as ledger:
        ledger.create(COVERAGE)
        made = ledger.version(COVERAGE)
        rows = [(cluster, 0, 0, 5, None, None, "complete", "no_gap", False) for cluster in ("east", "west")]
        frame = spark.createDataFrame(rows, COVERAGE.schema)
        frame.write.format("delta").mode("append").save(ledger.path(COVERAGE))
        assert [row.cluster for row in ledger.rows(COVERAGE).collect()] == ["east"]
        assert ledger.rows(COVERAGE, made).count() == 0
        assert ledger.version(COVERAGE) == made + 1
    assert Tables(spark, str(tmp_path)).rows(COVERAGE).count() == len(rows)
    assert ClusterTables(spark, str(tmp_path), "north").rows_if_any(COVERAGE).isEmpty()
