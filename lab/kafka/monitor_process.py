"""Runs `groupledger monitor` in a process of its own beside a broker or a cluster, and reads its metrics. The process
can be slowed down, as on a machine that is too busy."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from typing_extensions import Self

PERIOD_S = 1.0
POLL_S = 0.2
END_S_MAX = 300
HEALTHY_S_MAX = 600
ANSWER_S_MAX = 10
LIVE = "live"
SERVED = re.compile(r"metrics at (http://\S+)/metrics")


def command(*words: str) -> list[str]:
    """Returns the command line of `groupledger` with these words."""
    return [sys.executable, "-m", "groupledger.jobs.cli.main", *words]


def fetch(address: str) -> str:
    with urlopen(address, timeout=ANSWER_S_MAX) as answer:  # noqa: S310 - our own monitor's address
        return str(answer.read().decode())


def is_healthy(address: str) -> bool:
    try:
        return fetch(f"{address}/readyz") == "ok\n"
    except URLError:
        return False


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
    """Runs `groupledger monitor` on the warehouse FOLDER/live, with `settings` and a round each `interval_s`. If there
    is a `share`, `slow_down` lets it run only for this share of each second. A context manager starts and ends it."""

    def __init__(
        self,
        folder: Path,
        servers: str,
        interval_s: int,
        settings: Mapping[str, Any],
        share: float | None = None,
    ) -> None:
        self.warehouse = folder / LIVE
        self._share = share
        self._throttle: Throttle | None = None
        self._log, conf = folder / "monitor.log", folder / "live.yaml"
        conf.write_text(yaml.safe_dump(dict(settings)))
        given = ["--bootstrap-servers", servers, "--warehouse", str(self.warehouse), "--metrics-port", "0"]
        self._command = command("monitor", *given, "--interval", f"{interval_s}s", "--conf", str(conf))

    def __enter__(self) -> Self:
        with self._log.open("w") as words:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True
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
        assert self._process.poll() is None, self._log.read_text()[-2_000:]

    def await_healthy(self) -> None:
        """Returns when `/readyz` is well. Raises TimeoutError after `HEALTHY_S_MAX` seconds."""
        deadline_s = time.monotonic() + HEALTHY_S_MAX
        while not self._is_healthy():
            self.check()
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"waited {HEALTHY_S_MAX} s for a healthy monitor: {self._log.read_text()[-2_000:]}")
            time.sleep(POLL_S)

    def metrics(self) -> str:
        return fetch(f"{SERVED.findall(self._log.read_text())[0]}/metrics")

    def _is_healthy(self) -> bool:
        served = SERVED.search(self._log.read_text())
        return served is not None and is_healthy(served[1])

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
