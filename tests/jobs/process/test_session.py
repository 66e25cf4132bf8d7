"""Goal: without the archive of Spark's classes, or with another JVM, a session starts all the same; Ctrl-C stays the
job's."""

from __future__ import annotations

import shlex
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from py4j.clientserver import ClientServerConnection
from py4j.protocol import REFLECTION_COMMAND_NAME
from pyspark.sql import functions as F

from groupledger.jobs.process import session
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.process.signals import StopOnSignal, ending_in_time, signals_wait

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def java(*options: str) -> str:
    """Returns what Java prints about itself, and about options that it does not like."""
    answer = subprocess.run(["java", *options, "-version"], capture_output=True, text=True, check=True)
    return answer.stdout + answer.stderr


@pytest.mark.java
def test_an_archive_that_does_not_fit_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: without the archive no option is given; with the archive of another JVM, or a broken one, Java runs and
    prints nothing."""
    monkeypatch.setattr(session, "CLASS_ARCHIVE", tmp_path / "classes.jsa")
    assert session.class_archive_options() == ""
    session.CLASS_ARCHIVE.write_bytes(b"no archive")
    reported = java(*shlex.split(session.class_archive_options()))
    assert reported.replace(", sharing", "") == java("-Xshare:off").replace(", sharing", "")


@pytest.mark.parametrize(
    ("folder", "umask", "is_fit"),
    [
        ("/scratch", 0o077, True),
        ("/scratch", 0o022, True),
        ("/scratch", 0o002, False),  # users of the file's group could give the workers work
        ("/" + 63 * "t", 0o077, True),
        ("/" + 64 * "t", 0o077, False),
    ],
)
def test_sockets_in_a_folder(folder: str, umask: int, is_fit: bool) -> None:
    """Goal: Spark's workers are reached by sockets only where nobody else may write to them and their path is short."""
    assert session.is_fit_for_sockets(folder, umask) == is_fit


def interrupted() -> None:
    with StopOnSignal() as stop:
        with signals_wait():
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a SparkContext sets one of its own
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()


def test_ctrl_c_stays_the_jobs(spark: SparkSession) -> None:
    """Goal: a SparkContext that is made after the job took SIGINT does not take it away."""
    assert spark.sparkContext.master == "local[2]"
    assert "pyspark" not in getattr(signal.getsignal(signal.SIGINT), "__module__", "")
    with pytest.raises(SystemExit):
        interrupted()


def broken_off(reached: list[str]) -> None:
    with ending_in_time(print):
        with signals_wait():
            signal.raise_signal(signal.SIGTERM)
            reached.append("made")
        reached.append("used")


def test_a_jvm_is_not_left_behind() -> None:
    """Goal: a command that is asked to end while its JVM starts ends when the JVM has started: before, the JVM would
    never know that nobody is there."""
    reached: list[str] = []
    with pytest.raises(SystemExit) as ended:
        broken_off(reached)
    assert (ended.value.code, reached) == (143, ["made"])


SIZED_FOR_ONE_MACHINE = {
    "spark.sql.shuffle.partitions",
    "spark.databricks.delta.snapshotPartitions",
    "spark.ui.enabled",
}


@pytest.mark.parametrize("master", ["yarn", "spark://east:7077", "k8s://https://east:443", "local-cluster[2,1,1024]"])
def test_a_cluster_has_its_own_size(master: str) -> None:
    """Goal: settings that are sized for two cores of one machine count there only; on a cluster Spark's own defaults
    count."""
    settings = session.left_open({"spark.master": master})
    assert SIZED_FOR_ONE_MACHINE & settings.keys() == set()
    assert settings["spark.sql.session.timeZone"] == "UTC"
    local = [session.left_open({"spark.master": name}) for name in ("local", "local[8]", "local[*]")]
    assert all(each.keys() >= SIZED_FOR_ONE_MACHINE for each in local)
    asked = session.left_open({"spark.master": "local", "spark.sql.shuffle.partitions": "64"})
    assert SIZED_FOR_ONE_MACHINE - asked.keys() == {"spark.sql.shuffle.partitions"}


@pytest.mark.parametrize(
    ("settings", "parallelism", "expected"),
    [
        ({"spark.executor.instances": "4", "spark.executor.cores": "3"}, 2, {"24"}),
        ({"spark.executor.instances": "4"}, 16, {"32"}),
        ({"spark.cores.max": "6"}, 2, {"12"}),
        ({}, 2, set()),  # none has come yet
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "4"}, 16, set()),
        ({"spark.cores.max": "6", **dict.fromkeys(session.PARTITION_COUNTS, "64")}, 6, set()),
        ({"spark.master": "local[8]"}, 8, set()),
    ],
)
def test_partitions_follow_the_executors(settings: dict[str, str], parallelism: int, expected: set[str]) -> None:
    """Goal: a shuffle on a cluster has two partitions for each core that is known, unless somebody said otherwise."""
    found = session.of_executors({"spark.master": "yarn", **settings}, parallelism)
    assert set(found.values()) == expected
    assert set(found) == (set(session.PARTITION_COUNTS) if expected else set())


def test_columns_ask_for_no_class(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: to make a column asks the JVM for no class and no function again; a pyspark that makes them in another way
    is seen here."""
    asked: list[str] = []
    send = ClientServerConnection.send_command

    def note(connection: ClientServerConnection, command: str) -> str:
        asked.append(command)
        answer: str = send(connection, command)
        return answer

    monkeypatch.setattr(ClientServerConnection, "send_command", note)
    F.when(F.col("a") > F.lit(1), F.coalesce("b", "c", F.lit(0)))
    assert asked
    assert [command for command in asked if command.startswith(REFLECTION_COMMAND_NAME)] == []


def test_a_core_reads_one_task(spark: SparkSession) -> None:
    """Goal: unless the settings say otherwise, the topic is read by as many tasks as the executors have cores."""
    assert session.task_count(spark, load_settings().ingest.read_tasks) == 2
    assert session.task_count(spark, 8) == 8
