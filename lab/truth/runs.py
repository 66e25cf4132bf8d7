"""Plays runs without faults for the replay: the simulator's scenarios, and scaling and restarts with every assignor."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from groupledger.coordinator.assignors import ASSIGNORS
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS, WITH_EPOCHS, Scenario
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.schemas.words import Completeness
from groupledger.transforms.history.rules.events import Coverage, Event, GroupTombstone, group_record
from groupledger.transforms.records.decoded_record import record_fields, record_json
from groupledger.transforms.replay.rules import Finding, replay
from lab.truth.histories import Commit, position, summaries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.coordinator.simulator.scenarios.script import Script
    from groupledger.coordinator.simulator.simulation import Simulation
    from lab.truth.histories import Entry

HOUR_MS = 3_600_000


class GroupLog(NamedTuple):
    group_id: str
    kafka_partition: int
    log: list[Entry]

    @property
    def events(self) -> list[Event]:
        return summaries(sorted(self.log, key=position))

    def findings(self) -> list[Finding]:
        return list(replay(self.group_id, self.kafka_partition, self.events))


def _scale_and_restart(protocol: str, is_static: tuple[bool, bool], group: Script) -> None:
    """Scales a group from two members to four, restarts them one by one, and scales back. In each pair the first member
    is static, or the second, or both. One member also reads a second topic."""
    topics = [group.topic("orders", 7), group.topic("payments", 3)]
    applications = []
    for minutes, of_topics in ((0, topics[:1]), (5, topics)):
        pair = [
            *group.deploy(1, of_topics, assignors=(protocol,), is_static=is_static[0]),
            *group.deploy(1, topics[:1], assignors=(protocol,), is_static=is_static[1]),
        ]
        group.start(pair, minutes, "scale_out")
        applications += pair
    for number, application in enumerate(applications):
        group.bounce(application, 10 + 2 * number, "rolling_restart", group.source.between(5, 40))
    for minutes, application in zip((20, 23), applications, strict=False):
        group.plan(minutes, "scale_in", application.close, by=application)


PROTOCOL_RUNS = {
    f"{protocol}-{kind}": Scenario(
        name=f"{protocol}-{kind}",
        summary="",
        play=partial(_scale_and_restart, protocol, is_static),
        hours=SCENARIOS["scale-out"].hours,
    )
    for protocol, (kind, is_static) in product(
        ASSIGNORS, {"dynamic": (False, False), "static": (True, True), "mixed": (True, False)}.items()
    )
}
RUNS = {
    **{name: scenario for name, scenario in SCENARIOS.items() if name != "day" and scenario not in WITH_EPOCHS},
    **PROTOCOL_RUNS,
}


def play_run(name: str, seed: int) -> list[GroupLog]:
    scenario = RUNS[name]
    simulation = prepare(scenario, seed, 1)
    simulation.run(BEGAN_AT_MS + round(scenario.hours * HOUR_MS))
    logs: dict[str, GroupLog] = {}
    for partition, group_id, entry in _entries(simulation):
        mark = Coverage(0, Completeness.COMPACTED if simulation.settings.is_compacted else Completeness.COMPLETE)
        logs.setdefault(group_id, GroupLog(group_id, partition, [mark])).log.append(entry)
    return list(logs.values())


def _entries(simulation: Simulation) -> Iterator[tuple[int, str, Entry]]:
    for batch in simulation.take(is_last=True).batches:
        for offset, record in enumerate(batch.records, batch.base_offset):
            entry: Entry
            if record.record_type == "offset_commit":
                committed = None if record.value is None else record.value["offset"]
                entry = Commit(offset, batch.timestamp_ms, record.key["topic"], record.key["partition"], committed)
            elif record.value is None:
                entry = GroupTombstone(offset, batch.timestamp_ms)
            else:
                entry = group_record(offset, batch.timestamp_ms, record_json(record_fields(record)))
            yield batch.partition, record.key["group_id"], entry
