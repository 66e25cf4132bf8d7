"""Runs `groupledger monitor` as a process of its own, and fetches what it serves."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.fault.topic import TIMEOUT_S, LedgerProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Two cores that others use too: the first round comes after Spark has started and made its tables.
SHOWN_SECONDS_MAX = 1_200  # on a machine whose cores others use, too
STOP_SECONDS_MAX = 15
SERVED = re.compile(r"metrics at (http://\S+)/metrics")


class MonitorProcess(LedgerProcess):
    """A running monitor, of a cluster or of those in the settings. Its output goes to a file, so that it can be read
    meanwhile."""

    def __init__(self, warehouse: Path | str, bootstrap_servers: str | None, log: Path, *arguments: str) -> None:
        self._log = log
        given = () if bootstrap_servers is None else ("--bootstrap-servers", bootstrap_servers)
        cluster = None if bootstrap_servers is None else "test"
        with log.open("w") as words:
            every = (*given, "--metrics-port", "0", *arguments)
            super().__init__("monitor", warehouse, *every, words=words, cluster=cluster)

    @property
    def words(self) -> str:
        return self._log.read_text()

    def stop(self) -> int:
        """Sends SIGTERM, and returns the exit code, for which it has the time that design section 5 gives it."""
        self.process.terminate()
        return self.process.wait(STOP_SECONDS_MAX)

    def fetch(self, path: str) -> str:
        """Returns what is served, or an empty text while nothing is served or if there is an error."""
        return self._ask(path)[0]

    def trouble(self, path: str) -> str:
        """Returns the body that is served with an error, or an empty text if all is well."""
        return self._ask(path)[1]

    def _ask(self, path: str) -> tuple[str, str]:
        served = SERVED.search(self.words)
        assert self.process.poll() is None, f"it ended with {self.process.poll()}:\n{self.words}"
        if served is None:
            return "", ""
        try:
            with urlopen(f"{served[1]}{path}", timeout=TIMEOUT_S) as answer:  # noqa: S310 - our own monitor
                return str(answer.read().decode()), ""
        except HTTPError as error:
            return "", error.read().decode()
        except OSError:
            return "", ""

    def value(self, name: str, **labels: str) -> float | None:
        """Returns the value of the one sample of this name that has at least these labels."""
        for family in text_string_to_metric_families(self.fetch("/metrics")):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return None

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + SHOWN_SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline_s, f"waited {SHOWN_SECONDS_MAX} s for {what}:\n{self.words}"
            time.sleep(0.1)

    def wait_until_shown(self, value: float, name: str, **labels: str) -> None:
        self.wait_until(lambda: self.value(name, **labels) == value, f"{name} {labels} to be {value}")
