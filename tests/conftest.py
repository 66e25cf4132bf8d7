"""What all tests share: one Spark session for the whole run, and the marks that follow from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for the session, directly or through another fixture, is a Spark test."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The jobs' own session, with their defaults: local[2], two shuffle partitions, no user interface."""
    from jobs.session import spark_session

    # Tests are short: the first compiler alone is ready sooner than the second is fast. It gets 48 MiB for its code by
    # default, which are full after a few micro-batches; then the JVM only interprets.
    compiler = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
    session = spark_session("groupledger tests", {"spark.driver.memory": "2g"}, compiler)
    yield session
    session.stop()
