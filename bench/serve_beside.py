"""Shows that a server answers without an error while other processes write, maintain and vacuum its tables.

    python -m bench.serve_beside [--seconds 600] [--clients 4]

Real consumers join, leave and commit on a broker. A monitor writes their history, and is stopped three times for
`groupledger maintain`, which compacts and removes files. Clients request pages, the JSON interface and the Burrow
interface without a pause. The run ends with 1 if a response had another status than 200.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from statistics import quantiles

from bench.asking import served, status_of
from lab.kafka.local_broker import LocalBroker
from lab.kafka.local_traffic import TrafficError, make_offsets_topic, run_demo_traffic

CLUSTER, GROUPS = "beside", ("checkout", "billing", "fraud")
PATHS = (
    f"/clusters/{CLUSTER}",
    f"/api/v1/clusters/{CLUSTER}/groups",
    f"/v3/kafka/{CLUSTER}/consumer",
    *(f"/clusters/{CLUSTER}/groups/{group}?window=1h" for group in GROUPS),
    *(f"/api/v1/clusters/{CLUSTER}/groups/{group}/{part}" for group in GROUPS for part in ("owners", "why", "lag")),
    *(f"/v3/kafka/{CLUSTER}/consumer/{group}/lag" for group in GROUPS),
)
PROGRAM = (sys.executable, "-m", "groupledger.jobs.cli.main")
TOLD_S_MAX, END_S_MAX = 300, 120
MAINTENANCES = 3
TERMINATED = 128 + signal.SIGTERM


def run_traffic(bootstrap_servers: str, seconds: float) -> None:
    with suppress(TrafficError):  # the broker ends before it
        run_demo_traffic(bootstrap_servers, seconds)


def command(name: str, warehouse: Path, *more: str) -> list[str]:
    return [*PROGRAM, name, "--warehouse", str(warehouse), "--cluster", CLUSTER, *more]


class Clients:
    """The responses to clients: the statuses by path, and the seconds of each response."""

    def __init__(self, port: int, until_s: float) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self.seconds: list[float] = []
        self._port, self._until_s, self._lock = port, until_s, threading.Lock()

    def ask(self, number: int) -> None:
        while time.monotonic() < self._until_s:
            path, begun_s = PATHS[number % len(PATHS)], time.monotonic()
            try:
                status = status_of(self._port, path)
            except OSError:
                status = 0
            with self._lock:
                self.answers[path, status] += 1
                self.seconds.append(time.monotonic() - begun_s)
            number += 1


def write(monitor: list[str], maintain: list[str], until_s: float, log: Path) -> None:
    """Runs the monitor until the time has come, with a maintenance now and then."""
    stretch_s = (until_s - time.monotonic()) / (MAINTENANCES + 1)
    with log.open("w") as words:
        for number in range(MAINTENANCES + 1):
            writer = subprocess.Popen(monitor, stdout=words, stderr=words)
            time.sleep(stretch_s)
            writer.send_signal(signal.SIGTERM)
            assert writer.wait(END_S_MAX) == TERMINATED, log.read_text()
            if number < MAINTENANCES:
                subprocess.run(maintain, check=True, stdout=words, stderr=words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=4)
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(LocalBroker(folder / "kafka"))
        make_offsets_topic(broker.bootstrap_servers)
        warehouse, to_broker = folder / "warehouse", ("--bootstrap-servers", broker.bootstrap_servers)
        traffic_s = given.seconds + TOLD_S_MAX
        traffic = threading.Thread(target=run_traffic, args=(broker.bootstrap_servers, traffic_s), daemon=True)
        traffic.start()
        time.sleep(given.seconds * 0.1)  # all groups have begun
        subprocess.run(command("pipeline", warehouse, *to_broker), check=True, capture_output=True)
        server, port, _ = served(warehouse)
        stack.callback(server.wait, END_S_MAX)
        stack.callback(server.terminate)
        until_s = time.monotonic() + given.seconds
        clients = Clients(port, until_s)
        askers = [threading.Thread(target=clients.ask, args=(number,)) for number in range(given.clients)]
        for asker in askers:
            asker.start()
        maintain = [*PROGRAM, "maintain", "--warehouse", str(warehouse)]
        monitor = command("monitor", warehouse, *to_broker, "--metrics-port", "0", "--interval", "5s")
        write(monitor, maintain, until_s, folder / "writers.log")
        for asker in askers:
            asker.join()
    wrong = {each: count for each, count in clients.answers.items() if each[1] != HTTPStatus.OK}
    cuts = quantiles(clients.seconds, n=100)
    print(
        f"{clients.answers.total():,} answers in {given.seconds:.0f} s, {MAINTENANCES} maintenances in between:"
        f" {sum(wrong.values()):,} of them no 200; p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s"
    )
    for (path, status), count in sorted(wrong.items()):
        print(f"{count:,} times {status}: {path}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
