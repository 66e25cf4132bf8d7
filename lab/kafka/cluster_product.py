"""Runs groupledger beside a cluster: a monitor in a process of its own, which can be slowed down, and commands that
make a second warehouse afterwards.

    FOLDER/live    the monitor's warehouse: it imports the brokers' server logs as they grow
    FOLDER/after   the second one: `import-logs` and `pipeline` at the end, when the topic has been cleaned meanwhile
    FOLDER/again   a copy of the first one, with history and incidents computed again by the present rules
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typing_extensions import Self

CLUSTER = "played"
LIVE, AFTER, AGAIN = "live", "after", "again"
INTERVAL_S = 5
PERIOD_S = 1.0
END_S_MAX = 300
SETTINGS = {
    "cluster": CLUSTER,
    "history": {"consumer_session_timeout_s": 10},
    "monitor": {"history_interval_s": 20, "incidents_interval_s": 40},
}


class Throttle(threading.Thread):
    """Lets the processes of a process group run only for a share of each second."""

    def __init__(self, process_group: int, share: float) -> None:
        super().__init__(daemon=True, name="throttle")
        self._process_group, self._share = process_group, share
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(PERIOD_S * self._share):
            os.killpg(self._process_group, signal.SIGSTOP)
            time.sleep(PERIOD_S * (1 - self._share))
            os.killpg(self._process_group, signal.SIGCONT)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


class Monitor:
    """Runs `groupledger monitor` with the settings of a run. A context manager starts and ends it."""

    def __init__(self, folder: Path, servers: str, server_logs: Sequence[Path], share: float | None) -> None:
        self._folder, self._servers, self._share = folder, servers, share
        self._throttle: Throttle | None = None
        logs = {"server_logs": [str(each) for each in server_logs]}
        (folder / "live.yaml").write_text(yaml.safe_dump({**SETTINGS, "logs": logs}))

    def __enter__(self) -> Self:
        given = ["--bootstrap-servers", self._servers, "--warehouse", str(self._folder / LIVE), "--metrics-port", "0"]
        with (self._folder / "monitor.log").open("w") as words:
            self._process = subprocess.Popen(
                _command("monitor", *given, "--interval", f"{INTERVAL_S}s", "--conf", str(self._folder / "live.yaml")),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,
            )
        return self

    def slow_down(self) -> None:
        """Begins to let the monitor run only for `share` of each second, if there is a share."""
        if self._share is not None:
            self._throttle = Throttle(self._process.pid, self._share)
            self._throttle.start()

    def go_on(self) -> None:
        if self._throttle is not None:
            self._throttle.stop()
            self._throttle = None

    def check(self) -> None:
        assert self._process.poll() is None, (self._folder / "monitor.log").read_text()[-2_000:]

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


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


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "groupledger.jobs.cli.main", *words]


def _run(*words: str) -> None:
    done = subprocess.run(_command(*words), check=False)
    assert done.returncode in (0, 1), done  # 1: a check found something
