"""Measures a server under load from many clients: response times, and memory.

    python -m bench.serve_load [--clients 50] [--seconds 60] [--groups 100] [--partitions 10]
    python -m bench.serve_load --clients 4 --attackers 500 [--turns 3]

The warehouse and the paths are those of bench.asking. Each client asks path after path, each time over a new connection
and as soon as it has the previous answer, which is more than people do. While they ask, a writer adds a sampling round
every five seconds, so that the server can't reuse an answer for long. An answer is right if its status is 200; others
are counted. The clients run in this process, and take some of the machine's time from the server.

With --attackers the server asks for passwords, and that many hostile connections are held beside the clients
(bench.serve_attackers), from the clients' own address and two others. The clients wait a while between two questions,
as people do. Meanwhile another user logs in for the first time, and /livez is asked twice a second. The memory of the
server and the size of its log are printed, and a page has to come within two seconds at p99. With --turns the same
clients ask in alternating phases without and with attackers, that many of each kind, so that the two can be compared on
a machine that others use, too.
"""

from __future__ import annotations

import argparse
import base64
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

import bcrypt

from bench.asking import MINUTE, PATHS, make, served, write_round

if TYPE_CHECKING:
    from datetime import datetime

ROUND_S = 5.0
PAUSE_S, PROBE_S = 0.5, 0.5
PAGE_S_MAX, MEMORY_MIB_MAX, LOG_LINES_MAX = 2.0, 1_024, 200
USERS, COST = ("alice", "bob"), 10


class Clients:
    """The measurements of the clients of a port: the seconds of each path, and how often each status came."""

    def __init__(self, port: int, login: str | None = None, pause_s: float = 0) -> None:
        self.port, self.login, self.pause_s = port, login, pause_s
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.statuses: Counter[int] = Counter()
        self._one = threading.Lock()

    def ask(self, first: int, until: float) -> None:
        number = first
        while time.monotonic() < until:
            self.once(PATHS[number % len(PATHS)])
            time.sleep(self.pause_s)
            number += 1

    def probe(self, path: str, until: float) -> None:
        while time.monotonic() < until:
            self.once(path)
            time.sleep(PROBE_S)

    def once(self, path: str) -> None:
        begin = time.perf_counter()
        status = status_of(self.port, path, self.login)
        with self._one:
            self.seconds[path].append(time.perf_counter() - begin)
            self.statuses[status] += 1

    def every(self) -> list[float]:
        return [each for found in self.seconds.values() for each in found]


