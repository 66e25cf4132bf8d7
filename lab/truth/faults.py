"""Plays groups with planted faults, and groups without, in the simulator. Returns the facts that a ledger has about
them.

The requests come from a request log, the events from a server log, and the history from the capture, all through the
ledger's own parsers. `mix` makes one simulation with a group of each kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.log_lines import render_line as render_server_line
from groupledger.coordinator.simulator.request_log import render_line as render_request_line
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import Scenario
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS, Settings
from groupledger.jobs.demo.simulate import capture_table
from groupledger.transforms.incidents.rules import GroupFacts
from groupledger.transforms.incidents.rules.facts import rebalance_stretches
from groupledger.transforms.records.decode import decode_batches
from lab.truth.from_logs import event_facts, group_state, history_facts, request_facts, topic_ends
from lab.truth.simulated import PLAYED, Group, groups_in, ledger_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from groupledger.coordinator.model.operation import Batch
    from groupledger.coordinator.simulator.described_groups import SimulatedGroupState
    from groupledger.coordinator.simulator.scenarios.script import Script
    from groupledger.transforms.incidents.rules import GroupState, RebalanceStretch

HOUR_MS = 3_600_000
CLEAN = (
    *("scale-out", "scale-in", "rolling-restart", "rolling-restart-static", "subscription-change"),
    *("partitions-added", "protocol-upgrade"),
)
# Clean, too, and longer: a rule that ignores harm would report these as faults.
NORMAL_LIFE = ("job-each-minute", "job-each-ten-minutes", "idle-topic", "idle-hour", "slow-rebalance")
FAULTS = (
    *("crash", "long-gc", "slow-processing", "zombie-commits", "flapping-member", "leader-loss", "admin-reset"),
    "transactional-commits",
)
LONG_FAULTS = ("job-crashes", "rebalance-stuck")
# In these a broker crashes, and takes the coordinators of other groups of the simulation with it.
FAILOVERS = ("coordinator-failover", "mixed", "mixed", "mixed")
# A fifth of the requests of Kafka's defaults; commits and heartbeats are still frequent enough within a session.
PACE = {"heartbeat_interval_ms": 12_000, "auto_commit_interval_ms": 10_000}
PROCESSING_MS = (4_000, 12_000)


def _play(names: tuple[str, ...], group: Script) -> None:
    group.pace, group.processing_ms = PACE, PROCESSING_MS
    PLAYED[names[group.number]].play(group)


def mix(*names: str) -> Scenario:
    """Returns a scenario with one group for each of these names of scenarios. All of them must run with Kafka's default
    broker settings."""
    hours = max(PLAYED[name].hours for name in names)
    return Scenario(
        name="mix", summary="", play=partial(_play, names), hours=hours, settings=Settings(Config()), groups=len(names)
    )


@dataclass(frozen=True)
class Played:
    """Holds a simulated group, the name of its scenario, and the facts that a ledger has about the group after it
    imported the request log and the server log."""

    name: str
    group: Group
    facts: GroupFacts


def play(*names: str, seed: int) -> list[Played]:
    scenario = mix(*names)
    simulation = prepare(scenario, seed)
    simulation.run(BEGAN_AT_MS + round(scenario.hours * HOUR_MS))
    outputs = simulation.take(is_last=True)
    requests = request_facts(
        (f"kafka-request-{exchange.broker_id}.log", render_request_line(exchange)) for exchange in outputs.exchanges
    )
    events = event_facts([render_server_line(event, broker_id=broker) for broker, event in outputs.events])
    records = _records(outputs.batches)
    ends = topic_ends(outputs.watermarks)
    found = []
    for group in groups_in(simulation, outputs.batches):
        history = ledger_of(group).rows
        facts = GroupFacts(
            group.group_id,
            group.until_ms,
            requests.get(group.group_id, []),
            events.get(group.group_id, []),
            **history_facts(group.kafka_partition, group.log, history, ends),
            records=records.get(group.group_id, []),
            stretches=_stretches(group.group_id, outputs.group_states, history["generations"]),
        )
        found.append(Played(names[int(group.group_id.rpartition("-")[2])], group, facts))
    return found


def _records(batches: Iterable[Batch]) -> dict[str, list[GroupState]]:
    found: dict[str, list[GroupState]] = {}
    for row in _decoded(batches):
        if row["record_type"] == "group_metadata":
            at_ms = round(row["kafka_timestamp"].timestamp() * 1_000)
            found.setdefault(row["group_id"], []).append(group_state(row, at_ms))
    return found


def _stretches(
    group_id: str, states: Iterable[SimulatedGroupState], generations: Iterable[dict[str, Any]]
) -> list[RebalanceStretch]:
    sampled = [(row.sampled_at_ms, row.state) for row in states if row.group_id == group_id and row.error is None]
    return rebalance_stretches(sampled, [row["started_at"] // 1_000 for row in generations])


def _decoded(batches: Iterable[Batch]) -> Iterator[dict[str, Any]]:
    for decoded in decode_batches(capture_table(batches).to_batches()):
        yield from decoded.select(
            ["group_id", "record_type", "kafka_offset", "kafka_timestamp", "is_tombstone", "record_json"]
        ).to_pylist()


# Ledgers with fewer sources


def only_topic(facts: GroupFacts) -> GroupFacts:
    """Returns the facts of a ledger that has imported no log, but has read the topic and has samples."""
    return replace(facts, requests=[], events=[])


def without_answers(facts: GroupFacts) -> GroupFacts:
    """Returns the facts of a ledger that has imported only a request log, from which the responses were removed."""
    stripped = [
        replace(
            request,
            error_code=None,
            response_member_id=None,
            response_generation=None,
            offsets=tuple(replace(each, error_code=None) for each in request.offsets),
            leaving=tuple(replace(each, error_code=None) for each in request.leaving),
        )
        for request in facts.requests
    ]
    return replace(facts, requests=stripped, events=[])


def with_losses(facts: GroupFacts, random: Random, share: float) -> GroupFacts:
    return replace(facts, requests=[request for request in facts.requests if random.random() >= share])
