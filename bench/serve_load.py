"""Measures a server under load from many clients: response times, and memory.

    python -m bench.serve_load [--clients 50] [--seconds 60] [--groups 100] [--partitions 10] [--attackers 500]

The warehouse and the paths are those of bench.asking. Each client asks path after path, each time by a connection of
its own and as soon as it has the answer before, which is more than people do. While they ask, a writer adds a sampling
round every five seconds, so that nothing can be kept for long. An answer is fine if its status is 200; others are
counted. The clients run in this process, and take some of the machine's time from the server.

With --attackers the server asks for passwords, so many hostile connections are held beside the clients
(bench.serve_attackers), from the clients' own address and two others, and the clients wait a while between two
questions, as people do. Then somebody logs in for the first time, and /livez is asked twice a second; the memory of the
server and the size of its log are printed, and a page has to come within two seconds at p99.
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
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import quantiles

import bcrypt

from bench.asking import MINUTE, PATHS, make, served, write_round

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--attackers", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        warehouse, log = Path(folder) / "warehouse", Path(folder) / "log"
        end = make(warehouse, asked.groups, asked.partitions)
        users = Path(folder) / "users"
        users.write_text("".join(line_of(name) for name in USERS))
        server, port, _ = served(warehouse, log, *(("--auth-file", str(users)) if asked.attackers else ()))
        try:
            before = peak_mib(server.pid)
            until = time.monotonic() + asked.seconds
            login, pause_s = (login_of(USERS[0]), PAUSE_S) if asked.attackers else (None, 0.0)
            clients, probes, newcomer = Clients(port, login, pause_s), Clients(port), Clients(port, login_of(USERS[1]))
            clients.once(PATHS[0])
            attackers = attack(port, asked.attackers, asked.seconds, login)
            threads = [threading.Thread(target=clients.ask, args=(each, until)) for each in range(asked.clients)]
            if asked.attackers:
                threads.append(threading.Thread(target=probes.probe, args=("/livez", until)))
            for thread in threads:
                thread.start()
            rounds = 0
            while time.monotonic() + ROUND_S < until:
                time.sleep(ROUND_S)
                rounds += 1
                write_round(warehouse, asked.groups, asked.partitions, end + rounds * MINUTE)
                if asked.attackers and rounds == 1:
                    newcomer.once(PATHS[0])
            for thread in threads:
                thread.join()
            peak = peak_mib(server.pid)
            got = attackers.communicate()[0] if attackers else ""
        finally:
            server.terminate()
            server.wait(timeout=60)
        log_bytes, log_lines = log.stat().st_size, len(log.read_text().splitlines())
    tell_clients(clients, asked.seconds, rounds)
    print(f"memory of the server: {before} MiB when it is ready, {peak} MiB at most")
    if attackers is None:
        assert {*clients.statuses} <= {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}
        return
    tell_others(probes, newcomer)
    print(f"the server's log: {log_lines} lines, {log_bytes:,} bytes")
    print(f"{asked.attackers} attackers: {got.strip()}")
    assert {*clients.statuses, *probes.statuses, *newcomer.statuses} == {HTTPStatus.OK}
    assert quantiles(clients.every(), n=100)[98] <= PAGE_S_MAX
    assert peak <= MEMORY_MIB_MAX
    assert log_lines <= LOG_LINES_MAX


def tell_clients(clients: Clients, seconds: float, rounds: int) -> None:
    every = clients.every()
    print(
        f"clients for {seconds:g} s, {rounds} new rounds: {len(every):,} answers, {len(every) / seconds:.1f} a second;"
        f" by status {dict(clients.statuses)}"
    )
    for name, found in [("all", every), *sorted(clients.seconds.items())]:
        cuts = quantiles(found, n=100)
        print(f"{cuts[49]:8.3f} s p50 {cuts[98]:8.3f} s p99  {name}")


def tell_others(probes: Clients, newcomer: Clients) -> None:
    lives = probes.every()
    print(f"/livez: {len(lives)} times, {max(lives):.3f} s at most; by status {dict(probes.statuses)}")
    print(f"the first login of somebody else: {max(newcomer.every()):.3f} s, {dict(newcomer.statuses)}")


def line_of(name: str) -> str:
    return f"{name}:{bcrypt.hashpw(name.encode(), bcrypt.gensalt(COST)).decode()}\n"


def attack(port: int, count: int, seconds: float, login: str | None) -> subprocess.Popen[str] | None:
    if not count:
        return None
    words = ("-m", "bench.serve_attackers", str(port), str(count), str(seconds), login or "")
    return subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    main()