def status_of(port: int, path: str, login: str | None) -> int:
    """Sends a request over a connection of its own; returns the status, 0 for a closed connection."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=600)) as connection:
        try:
            connection.request("GET", path, headers={} if login is None else {"Authorization": login})
            answer = connection.getresponse()
            answer.read()
        except (OSError, HTTPException):
            return 0
        return answer.status


def login_of(name: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{name}".encode()).decode()


def peak_mib(pid: int) -> int:
    """Returns the peak memory of a process."""
    (line,) = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1]) >> 10


def main() -> None:
    asked = parser().parse_args()
    with tempfile.TemporaryDirectory() as folder:
        warehouse, log = Path(folder) / "warehouse", Path(folder) / "log"
        end = make(warehouse, asked.groups, asked.partitions)
        users = Path(folder) / "users"
        users.write_text("".join(line_of(name) for name in USERS))
        server, port, _ = served(warehouse, log, *(("--auth-file", str(users)) if asked.attackers else ()))
        try:
            before = peak_mib(server.pid)
            load = Load(asked, port, Rounds(warehouse, asked.groups, asked.partitions, end))
            for turn in range(max(asked.turns, 1)):
                if asked.turns:
                    load.quiet.run(0)
                load.beside.run(asked.attackers, newcomer=load.newcomer if asked.attackers and not turn else None)
            peak = peak_mib(server.pid)
        finally:
            server.terminate()
            server.wait(timeout=60)
        log_bytes, log_lines = log.stat().st_size, len(log.read_text().splitlines())
    load.print_figures()
    print(f"memory of the server: {before} MiB when it is ready, {peak} MiB at most")
    if not asked.attackers:
        assert {*load.beside.clients.statuses} <= {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}
        return
    print(f"the server's log: {log_lines} lines, {log_bytes:,} bytes")
    load.check()
    assert peak <= MEMORY_MIB_MAX
    assert log_lines <= LOG_LINES_MAX


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--clients", type=int, default=50)
    found.add_argument("--seconds", type=float, default=60)
    found.add_argument("--groups", type=int, default=100)
    found.add_argument("--partitions", type=int, default=10)
    found.add_argument("--attackers", type=int, default=0)
    found.add_argument("--turns", type=int, default=0, help="so often without and with attackers")
    return found


@dataclass
class Rounds:
    """The writer of new rounds."""

    warehouse: Path
    groups: int
    partitions: int
    end: datetime
    count: int = 0

    def write(self) -> None:
        self.count += 1
        write_round(self.warehouse, self.groups, self.partitions, self.end + self.count * MINUTE)


class Phases:
    """The clients of one kind of phase: without or with attackers."""

    def __init__(self, asked: argparse.Namespace, port: int, rounds: Rounds) -> None:
        self.asked, self.port, self.rounds = asked, port, rounds
        self.login: str | None = login_of(USERS[0]) if asked.attackers else None
        pause_s = PAUSE_S if asked.attackers else 0.0
        self.clients, self.probes = Clients(port, self.login, pause_s), Clients(port)
        self.seconds, self.written = 0.0, 0
        self.got: list[str] = []

    def run(self, attackers: int, newcomer: Clients | None = None) -> None:
        asked = self.asked
        self.clients.once(PATHS[0])
        until = time.monotonic() + asked.seconds
        hostile = attack(self.port, attackers, asked.seconds, self.login)
        threads = [threading.Thread(target=self.clients.ask, args=(each, until)) for each in range(asked.clients)]
        if asked.attackers:
            threads.append(threading.Thread(target=self.probes.probe, args=("/livez", until)))
        for thread in threads:
            thread.start()
        while time.monotonic() + ROUND_S < until:
            time.sleep(ROUND_S)
            self.rounds.write()
            self.written += 1
            if newcomer is not None and self.written == 1:
                newcomer.once(PATHS[0])
        for thread in threads:
            thread.join()
        self.seconds += asked.seconds
        if hostile is not None:
            self.got.append(hostile.communicate()[0].strip())


class Load:
    """All that is asked of a server: in phases without attackers, and beside them."""

    def __init__(self, asked: argparse.Namespace, port: int, rounds: Rounds) -> None:
        self.attackers = asked.attackers
        self.quiet, self.beside = Phases(asked, port, rounds), Phases(asked, port, rounds)
        self.newcomer = Clients(port, login_of(USERS[1]))

    @property
    def phases(self) -> list[tuple[str, Phases]]:
        quiet = [("without attackers", self.quiet)] if self.quiet.seconds else []
        return [*quiet, (f"beside {self.attackers} attackers" if self.attackers else "alone", self.beside)]

    def print_figures(self) -> None:
        for name, phases in self.phases:
            print(f"{name}:")
            tell_clients(phases.clients, phases.seconds, phases.written)
            if self.attackers:
                tell_probes(phases.probes)
            for line in phases.got:
                print(f"{self.attackers} attackers: {line}")
        if self.attackers:
            print(
                f"the first login of somebody else: {max(self.newcomer.every()):.3f} s, {dict(self.newcomer.statuses)}"
            )

    def check(self) -> None:
        for _, phases in self.phases:
            assert {*phases.clients.statuses, *phases.probes.statuses} == {HTTPStatus.OK}
        assert {*self.newcomer.statuses} == {HTTPStatus.OK}
        assert quantiles(self.beside.clients.every(), n=100)[98] <= PAGE_S_MAX


def tell_clients(clients: Clients, seconds: float, rounds: int) -> None:
    every = clients.every()
    print(
        f"clients for {seconds:g} s, {rounds} new rounds: {len(every):,} answers, {len(every) / seconds:.1f} a second;"
        f" by status {dict(clients.statuses)}"
    )
    for name, found in [("all", every), *sorted(clients.seconds.items())]:
        cuts = quantiles(found, n=100)
        print(f"{cuts[49]:8.3f} s p50 {cuts[98]:8.3f} s p99  {name}")


def tell_probes(probes: Clients) -> None:
    lives = probes.every()
    print(f"/livez: {len(lives)} times, {max(lives):.3f} s at most; by status {dict(probes.statuses)}")


def line_of(name: str) -> str:
    return f"{name}:{bcrypt.hashpw(name.encode(), bcrypt.gensalt(COST)).decode()}\n"


def attack(port: int, count: int, seconds: float, login: str | None) -> subprocess.Popen[str] | None:
    if not count:
        return None
    words = ("-m", "bench.serve_attackers", str(port), str(count), str(seconds), login or "")
    return subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    main()
