"""Defines faults of a live cluster: of a real broker, or of the monitor, while groupledger reads it.

Each trial has a broker of its own. Commands find it through the address of a forwarder, which never changes. Its
`__consumer_offsets` has the first half of a simulated log, and gets the second half when the fault is over. The tables
have to equal those of an undisturbed reading of the same topic in another warehouse. The records get long session
timeouts; otherwise the broker would end the sessions and write records of its own.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Producer

from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.progress import KEPT_EVERY_MS
from groupledger.schemas.codec.records import decode_record, encode_record
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.faults.contents import OF_THE_RUN, contents, differences, without
from lab.faults.shim import COUNT, Twist
from lab.faults.trials import LEASE_S, lay_out, no_remedy, repair
from lab.kafka.forwarder import Forwarder
from lab.kafka.local_broker import LocalBroker
from lab.kafka.local_traffic import make_offsets_topic

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lab.faults.processes import Process
    from lab.faults.trials import Trial

    Fault = Callable[[Trial, "Cluster", Process], None]

SETTINGS = """\
kafka: {request_timeout_ms: 5000}
sampling: {request_timeout_ms: 2000}
monitor: {history_interval_s: 5, incidents_interval_s: 10}
"""
# Nothing ends by itself: neither sessions nor offsets of a simulated day that is long past.
SESSION_MS = 1_800_000
PROPERTIES = {"offsets.retention.minutes": "10000000"}
# Tables, and columns of others, that each run writes differently.
OF_ROUNDS = frozenset(
    {"watermarks", "group_states", "lag", "lag_seeds", "incidents", "coverage", "topic_names", "share_partitions"}
)
LEFT_OUT = OF_THE_RUN | {"high_watermark", "idle_until", "waiting_from", "sampled_until"}
QUIET_TRIES = 3
MONITOR = ("monitor", "--interval", "2s", "--metrics-port", "0")
ANY = ("ingest", "monitor")
# How long each has its moments, as a share of a pass; a monitor goes on after its first rounds.
PASSES = {"ingest": 0.6, "monitor": 1.5}
# The commands that bring all their tables up to the topic's end.
LAST_STEP = {"ingest": "ingest", "monitor": "pipeline"}
SIGTERM_CODE = 143
HOUR_S = 3_600
END_S_MAX = 30  # 15 s are promised, on a machine that has nothing else to do


@dataclass
class Cluster:
    """Holds a broker that the trial may disturb, the forwarder in front of it, and in `waiting` the records that are
    not written to the topic yet."""

    broker: LocalBroker
    front: Forwarder
    waiting: list[dict[str, Any]]

    def produce(self, count: int) -> None:
        """Writes the next `count` waiting records to `__consumer_offsets`, with the only client id from which a broker
        accepts that."""
        who = {"client.id": "__admin_client", "log_level": 0}
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, **who})
        rows, self.waiting = self.waiting[:count], self.waiting[count:]
        for row in rows:
            key, value = lasting(row["key"], row["value"])
            at_ms = int(row["timestamp"].timestamp() * 1_000)
            producer.produce(OFFSETS_TOPIC, value, key, partition=row["partition"], timestamp=at_ms)
            producer.poll(0)
        assert producer.flush(120) == 0

    def back(self) -> None:
        """Starts the broker again at the same address."""
        self.broker.start()
        self.front.target = self.broker.port

    def move(self) -> None:
        self.broker.move()
        self.front.target = self.broker.port

    def ends(self) -> dict[int, int]:
        return describe_offsets_topic(self.front.address, load_settings().kafka)[1].high_watermark


def lasting(key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Sets session and rebalance timeouts that are longer than the trial for the members in a record, and returns the
    record. Other records stay as they are."""
    record = decode_record(key, value)
    for member in (record.value or {}).get("members", ()):
        member |= {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS}
    return encode_record(record)


