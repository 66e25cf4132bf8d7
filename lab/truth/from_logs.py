"""Reads facts for the incident rules from the logs and records of a cluster, with the ledger's own parsers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.incidents.rules import Commit, CoordinatorEvent, GroupState, request_fact
from groupledger.transforms.incidents.rules.facts import TopicEnd, commit_steps
from groupledger.transforms.logs.rules.request_log import parse_request_line
from groupledger.transforms.logs.rules.server_log import entries, parse_entry
from groupledger.transforms.privacy import Privacy
from lab.truth.histories import Commit as CommitEntry
from lab.truth.made import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.coordinator.simulator.simulation import SimulatedWatermark
    from groupledger.transforms.incidents.rules import Request
    from lab.truth.histories import Entry


def request_facts(lines: Iterable[tuple[str, str]]) -> dict[str, list[Request]]:
    """Returns the requests by group. `lines` has pairs of a file's name and a line of a request log; the lines are
    numbered through all files."""
    found: dict[str, list[Request]] = {}
    for number, (source_file, line) in enumerate(lines, 1):
        row = parse_request_line(line, "UTC", Privacy()).row
        if row is not None and row["group_id"] is not None:
            times = {"happened_at_us": row["happened_at"], "logged_at_us": row["logged_at"]}
            fact = request_fact({**row, **times, "source_file": source_file, "line_number": number})
            found.setdefault(row["group_id"], []).append(fact)
    return found


def event_facts(lines: Iterable[str]) -> dict[str, list[CoordinatorEvent]]:
    """Returns the coordinator's events in the lines of a server log, by group."""
    found: dict[str, list[CoordinatorEvent]] = {}
    for entry in entries(enumerate(lines, 1)):
        row = parse_entry(entry, "UTC", Privacy())
        if isinstance(row, dict) and row["group_id"] is not None:
            names = ("kind", "generation", "member_id", "client_reason", "trigger", "reason")
            event = CoordinatorEvent(
                source_file="server.log",
                line_number=row["line_number"],
                logged_at_ms=row["logged_at"] // 1_000,
                **{name: row[name] for name in names},
                member_ids=row["member_ids"],
            )
            found.setdefault(row["group_id"], []).append(event)
    return found


def group_state(row: Mapping[str, Any], at_ms: int) -> GroupState:
    """Returns the GroupState of a decoded `group_metadata` record, for the replay of the group by the incident rules.
    Its `record_json` is None if the record is a tombstone."""
    return GroupState(row["kafka_offset"], at_ms, None if row["is_tombstone"] else row["record_json"])


def topic_ends(watermarks: Iterable[SimulatedWatermark]) -> dict[TopicPartition, list[TopicEnd]]:
    """Returns the sampled high watermarks of each partition, in the order of the samples."""
    found: dict[TopicPartition, list[TopicEnd]] = {}
    for row in watermarks:
        end = TopicEnd(row.sampled_at_ms, row.high_watermark)
        found.setdefault(TopicPartition(row.topic, row.partition), []).append(end)
    return found


def history_facts(
    kafka_partition: int,
    log: Iterable[Entry],
    rows: Mapping[str, Any],
    ends: Mapping[TopicPartition, Sequence[TopicEnd]] | None = None,
) -> dict[str, Any]:
    """Returns the fields of GroupFacts that come from a group's log, from its folded history, and from the sampled ends
    of its topics."""
    commits = [
        Commit(
            kafka_partition=kafka_partition,
            kafka_offset=each.kafka_offset,
            at_ms=each.kafka_timestamp_ms,
            topic=each.topic,
            partition=each.partition,
            offset=each.committed_offset,
        )
        for each in log
        if isinstance(each, CommitEntry) and each.committed_offset is not None
    ]
    tables = {name: rows[name] for name in ("generations", "rebalances", "members", "assignments")}
    return {**tables, "commits": commits, "steps": commit_steps(commits, RULES.commit_gap_ms, ends)}
