"""Runs a Spark cluster on this machine: a master and two workers, processes of pyspark's own classes.

Their Python has our libraries and not groupledger itself, as the machines of a cluster: a job has to bring groupledger
along."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from groupledger.jobs.process.session import SHORT_LIVED, local_jars
from lab.kafka.local_broker import WATCHDOG
from tools.build_archive import ROOT, build

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = Path(pyspark.__file__).parent
WORKERS = 2
TIMEOUT_S = 900
STARTED = {
    "master": re.compile(r"Starting Spark master at (spark://[0-9.:]+)"),
    "worker": re.compile(r"Successfully registered with master (\S+)"),
}
# All processes share the cores of one machine, and the tests' tables are small.
SIZES = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@dataclass(frozen=True)
class Cluster:
    """A master that has its workers."""

    master: str
    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter of driver and workers."""
        return self.folder / "python" / "bin" / "python"

    def submit(self, *arguments: str | Path) -> str:
        """Runs a command of groupledger from the shipped archive, with the driver here and the tasks on the workers;
        returns what it said."""
        settings = {**SIZES, "spark.pyspark.python": str(self.python)}
        command = [
            *(str(HOME / "bin" / "spark-submit"), "--master", self.master, "--deploy-mode", "client"),
            *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
            *("--jars", ",".join(local_jars()), "--py-files", str(self.folder / "groupledger.zip")),
            *(str(self.folder / "main.py"), *map(str, arguments)),
        ]
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
            cwd=self.folder,
            env=without_ours(),
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stderr


@contextmanager
def standalone(folder: Path) -> Iterator[Cluster]:
    """Yields a cluster, and ends its processes."""
    python = folder / "python"
    venv.create(python, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # A folder on the path, whose own .pth files are not followed: one of them makes our checkout known.
    (python / "lib" / version / "site-packages" / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    build(folder / "groupledger.zip")
    (folder / "main.py").write_text((ROOT / "jobs" / "cli" / "main.py").read_text())
    with ExitStack() as stack:
        at = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        found = stack.enter_context(started(folder, "master", "master.Master", *at))
        for number in range(WORKERS):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"))
            stack.enter_context(started(folder, "worker", "worker.Worker", *at, *size, found, name=f"worker-{number}"))
        yield Cluster(found, folder)


@contextmanager
def started(folder: Path, kind: str, class_: str, *arguments: str, name: str = "master") -> Iterator[str]:
    """Starts a process of Spark's, and yields what it says when it is there: the address of the master."""
    words = folder / f"{name}.log"
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{class_}", *arguments]
    with words.open("w") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, cwd=folder, env=without_ours(), start_new_session=True
        )
    # It ends the process with us, even where we are killed.
    watchdog = subprocess.Popen(["sh", "-c", WATCHDOG, str(process.pid)], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield said(process, words, STARTED[kind])
    finally:
        watchdog.communicate()
        process.wait()


def said(process: subprocess.Popen[bytes], words: Path, sentence: re.Pattern[str]) -> str:
    """Waits until a process has said a sentence, and returns the part that is asked for."""
    while process.poll() is None:
        found = sentence.search(words.read_text())
        if found is not None:
            return found[1]
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(words.read_text())


def without_ours() -> dict[str, str]:
    """Returns the environment without what leads to our checkout."""
    ours = ("PYTHONPATH", "GROUPLEDGER_JARS", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    kept = {key: value for key, value in os.environ.items() if key not in ours}
    return {**kept, "SPARK_HOME": str(HOME), "JAVA_TOOL_OPTIONS": SHORT_LIVED}
