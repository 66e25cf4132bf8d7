"""Runs groupledger's commands on a cluster that was played, beside the monitor that ran meanwhile
(`lab.kafka.monitor_process`), and says where their warehouses are.

    FOLDER/live    the monitor's warehouse: it imports the brokers' server logs as they grow
    FOLDER/after   the second one: `import-logs` and `pipeline` at the end, when the topic has been cleaned meanwhile
    FOLDER/again   a copy of the first one, with history and incidents computed again by the present rules
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import yaml

from lab.kafka.monitor_process import LIVE, command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CLUSTER = "played"
AFTER, AGAIN = "after", "again"
INTERVAL_S = 5
SETTINGS = {
    "cluster": CLUSTER,
    "history": {"consumer_session_timeout_s": 10},
    "monitor": {"history_interval_s": 20, "incidents_interval_s": 40},
}


def make_second(folder: Path, servers: str, server_logs: Sequence[Path]) -> None:
    """Makes the second warehouse from the logs and the topic, and captures the topic."""
    for words in second_commands(folder, servers, server_logs):
        _run(*words)
    _run("capture", "--bootstrap-servers", servers, "--out", str(folder / "capture"))


def second_commands(folder: Path, servers: str, server_logs: Sequence[Path]) -> list[list[str]]:
    """Returns the words of the commands that make the second warehouse."""
    options = ["--warehouse", str(folder / AFTER), "--conf", str(_settings(folder))]
    of_logs = [word for path in server_logs for word in ("--server-log", str(path))]
    return [["import-logs", *options, *of_logs], ["pipeline", *options, "--bootstrap-servers", servers]]


def _settings(folder: Path) -> Path:
    path = folder / "settings.yaml"
    path.write_text(yaml.safe_dump(SETTINGS))
    return path


def judge_again(folder: Path) -> None:
    """Copies the monitor's warehouse, and computes history and incidents again in the copy."""
    shutil.rmtree(folder / AGAIN, ignore_errors=True)
    shutil.copytree(folder / LIVE, folder / AGAIN)
    options = ["--warehouse", str(folder / AGAIN), "--conf", str(_settings(folder))]
    _run("history", *options, "--rebuild")
    _run("incidents", *options, "--update")


def _run(*words: str) -> None:
    done = subprocess.run(command(*words), check=False)
    assert done.returncode in (0, 1), done  # 1: a check found something
