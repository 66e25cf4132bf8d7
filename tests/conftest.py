"""Makes the Spark session that all tests share, and marks the tests that use it.

With several processes (`make test`) tests that share expensive fixtures run in one: those with the broker, and the
folders of the jobs. Whatever process is free takes the next part, or a file. The order is that of their length, so that
none waits for another at the end; the broker's come first, since they wait more than they compute.
"""

from __future__ import annotations

import fcntl
import gc
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from groupledger.jobs.process.output import log_plainly
from lab.warehouses.sessions import OF_FEW_ROWS, forget_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.jobs.simulated_log import Simulated

# A busy machine is slow, and an example that took long is not wrong.
settings.register_profile("groupledger", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("groupledger")

TOGETHER = (
    *("tests/broker/", "tests/jobs/ask/", "tests/jobs/warehouse/", "tests/jobs/ingest/", "tests/jobs/serve/"),
    *("tests/jobs/cli/", "tests/jobs/process/", "tests/jobs/demo/"),
)
"""Folders whose tests run in one process, since they set up once what is costly; the longest first."""
BY_TURNS = ("tests/jobs/derive/", "tests/fault/")
"""Folders whose files may run anywhere. They take turns: the first ones compute, and the others mostly wait."""
ORDER: tuple[str | tuple[str, ...], ...] = (*TOGETHER, BY_TURNS, "tests/transforms/")
"""What begins before all other files, since it is long."""

OF_SPARK: set[Path] = set()
"""The files with tests that use the session."""


def pytest_collection_finish() -> None:
    """Lets Python's collector pass over what stays until the end: ten thousand tests, and the modules."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test that uses the session, directly or through another fixture, as a Spark test, and puts the tests
    in the order in which parts are handed out."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
            OF_SPARK.add(item.path)
    turns: dict[Path, float] = {}
    for folder in BY_TURNS:
        files = list(dict.fromkeys(item.path for item in items if item.nodeid.startswith(folder)))
        turns |= {file: number / len(files) for number, file in enumerate(files)}

    def place(item: pytest.Item) -> tuple[int, float]:
        rank = next((i for i, each in enumerate(ORDER) if item.nodeid.startswith(each)), len(ORDER))
        return rank, turns.get(item.path, 0)

    items.sort(key=place)


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # no types are published
    def _split_scope(self, nodeid: str) -> str:
        """Returns the name of the group of tests that one process runs as a whole."""
        file: str = nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFolder:
    config.option.loadscopereorder = False  # it would begin with the part of most tests, and not the longest
    return ByFolder(config, log)


# A run opens hundreds of warehouses. Delta keeps the plans of each table's snapshot for an hour, some megabytes each,
# and Spark those of the last thousand queries: the collector of the full heap took two thirds of a run's time. What
# Python's frames still hold goes at the end of each file.
OF_TESTS = {
    **OF_FEW_ROWS,
    # Three of these run side by side, with monitors and brokers: a heap of 3 GiB each was more than the machine had.
    "spark.driver.memory": "2g",
    "spark.databricks.delta.delta.log.cacheSize": "40",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
}

# A session lives for half an hour, so the code of Java's second compiler pays, but only where a method is called often:
# with Java's own thresholds (a quarter of these) that compiler took two fifths of the session's first minutes.
SECOND_COMPILER_LATER = (
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 -XX:Tier4CompileThreshold=60000"
    " -XX:Tier4BackEdgeThreshold=160000"
)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Returns the jobs' own session, with their defaults: local[2], two shuffle partitions, no user interface."""
    from groupledger.jobs.process.session import spark_session

    session = spark_session("groupledger tests", OF_TESTS, SECOND_COMPILER_LATER)
    yield session
    session.stop()


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Returns a folder that the first of the run's processes makes; the others wait for it. Nobody writes to it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, begun = shared / name, tmp_path_factory.mktemp(name) / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            make(begun)
            begun.rename(folder)
    return folder


@pytest.fixture(scope="session")
def simulated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    from tests.jobs.simulated_log import read_simulated, simulate

    return read_simulated(spark, made_once(tmp_path_factory, "log", lambda folder: simulate(spark, folder)))


@pytest.fixture(scope="session")
def whole(spark: SparkSession, simulated: Simulated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a ledger with the history of the whole log, folded at once. A test that writes must copy it."""
    from tests.jobs.simulated_log import append, run

    def make(warehouse: Path) -> None:
        append(spark, warehouse, simulated.rows)
        run(spark, warehouse)

    return made_once(tmp_path_factory, "whole", make)


@pytest.fixture(scope="session", autouse=True)
def _of_few_rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lets the Spark of each process that a test starts plan as the session here does. Measurements, and jobs that are
    submitted to a cluster, have Spark's own settings."""
    folder = tmp_path_factory.mktemp("spark-conf")
    (folder / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in OF_FEW_ROWS.items()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        yield


@pytest.fixture(autouse=True)
def _plain_lines() -> Iterator[None]:
    """Undoes `log_lines`, which a command that runs in the tests' own process calls."""
    yield
    log_plainly()


@pytest.fixture(scope="module", autouse=True)
def forgotten_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lets the session forget the tables of a file of tests that use it when the file is over."""
    yield
    if request.path not in OF_SPARK:
        return
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        gc.collect()  # frames in circles would be held until Python looks for them
        forget_tables(session)
