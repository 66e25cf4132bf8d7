"""Makes brokers fail under healthy groups, and saves the inputs of a ledger: `__consumer_offsets` and the brokers'
logs.

    python -m lab.kafka.broker_faults DIRECTORY

There are three brokers; the first is the controller, and has no fault. A dozen groups of three clients and two
protocols read topics, and no client causes a fault before the end. First one broker that coordinates groups is frozen
for 16 s (`FROZEN_S`) and continues. Then another one is killed with SIGKILL and comes back, and later all leaders go
back to their preferred brokers. When all is quiet again, a process with one member of some groups is killed: only these
sessions expire because of a client. At last the consumers are closed, one after the other.

The program writes `capture/` (`groupledger capture`), `server-N.log` of each broker, `events.jsonl` (what clients
reported: name, event, time) and `happened.json` (what was done, and when). `tests/data/situations/broker_faults` is
made of these files: it has the capture in one file, and those lines of the logs in which coordinators load or unload
partitions or remove members, or members leave."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lab.diagnosis.stage import Feed
from lab.kafka.cluster import Cluster
from lab.kafka.local_traffic import make_offsets_topic
from lab.kafka.matrix import JAVA, KAFKA_PYTHON, LIBRDKAFKA, Host

FROZEN_S = 16.0
CALM_S, DOWN_S, AFTER_S = 30.0, 15.0, 45.0
PARTITIONS = 4
RANGE = {JAVA: "org.apache.kafka.clients.consumer.RangeAssignor"}
GROUPS = (
    *((f"java-{number}", JAVA, "classic") for number in range(4)),
    *((f"rd-{number}", LIBRDKAFKA, "classic") for number in range(4)),
    *((f"new-{number}", JAVA, "consumer") for number in range(3)),
    ("python-0", KAFKA_PYTHON, "classic"),
)


def settings(group: str, name: str, client: str, protocol: str) -> dict[str, str]:
    found = {
        "group.id": group,
        "client.id": f"{group}-{name}",
        "group.protocol": protocol,
        "max.poll.interval.ms": "60000",
        "auto.commit.interval.ms": "2000",
        "auto.offset.reset": "earliest",
    }
    if protocol == "classic":
        found |= {"session.timeout.ms": "10000", "heartbeat.interval.ms": "2000"}
        found["partition.assignment.strategy"] = RANGE.get(client, "range")
    if client == KAFKA_PYTHON:
        found.pop("group.protocol")
    if group == "java-3":
        found["group.instance.id"] = name
    return found


def play(cluster: Cluster) -> list[dict[str, Any]]:
    """Plays all faults, and returns the events that the clients reported, in the order of time."""
    servers = cluster.servers
    make_offsets_topic(servers)
    cluster.make_topics((group for group, _, _ in GROUPS), PARTITIONS)
    feed = Feed(servers)
    for group, _, _ in GROUPS:
        feed.set(group, dict.fromkeys(range(PARTITIONS), 5.0))
    feed.start()
    hosts = {(client, role): Host(client, servers) for client in (JAVA, LIBRDKAFKA, KAFKA_PYTHON) for role in "sv"}
    start_consumers(hosts)
    cluster.note(f"started, leaders {cluster.leaders()}")
    break_brokers(cluster)
    cluster.note("kill clients")
    kill(hosts, "v")
    time.sleep(AFTER_S / 1.5)
    cluster.note("close")
    for group, client, _ in GROUPS:
        for name in ("a", "b"):
            hosts[client, "s"].send("close", f"{group}-{name}")
            time.sleep(0.2)
    time.sleep(5)
    feed.stop()
    events = [
        {"name": name, "event": event, "at_ms": at_ms, "partitions": sorted(f"{t}-{p}" for t, p in places)}
        for host in hosts.values()
        for name, event, at_ms, places in host.events
    ]
    kill(hosts, "s")
    return sorted(events, key=lambda each: each["at_ms"])


def start_consumers(hosts: dict[tuple[str, str], Host]) -> None:
    for group, client, protocol in GROUPS:
        for name in ("a", "b", "c"):
            is_victim = name == "c" and group in ("java-0", "rd-0", "new-0")
            words = [word for pair in settings(group, name, client, protocol).items() for word in pair]
            hosts[client, "v" if is_victim else "s"].send("start", f"{group}-{name}", group, *words)


def break_brokers(cluster: Cluster) -> None:
    time.sleep(CALM_S)
    cluster.note("freeze 2")
    cluster.freeze(2, FROZEN_S)
    cluster.note("thaw 2")
    time.sleep(AFTER_S)
    cluster.note(f"kill 3, leaders {cluster.leaders()}")
    cluster.kill(3)
    time.sleep(DOWN_S)
    cluster.bring_back(3)
    cluster.note("back 3")
    time.sleep(AFTER_S)
    cluster.note(f"elect, leaders {cluster.leaders()}")
    cluster.elect_preferred()
    time.sleep(AFTER_S)


def kill(hosts: dict[tuple[str, str], Host], role: str) -> None:
    for (_, of_role), host in hosts.items():
        if of_role == role:
            host.kill()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args(arguments).directory
    directory.mkdir(parents=True)
    with Cluster(directory / "brokers") as cluster:
        events = play(cluster)
        command = [str(Path(sys.executable).parent / "groupledger"), "capture"]
        subprocess.run(
            [*command, "--bootstrap-servers", cluster.servers, "--out", str(directory / "capture")], check=True
        )
    write(directory, cluster, events)
    return 0


def write(directory: Path, cluster: Cluster, events: list[dict[str, Any]]) -> None:
    for number, broker in enumerate(cluster.brokers, 1):
        shutil.copyfile(broker.server_log, directory / f"server-{number}.log")
    (directory / "happened.json").write_text(json.dumps(cluster.happened, indent=1))
    (directory / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))


if __name__ == "__main__":
    sys.exit(main())
