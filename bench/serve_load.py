"""Measures what a server that many ask at once takes: how long its answers are waited for, and its memory.

    python -m bench.serve_load [--clients 50] [--seconds 60] [--groups 100] [--partitions 10]

The warehouse and the paths are those of bench.asking. Each client asks path after path, each time by a connection of
its own and as soon as it has the answer before, which is more than people do. While they ask, a writer adds a sampling
round every five seconds, so that nothing can be kept for long. An answer is fine if its status is 200; others are
counted. The clients run in this process, and take some of the machine's time from the server.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import Counter, defaultdict
from http import HTTPStatus
from pathlib import Path
from statistics import quantiles

from bench.asking import MINUTE, PATHS, make, served, status_of, write_round

ROUND_S = 5.0


class Clients:
    """What clients of a port measured: the seconds of each path, and how often each status came."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.statuses: Counter[int] = Counter()
        self._one = threading.Lock()

    def ask(self, first: int, until: float) -> None:
        number = first
        while time.monotonic() < until:
            path = PATHS[number % len(PATHS)]
            begin = time.perf_counter()
            status = status_of(self.port, path)
            with self._one:
                self.seconds[path].append(time.perf_counter() - begin)
                self.statuses[status] += 1
            number += 1


def peak_mib(pid: int) -> int:
    """Returns the most memory that a process has had."""
    (line,) = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1]) >> 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=10)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Path(folder)
        end = make(warehouse, asked.groups, asked.partitions)
        server, port, _ = served(warehouse)
        try:
            before, clients = peak_mib(server.pid), Clients(port)
            until = time.monotonic() + asked.seconds
            threads = [threading.Thread(target=clients.ask, args=(each, until)) for each in range(asked.clients)]
            for thread in threads:
                thread.start()
            rounds = 0
            while time.monotonic() + ROUND_S < until:
                time.sleep(ROUND_S)
                rounds += 1
                write_round(warehouse, asked.groups, asked.partitions, end + rounds * MINUTE)
            for thread in threads:
                thread.join()
            peak = peak_mib(server.pid)
        finally:
            server.terminate()
            server.wait(timeout=60)
    every = [each for found in clients.seconds.values() for each in found]
    print(
        f"{asked.clients} clients for {asked.seconds:g} s, {asked.groups:,} groups, {rounds} new rounds: {len(every):,}"
        f" answers, {len(every) / asked.seconds:.1f} a second; by status {dict(clients.statuses)}"
    )
    for name, found in [("all", every), *sorted(clients.seconds.items())]:
        cuts = quantiles(found, n=100)
        print(f"{cuts[49]:8.3f} s p50 {cuts[98]:8.3f} s p99  {name}")
    print(f"memory of the server: {before} MiB when it is ready, {peak} MiB at most")
    assert {*clients.statuses} <= {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}


if __name__ == "__main__":
    main()
