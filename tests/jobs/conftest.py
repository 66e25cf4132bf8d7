"""Makes the data that the tests of several jobs read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.jobs.simulated_log import Simulated


@pytest.fixture(scope="session")
def simulated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    from tests.jobs.simulated_log import simulate

    return simulate(spark, tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="session")
def whole(spark: SparkSession, simulated: Simulated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a ledger with the history of the whole log, folded at once."""
    from tests.jobs.simulated_log import append, run

    warehouse = tmp_path_factory.mktemp("whole")
    append(spark, warehouse, simulated.rows)
    run(spark, warehouse)
    return warehouse


@pytest.fixture(scope="session")
def filled_warehouse(spark: SparkSession, whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a filled warehouse. A test that writes must copy it."""
    from tests.jobs.warehouses import with_logs_by_hand

    return with_logs_by_hand(spark, whole, tmp_path_factory.mktemp("filled") / "warehouse")
