"""Makes the Spark session that all tests share, and marks the tests that use it.

With two processes (`make test`) tests that share expensive fixtures run in one: those with brokers, and two parts of
those of the jobs. Whatever process is free takes the next part, or a file.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# A busy machine is slow, and an example that took long is not wrong.
settings.register_profile("groupledger", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("groupledger")

TOGETHER = {
    "brokers": ("tests/broker/", "tests/fault/"),
    "readers": ("tests/jobs/ask/", "tests/jobs/cli/", "tests/jobs/demo/", "tests/jobs/derive/", "tests/jobs/report/"),
    "writers": ("tests/jobs/",),
}
"""The first that a file belongs to; each part sets up what is costly once."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test that uses the session, directly or through another fixture, as a Spark test."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # no types are published
    def _split_scope(self, nodeid: str) -> str:
        """Returns the name of the group of tests that one process runs as a whole."""
        file = nodeid.partition("::")[0]
        return next((name for name, folders in TOGETHER.items() if file.startswith(folders)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFolder:
    return ByFolder(config, log)


# A run opens hundreds of warehouses. Delta keeps the plans of each table's snapshot for an hour, some megabytes each,
# and Spark those of the last thousand queries: the collector of the full heap took two thirds of a run's time. What
# Python's frames still hold goes at the end of each file.
OF_TESTS = {
    "spark.databricks.delta.delta.log.cacheSize": "40",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Returns the jobs' own session, with their defaults: local[2], two shuffle partitions, no user interface."""
    from groupledger.jobs.process.session import SHORT_LIVED, spark_session

    session = spark_session("groupledger tests", OF_TESTS, SHORT_LIVED)
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def forgotten_tables() -> Iterator[None]:
    """Lets the session, if there is one, forget the tables of a file of tests when it is over."""
    yield
    if "pyspark.sql" not in sys.modules:
        return
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        gc.collect()  # frames in circles would be held until Python looks for them
        session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
