"""Compares Burrow itself with our Burrow interface on one broker: the time of the same requests, and whether the
responses have the same fields.

    python -m bench.burrow PROGRAM [--seconds 60] [--times 200]

PROGRAM is Burrow's executable, which is built from its sources by `go build`. Real consumers commit on the broker.
Burrow reads it directly. For our interface a monitor with a round every second reads it, and `groupledger serve`
answers from the monitor's warehouse. The run ends with 1 if one of our answers lacks a field that Burrow's has, or if
Burrow has a group that we lack.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any

from bench.asking import served
from bench.freshness import wait_for
from bench.serve_beside import CLUSTER, command, run_traffic
from lab.kafka.local_broker import LocalBroker
from lab.kafka.local_traffic import make_offsets_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS_MAX = 300
PATHS = (
    "/v3/kafka",
    f"/v3/kafka/{CLUSTER}/consumer",
    f"/v3/kafka/{CLUSTER}/consumer/checkout",
    f"/v3/kafka/{CLUSTER}/consumer/checkout/status",
    f"/v3/kafka/{CLUSTER}/consumer/checkout/lag",
    f"/v3/kafka/{CLUSTER}/topic",
    f"/v3/kafka/{CLUSTER}/topic/orders",
)
# It counts its own reading as a group.
OF_BURROW = f"burrow-{CLUSTER}"
SETTINGS = """
[general]
pidfile = "{folder}/burrow.pid"
[logging]
filename = "{folder}/burrow.log"
level = "warn"
[client-profile.plain]
client-id = "burrow"
kafka-version = "2.0.0"
[cluster.{cluster}]
class-name = "kafka"
servers = ["{servers}"]
client-profile = "plain"
topic-refresh = 10
offset-refresh = 1
[consumer.{cluster}]
class-name = "kafka"
cluster = "{cluster}"
servers = ["{servers}"]
client-profile = "plain"
[storage.default]
class-name = "inmemory"
min-distance = 1
[httpserver.default]
address = "127.0.0.1:{port}"
"""


@contextmanager
def running(words: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program until the end of the block; its output goes to a file."""
    with log.open("wb") as said:
        process = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT, cwd=log.parent)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=START_SECONDS_MAX)


def ask(port: int, path: str) -> Any:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def has_group(port: int) -> bool:
    try:
        return "checkout" in ask(port, f"/v3/kafka/{CLUSTER}/consumer").get("consumers", ())
    except OSError:
        return False


def fields(value: Any, place: str = "") -> set[str]:
    """Returns the names of all fields, each with those it lies in. Names that are data are `*`."""
    if isinstance(value, dict):
        places = {name: f"{place}.{'*' if place == '.topics' else name}" for name in value}
        return set(places.values()).union(*(fields(each, places[name]) for name, each in value.items()))
    if isinstance(value, list):
        return set().union(*(fields(each, f"{place}[]") for each in value))
    return set()


def milliseconds(times: int, port: int, path: str) -> str:
    found = []
    for _ in range(times):
        begun_s = time.perf_counter()
        ask(port, path)
        found.append(1_000 * (time.perf_counter() - begun_s))
    cuts = quantiles(found, n=20)
    return f"{cuts[9]:10.1f}{cuts[18]:10.1f}"


def compare(burrow: int, ours: int, times: int) -> list[str]:
    """Prints a line for each path, and returns the fields and groups that our responses lack."""
    lacking = []
    print(f"{'Burrow: p50, p95':>20}{'ours: p50, p95':>20}  (milliseconds)")
    for path in PATHS:
        measured = [milliseconds(times, port, path) for port in (burrow, ours)]
        theirs, own = ask(burrow, path), ask(ours, path)
        lacking += [f"{path}: {name}" for name in sorted(fields(theirs) - fields(own))]
        print(f"{measured[0]}{measured[1]}  {path}", flush=True)
    groups = [set(ask(port, f"/v3/kafka/{CLUSTER}/consumer")["consumers"]) for port in (burrow, ours)]
    return lacking + [f"group {name}" for name in sorted(groups[0] - groups[1] - {OF_BURROW})]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--times", type=int, default=200)
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = stack.enter_context(LocalBroker(folder / "kafka")).bootstrap_servers
        make_offsets_topic(servers)
        warehouse = folder / "warehouse"
        given = ("--bootstrap-servers", servers, "--interval", "1s", "--metrics-port", "0")
        stack.enter_context(running(command("monitor", warehouse, *given), folder / "monitor.log"))
        traffic = threading.Thread(target=run_traffic, args=(servers, START_SECONDS_MAX + asked.seconds))
        traffic.daemon = True
        traffic.start()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (folder / "burrow.toml").write_text(SETTINGS.format(folder=folder, cluster=CLUSTER, servers=servers, port=port))
        words = [str(asked.program.resolve()), "--config-dir", str(folder)]
        stack.enter_context(running(words, folder / "burrow-said.log"))
        wait_for((warehouse / "lag" / "_delta_log").exists, START_SECONDS_MAX, "a round")
        server, ours, _ = served(warehouse)
        stack.callback(server.wait, timeout=60)
        stack.callback(server.terminate)
        for each in (port, ours):
            wait_for(partial(has_group, each), START_SECONDS_MAX, "the groups")
        time.sleep(asked.seconds)
        lacking = compare(port, ours, asked.times)
    print("\n".join(["our answers lack:", *lacking]) if lacking else "our answers have all of its fields and groups")
    sys.exit(bool(lacking))


if __name__ == "__main__":
    main()