@contextmanager
def cluster(trial: Trial, *, is_through_front: bool) -> Iterator[Cluster]:
    folder = trial.launcher.folder
    lay_out(folder, None, trial.stage.inputs, trial.stage.cluster)
    with (folder / "settings.yaml").open("a") as settings:
        settings.write(SETTINGS)
    log = pq.read_table(folder / "inputs/capture", columns=["key", "value", "partition", "offset", "timestamp"])
    rows = log.sort_by([("timestamp", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
    rows = rows.filter(pc.is_valid(rows["key"])).to_pylist()
    with Forwarder() as front:
        advertised = {"advertised.listeners": f"PLAINTEXT://{front.address}"} if is_through_front else {}
        with LocalBroker(folder / "kafka", properties=PROPERTIES | advertised) as broker:
            front.target = broker.port
            make_offsets_topic(front.address)
            found = Cluster(broker, front, rows)
            found.produce(len(rows) // 2)
            trial.source = ("--bootstrap-servers", front.address)
            yield found


def broker_stops(trial: Trial, found: Cluster, victim: Process) -> None:
    """Stops the broker for a while, or until the command has given up, and starts it again."""
    found.broker.stop()
    outage(trial, victim)
    found.back()


def broker_moves(trial: Trial, found: Cluster, victim: Process) -> None:
    """Stops the broker, and starts it on another port. Clients find it there through the forwarder's address."""
    found.broker.stop()
    outage(trial, victim)
    found.move()


def broker_sleeps(trial: Trial, found: Cluster, victim: Process) -> None:
    """Stops the broker's process by SIGSTOP for a while, so that its connections stay open."""
    assert found.broker.pid is not None
    os.kill(found.broker.pid, signal.SIGSTOP)
    try:
        outage(trial, victim)
    finally:
        os.kill(found.broker.pid, signal.SIGCONT)


def broker_is_slow(trial: Trial, found: Cluster, victim: Process) -> None:
    """Delays, for a while, all bytes of each response."""
    found.front.delay_s = trial.random.choice([0.05, 0.3, 1.0])
    trial.note(f"{found.front.delay_s} s late")
    outage(trial, victim)
    found.front.delay_s = 0


def outage(trial: Trial, victim: Process) -> None:
    seconds = trial.random.choice([0, 3, 15, 40])
    trial.note(f"{seconds} s")
    victim.sleep(seconds)


def monitor_is_killed(trial: Trial, _: Cluster, victim: Process) -> None:
    """Sends SIGKILL to the monitor, alone or with its JVM."""
    victim.kill(with_java=trial.random.random() < 0.5)
    trial.is_killed = True


def monitor_sleeps(trial: Trial, _: Cluster, victim: Process) -> None:
    """Stops the monitor for longer than its lease. Half of the time another process runs a pass meanwhile."""
    victim.signal_group(signal.SIGSTOP)
    if trial.random.random() < 0.5:
        trial.note("overtaken")
        trial.run("pipeline")
    else:
        time.sleep(LEASE_S * 1.5)
    victim.signal_group(signal.SIGCONT)


def clock_is_set(trial: Trial, _: Cluster, victim: Process) -> None:
    """Sets the clock that a command sees an hour or a day ahead or back, and right again after a while. The broker's
    clock stays right."""
    clock_s = trial.random.choice([HOUR_S, -HOUR_S, 24 * HOUR_S, -24 * HOUR_S])
    trial.note(f"{clock_s:+d} s")
    victim.shim.begin(Twist(act="clock", clock_s=clock_s))
    outage(trial, victim)
    victim.shim.begin(COUNT)


def try_live(trial: Trial, fault: Fault, victims: Sequence[str] = ANY, *, is_through_front: bool = False) -> None:
    """Runs a random command of `victims` on a live cluster, applies the fault, and writes the problems into
    `trial.judged`. If `is_through_front` is true, all requests go through the forwarder."""
    victim = trial.random.choice(victims)
    moment_s = trial.random.random() * trial.stage.seconds * PASSES[victim]
    with cluster(trial, is_through_front=is_through_front) as found:
        process = trial.start(*MONITOR, *trial.source) if victim == "monitor" else trial.start(victim)
        trial.note(f"{victim}, {moment_s:.1f} s")
        if process.sleep(moment_s):
            trial.is_touched = True
            fault(trial, found, process)
        found.produce(len(found.waiting))
        if victim == "monitor":
            process.sleep(trial.random.uniform(0, trial.stage.seconds))
            end(trial, process)
        trial.finish(process)
        # A monitor that went on until it was stopped has done well.
        trial.disturbed = [each for each in trial.ends if each.code != SIGTERM_CODE]
        trial.judged = compared(trial, found, LAST_STEP[victim]) + trial.problems


def end(trial: Trial, monitor: Process) -> None:
    """Stops the monitor with SIGTERM, and notes a problem if it has not ended after `END_S_MAX` seconds."""
    if monitor.is_running():
        monitor.process.terminate()
        if monitor.sleep(END_S_MAX):
            trial.problems.append(f"the monitor had not ended {END_S_MAX} s after SIGTERM")


def compared(trial: Trial, found: Cluster, command: str) -> list[str]:
    """Repairs the trial's warehouse with `command`, and returns its differences from an undisturbed reading. If a
    record was written to the topic meanwhile, both are done again, at most `QUIET_TRIES` times."""
    fresh = replace(trial.launcher, folder=trial.launcher.folder.with_name("fresh"), started=[])
    lay_out(fresh.folder, None, trial.stage.inputs, trial.stage.cluster)
    for _ in range(QUIET_TRIES):
        ends = found.ends()
        let_an_hour_pass(trial.warehouse)
        if not repair(trial, command):
            return [no_remedy(trial)]
        undisturbed = fresh.run(command, *trial.source)
        assert undisturbed.code == 0, undisturbed.said
        if found.ends() == ends:
            break
    else:
        return ["the topic was never quiet"]
    expected = of_the_log(contents(fresh.folder / "warehouse", LEFT_OUT))
    return twice(contents(trial.warehouse)) + differences(of_the_log(contents(trial.warehouse, LEFT_OUT)), expected)


def let_an_hour_pass(warehouse: Path) -> None:
    """Makes the hourly write of `commit_steps` due, because an undisturbed reading writes all commit steps in its one
    pass."""
    for path in warehouse.glob("_groupledger/*/commit_steps.json"):
        kept = json.loads(path.read_text())
        path.write_text(json.dumps({**kept, "until_ms": kept["until_ms"] - KEPT_EVERY_MS}))


def of_the_log(tables: dict[str, Counter[str]]) -> dict[str, Counter[str]]:
    return without(tables, OF_ROUNDS)


def twice(tables: dict[str, Counter[str]]) -> list[str]:
    return [
        f"{name}: {count} times {row[:200]}"
        for name, rows in tables.items()
        for row, count in rows.most_common(1)
        if count > 1
    ]


FAULTS: dict[str, Callable[[Trial], None]] = {
    "broker-stops": partial(try_live, fault=broker_stops),
    "broker-moves": partial(try_live, fault=broker_moves),
    "broker-sleeps": partial(try_live, fault=broker_sleeps),
    "broker-is-slow": partial(try_live, fault=broker_is_slow, is_through_front=True),
    "monitor-is-killed": partial(try_live, fault=monitor_is_killed, victims=("monitor",)),
    "monitor-clock-is-set": partial(try_live, fault=clock_is_set, victims=("monitor",)),
    "monitor-sleeps": partial(try_live, fault=monitor_sleeps, victims=("monitor",)),
}
