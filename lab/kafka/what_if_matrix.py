"""Plays one workload of real consumers under several settings at the same time, on a real broker.

A workload is a script of starts, restarts, closes and one crash, with its times in seconds. Each setting has a group of
its own. The consumers are Kafka's Java client: one process has those that are never killed, and another has the one
that is killed. Sessions and heartbeats are short (`SESSION_MS`, `HEARTBEAT_MS`), so a minute has as many events as a
day elsewhere.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from lab.kafka.matrix import JAVA, SETTLE_S_MAX, STRATEGIES, Host, now_ms
from lab.kafka.topics import make_topics
from lab.truth.what_if import Span, stopped_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.schemas.kafka.topic_partition import TopicPartition

SESSION_MS: Final = 6_000
HEARTBEAT_MS: Final = 500
BROKER: Final = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "offsets.topic.num.partitions": "2",  # as many as Spark reads at once on a small machine
}
# Settings that no record has, the session only for KIP-848.
SETTINGS_GIVEN: Final = (
    f"heartbeat.interval.ms={HEARTBEAT_MS}",
    f"session.timeout.ms={SESSION_MS}",
    "group.initial.rebalance.delay.ms=0",
)
SETTINGS: Final = ("dynamic,range", "static,range", "dynamic,cooperative-sticky", "dynamic,consumer")
SETTLED_S: Final = 15.0  # where in a workload's times its first event lies, once all members own their shares
QUIET_S: Final = 3.0
VICTIM: Final = "victim"


@dataclass(frozen=True, slots=True)
class ProcessAction:
    at_s: float
    what: str  # start, close or kill
    name: str


@dataclass(frozen=True, slots=True)
class Played:
    """The run of one group. `since_ms` is when it had settled and `until_ms` when it was over; `stopped_s` is for how
    long partitions had no owner in between, summed over the partitions."""

    group: str
    setting: str
    since_ms: int
    until_ms: int
    stopped_s: float


def workload(seed: int) -> tuple[int, list[ProcessAction]]:
    """Returns the number of partitions and the steps of a workload. A restarted consumer is back before its session
    ends."""
    random = Random(seed)
    count = random.randint(2, 4)
    running, spare = [f"c{number}" for number in range(count)], [f"c{count}", f"c{count + 1}"]
    steps = [ProcessAction(number * 0.4, "start", name) for number, name in enumerate([*running, VICTIM])]
    at_s, kill_after = SETTLED_S, random.randint(2, 6)
    for number in range(9):
        at_s += random.uniform(1.5, 9)
        what = random.choice(("restart", "restart", "restart", "start", "close"))
        if number == kill_after:
            steps.append(ProcessAction(at_s, "kill", VICTIM))
            at_s += 1.5 * SESSION_MS / 1_000
        elif what == "start" and spare:
            running.append(spare.pop())
            steps.append(ProcessAction(at_s, "start", running[-1]))
        elif what == "close" and len(running) > 1:
            steps.append(ProcessAction(at_s, "close", running.pop(random.randrange(len(running)))))
        else:
            name, down_s = random.choice(running), random.uniform(0.5, 3)
            steps += [ProcessAction(at_s, "close", name), ProcessAction(at_s + down_s, "start", name)]
            at_s += down_s
    return random.randint(6, 12), steps


def play(bootstrap_servers: str, seed: int) -> list[Played]:
    """Plays the workload of a seed under all settings, and returns each group's run. Waits until the last step no
    longer has effects."""
    partitions, steps = workload(seed)
    groups = {setting: f"w{seed}-{number}" for number, setting in enumerate(SETTINGS)}
    make_topics(bootstrap_servers, dict.fromkeys(groups.values(), partitions))
    with Host(JAVA, bootstrap_servers) as stayers, Host(JAVA, bootstrap_servers) as victims:
        ups = _Ups()

        def take(some: Iterable[ProcessAction], begin_s: float) -> None:
            for step in some:
                time.sleep(max(0.0, begin_s + step.at_s - time.monotonic()))
                _take(step, groups, victims if step.name == VICTIM else stayers, ups)

        take([step for step in steps if step.at_s < SETTLED_S], time.monotonic())
        _await_settled([stayers, victims], dict.fromkeys(groups.values(), partitions), len(ups.spans(0)))
        since_ms = now_ms()
        take([step for step in steps if step.at_s >= SETTLED_S], time.monotonic() - SETTLED_S)
        time.sleep(2.5 * SESSION_MS / 1_000)
        until_ms = now_ms()
        events = [*stayers.events, *victims.events]
    return [
        Played(
            group,
            setting,
            since_ms,
            until_ms,
            stopped_s(_held(events, group, ups, until_ms, partitions), ups.spans(until_ms), since_ms, until_ms),
        )
        for setting, group in groups.items()
    ]


def _await_settled(hosts: Sequence[Host], groups: Mapping[str, int], consumers: int) -> None:
    """Waits until all consumers of every group own their share: a busy machine takes long to start them, and late joins
    would be counted under some settings only."""
    begun_s = time.monotonic()
    while time.monotonic() < begun_s + SETTLE_S_MAX:
        is_quiet = all(time.monotonic() - at_s > QUIET_S for host in hosts for at_s in host.spoke_at.values())
        owned = [
            [len(units) for host in hosts for name, units in [*host.owned.items()] if name.startswith(f"{group}-")]
            for group in groups
        ]
        is_whole = all(
            sum(counts) == partitions and sum(map(bool, counts)) == consumers
            for counts, partitions in zip(owned, groups.values(), strict=True)
        )
        if is_quiet and is_whole:
            return
        time.sleep(0.1)
    raise TimeoutError(f"groups of {consumers} consumers have not settled within {SETTLE_S_MAX} s")


class _Ups:
    """When each process was up, the same under all settings."""

    def __init__(self) -> None:
        self.killed_ms: int | None = None
        self._since: dict[str, int] = {}
        self._over: list[Span] = []

    def begin(self, name: str) -> None:
        self._since[name] = now_ms()

    def end(self, name: str) -> None:
        self._over.append((self._since.pop(name), now_ms()))

    def spans(self, until_ms: int) -> list[Span]:
        return [*self._over, *((since, until_ms) for since in self._since.values())]


def _take(step: ProcessAction, groups: dict[str, str], host: Host, ups: _Ups) -> None:
    if step.what == "kill":
        host.kill()
        ups.killed_ms = now_ms()
        ups.end(step.name)
        return
    for setting, group in groups.items():
        if step.what == "start":
            words = [word for pair in _settings(setting, group, step.name).items() for word in pair]
            host.send("start", f"{group}-{step.name}", group, *words)
        else:
            host.send("close", f"{group}-{step.name}")
    (ups.begin if step.what == "start" else ups.end)(step.name)


def _settings(setting: str, group: str, name: str) -> dict[str, str]:
    membership, assigned_by = setting.split(",")
    settings = {
        "group.id": group,
        "client.id": f"{group}-{name}",
        "max.poll.interval.ms": "60000",
        "auto.commit.interval.ms": "500",
        "auto.offset.reset": "earliest",
    }
    if membership == "static":
        settings["group.instance.id"] = name
    if assigned_by == "consumer":
        return settings | {"group.protocol": "consumer"}
    return settings | {
        "partition.assignment.strategy": STRATEGIES[JAVA][assigned_by],
        "session.timeout.ms": str(SESSION_MS),
        "heartbeat.interval.ms": str(HEARTBEAT_MS),
    }


def _held(
    events: Iterable[tuple[str, str, int, set[TopicPartition]]], group: str, ups: _Ups, until_ms: int, partitions: int
) -> dict[int, list[Span]]:
    """Returns when each partition had an owner, by the consumers' reports."""
    held: dict[int, list[Span]] = {number: [] for number in range(partitions)}
    owned: dict[str, dict[int, int]] = defaultdict(dict)

    def ends(name: str, numbers: Iterable[Any], at_ms: int) -> None:
        for number in list(numbers):
            since = owned[name].pop(number, None)
            if since is not None:
                held[number].append((since, at_ms))

    for name, event, at_ms, units in events:
        if not name.startswith(f"{group}-"):
            continue
        numbers = [unit.partition for unit in units]
        if event == "assigned":
            owned[name] |= {number: at_ms for number in numbers if number not in owned[name]}
        elif event == "revoked":
            ends(name, numbers, at_ms)
        else:
            ends(name, owned[name], at_ms)
    for name in list(owned):
        is_victim = name == f"{group}-{VICTIM}" and ups.killed_ms is not None
        ends(name, owned[name], ups.killed_ms if is_victim and ups.killed_ms is not None else until_ms)
    return held
