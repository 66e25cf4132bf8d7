"""Groups of the simulator with planted faults, and clean ones: their facts, by way of the bytes that a ledger reads.

The requests are lines of a request log, the events lines of a server log, the history is folded from the capture; all
through the ledger's own parsers. `MIX` is one simulation with a group of each kind, at the pace of a long day.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator.config import Config
from coordinator.log_lines import render_line as render_server_line
from coordinator.simulator.request_log import render_line as render_request_line
from coordinator.simulator.run import prepare
from coordinator.simulator.scenarios import Scenario
from coordinator.simulator.simulation import BEGAN_AT_MS, Settings
from jobs.simulate import capture_table
from tests.transforms.history.histories import Commit as CommitEntry
from tests.transforms.history.simulated import PLAYED, Group, groups_in, ledger_of
from transforms.decode import decode_batches
from transforms.incident_rules import Commit, CoordinatorEvent, GroupFacts, GroupState, Rules, request_fact
from transforms.incident_rules.facts import commit_steps
from transforms.logs.privacy import Privacy
from transforms.logs.request_log import parse_request_line
from transforms.logs.server_log import entries, parse_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from coordinator.operation import Batch
    from coordinator.simulator.scenarios.script import Script
    from coordinator.simulator.simulation import Outputs
    from transforms.incident_rules import Request

RULES = Rules()
HOUR_MS = 3_600_000
CLEAN = (
    *("scale-out", "scale-in", "rolling-restart", "rolling-restart-static", "subscription-change"),
    *("partitions-added", "protocol-upgrade"),
)
FAULTS = (
    *("crash", "long-gc", "slow-processing", "zombie-commits", "flapping-member", "leader-loss", "admin-reset"),
    "transactional-commits",
)
# In these a broker crashes, and takes the coordinators of other groups of the simulation with it.
FAILOVERS = ("coordinator-failover", "mixed", "mixed", "mixed")
# A fifth of the requests of Kafka's defaults; commits and heartbeats are still frequent enough within a session.
PACE = {"heartbeat_interval_ms": 12_000, "auto_commit_interval_ms": 10_000}
PROCESSING_MS = (4_000, 12_000)


def _play(names: tuple[str, ...], group: Script) -> None:
    group.pace, group.processing_ms = PACE, PROCESSING_MS
    PLAYED[names[group.number]].play(group)


def mix(*names: str) -> Scenario:
    """One group of each; only scenarios with Kafka's own settings of a broker."""
    hours = max(PLAYED[name].hours for name in names)
    return Scenario("mix", "", partial(_play, names), hours=hours, settings=Settings(Config()), groups=len(names))


@dataclass(frozen=True)
class Played:
    """A group, what it played, and all that a ledger with both logs has of it."""

    name: str
    group: Group
    facts: GroupFacts


def play(*names: str, seed: int) -> list[Played]:
    scenario = mix(*names)
    simulation = prepare(scenario, seed)
    simulation.run(BEGAN_AT_MS + round(scenario.hours * HOUR_MS))
    outputs = simulation.take(is_last=True)
    requests, events, records = _requests(outputs), _events(outputs), _records(outputs.batches)
    return [
        Played(
            names[int(group.group_id.rpartition("-")[2])],
            group,
            _facts(
                group,
                requests.get(group.group_id, []),
                events.get(group.group_id, []),
                records.get(group.group_id, []),
            ),
        )
        for group in groups_in(simulation, outputs.batches)
    ]


def _facts(
    group: Group, requests: list[Request], events: list[CoordinatorEvent], records: list[GroupState]
) -> GroupFacts:
    rows = ledger_of(group).rows
    commits = [
        Commit(
            group.kafka_partition,
            each.kafka_offset,
            each.kafka_timestamp_ms,
            each.topic,
            each.partition,
            each.committed_offset,
        )
        for each in group.log
        if isinstance(each, CommitEntry) and each.committed_offset is not None
    ]
    return GroupFacts(
        group.group_id,
        group.until_ms,
        requests,
        events,
        rows["generations"],
        rows["rebalances"],
        rows["members"],
        rows["assignments"],
        commits,
        commit_steps(commits, RULES.commit_gap_ms),
        records,
    )


def _requests(outputs: Outputs) -> dict[str, list[Request]]:
    found: dict[str, list[Request]] = {}
    for number, exchange in enumerate(outputs.exchanges, 1):
        row = parse_request_line(render_request_line(exchange), "UTC", Privacy()).row
        if row is not None and row["group_id"] is not None:
            times = {"happened_at_us": row["happened_at"], "logged_at_us": row["logged_at"]}
            where = {"source_file": f"kafka-request-{exchange.broker_id}.log", "line_number": number}
            found.setdefault(row["group_id"], []).append(request_fact({**row, **times, **where}))
    return found


def _events(outputs: Outputs) -> dict[str, list[CoordinatorEvent]]:
    found: dict[str, list[CoordinatorEvent]] = {}
    lines = [render_server_line(event, broker_id=broker) for broker, event in outputs.events]
    for entry in entries(enumerate(lines, 1)):
        row = parse_entry(entry, "UTC", Privacy())
        if isinstance(row, dict) and row["group_id"] is not None:
            found.setdefault(row["group_id"], []).append(
                CoordinatorEvent(
                    "server.log",
                    row["line_number"],
                    row["logged_at"] // 1_000,
                    row["kind"],
                    row["generation"],
                    row["member_id"],
                    row["client_reason"],
                    row["trigger"],
                )
            )
    return found


def _records(batches: Iterable[Batch]) -> dict[str, list[GroupState]]:
    found: dict[str, list[GroupState]] = {}
    for row in _decoded(batches):
        if row["record_type"] == "group_metadata":
            at_ms = round(row["kafka_timestamp"].timestamp() * 1_000)
            state = GroupState(row["kafka_offset"], at_ms, None if row["is_tombstone"] else row["record_json"])
            found.setdefault(row["group_id"], []).append(state)
    return found


def _decoded(batches: Iterable[Batch]) -> Iterator[dict[str, Any]]:
    for decoded in decode_batches(capture_table(batches).to_batches()):
        yield from decoded.select(
            ["group_id", "record_type", "kafka_offset", "kafka_timestamp", "is_tombstone", "record_json"]
        ).to_pylist()


# What a ledger may lack


def only_topic(facts: GroupFacts) -> GroupFacts:
    """No log was imported."""
    return replace(facts, requests=[], events=[])


def only_requests(facts: GroupFacts) -> GroupFacts:
    return replace(facts, events=[])


def without_answers(facts: GroupFacts) -> GroupFacts:
    """The request log alone, and of it the requests only."""
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
