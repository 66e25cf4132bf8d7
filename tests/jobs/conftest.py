"""Makes the data that the tests of several jobs read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import made_once

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def filled_warehouse(spark: SparkSession, whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a filled warehouse. A test that writes must copy it."""
    from tests.jobs.warehouses import with_logs_by_hand

    return made_once(tmp_path_factory, "filled", lambda folder: with_logs_by_hand(spark, whole, folder))
