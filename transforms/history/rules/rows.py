"""Makes the rows of the history tables: dicts by column, without `cluster`.

Instants are microseconds since the epoch, which is what Arrow's timestamp[us] takes. A row that a later event of the
same fold changes is replaced: each key is written once, in its last form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import GroupType, MemberState
from groupledger.transforms.history.rules.events import CONNECT
from groupledger.transforms.history.rules.modern_records import STABLE, UNRELEASED, UNREVOKED
from groupledger.transforms.history.rules.modern_state import by_topic
from groupledger.transforms.history.rules.state import dump

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.schemas.kafka.topic_partition import TopicPartition
    from groupledger.transforms.history.rules.modern_state import MemberAssignment, Topology
    from groupledger.transforms.history.rules.state import (
        OpenGeneration,
        OpenGroup,
        OpenOwnership,
        OpenRebalance,
        Tenure,
    )

TABLES = (
    *("generations", "members", "member_epochs", "assignments", "connect_assignments", "share_assignments"),
    *("stream_tasks", "stream_topologies", "rebalances", "groups"),
)

_MEMBER_STATES = {
    STABLE: MemberState.STABLE,
    UNREVOKED: MemberState.UNREVOKED,
    UNRELEASED: MemberState.UNRELEASED,
}


def micros(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds * 1_000


class HistoryRows:
    """Holds the rows of one group to upsert, by table and by key. The keys leave out the group's id, which all rows
    share."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {table: {} for table in TABLES}

    def put(self, table: str, key: tuple[Any, ...], row: dict[str, Any]) -> None:
        self._tables[table][key] = row

    def by_table(self) -> dict[str, list[dict[str, Any]]]:
        return {table: list(rows.values()) for table, rows in self._tables.items()}


@dataclass(frozen=True, slots=True)
class IntervalEnd:
    """The end of an interval: at the record with this offset and time, or before it if the end is not known."""

    kafka_offset: int
    at_ms: int
    is_known: bool


def put_generation(
    rows: HistoryRows, group: OpenGroup, generation: OpenGeneration, end: IntervalEnd | None = None
) -> None:
    rows.put(
        "generations",
        (group.incarnation, generation.generation, generation.revision),
        {
            "group_id": group.group_id,
            "incarnation": group.incarnation,
            "generation": generation.generation,
            "revision": generation.revision,
            "group_type": generation.group_type,
            "kafka_partition": group.kafka_partition,
            "kafka_offset": generation.kafka_offset,
            "to_offset": end and end.kafka_offset,
            "protocol_type": generation.protocol_type,
            "protocol": generation.protocol,
            "leader": generation.leader,
            "member_count": generation.member_count,
            "owned_count": generation.owned_count,
            "started_at": micros(generation.started_at_ms),
            "targeted_at": micros(generation.targeted_at_ms),
            "converged_at": micros(generation.converged_at_ms),
            "ended_at": micros(None if end is None else end.at_ms),
            "is_current": end is None,
            "is_start_known": generation.is_start_known,
            "is_end_known": end and end.is_known,
            "ended_by": generation.ended_by,
            "generation_gap": generation.generation_gap,
            "is_ownership_known": generation.is_ownership_known,
            "current_state_at": micros(generation.current_state_timestamp_ms),
            "changes": generation.changes,
            "finding": generation.finding,
        },
    )


def put_member(
    rows: HistoryRows,
    group: OpenGroup,
    tenure: Tenure,
    end: IntervalEnd | None = None,
    *,
    to_generation: int | None = None,
    cause: tuple[str | None, float | None] = (None, None),
) -> None:
    facts = tenure.facts
    rows.put(
        "members",
        (group.incarnation, facts.member_id, tenure.from_offset),
        {
            "group_id": group.group_id,
            "incarnation": group.incarnation,
            "member_id": facts.member_id,
            "group_type": tenure.group_type,
            "is_classic": facts.is_classic,
            "group_instance_id": facts.group_instance_id,
            "client_id": facts.client_id,
            "client_host": facts.client_host,
            "rack_id": facts.rack_id,
            "session_timeout_ms": facts.session_timeout_ms,
            "rebalance_timeout_ms": facts.rebalance_timeout_ms,
            "subscribed_topics": None if facts.topics is None else list(facts.topics),
            "subscribed_regex": facts.subscribed_regex,
            "server_assignor": facts.server_assignor,
            "process_id": facts.process_id,
            "topology_epoch": facts.topology_epoch,
            "subscription_error": facts.subscription_error,
            "assignment_error": facts.assignment_error,
            "from_generation": tenure.from_generation,
            "to_generation": to_generation,
            "from_offset": tenure.from_offset,
            "to_offset": end and end.kafka_offset,
            "joined_at": micros(tenure.joined_at_ms),
            "left_at": micros(None if end is None else end.at_ms),
            "is_start_known": tenure.is_start_known,
            "is_end_known": end.is_known if end is not None else False if tenure.may_have_left else None,
            "leave_cause": cause[0],
            "leave_cause_confidence": cause[1],
        },
    )


def put_step(
    rows: HistoryRows, group: OpenGroup, member_id: str, step: MemberAssignment, end: IntervalEnd | None = None
) -> None:
    """Writes a member's step towards its target, a row of `member_epochs`."""
    current = step.current
    rows.put(
        "member_epochs",
        (group.incarnation, member_id, step.from_offset),
        {
            "group_id": group.group_id,
            "incarnation": group.incarnation,
            "member_id": member_id,
            "from_offset": step.from_offset,
            "to_offset": end and end.kafka_offset,
            "member_epoch": current.member_epoch,
            "previous_member_epoch": current.previous_member_epoch,
            "state": MemberState.AWAY if current.is_away else _MEMBER_STATES.get(current.state, MemberState.UNKNOWN),
            "assigned": _topics(current.assigned),
            "pending_revocation": _topics(current.pending),
            "names_assignment_epochs": current.names_assignment_epochs,
            "target": _topics(step.target),
            "waits_for": [
                {"topic": topic, "partition": number, "held_by": holder} for (topic, number), holder in step.waits_for
            ],
            "targeted_at": micros(step.targeted_at_ms),
            "valid_from": micros(step.valid_from_ms),
            "valid_to": micros(None if end is None else end.at_ms),
            "is_end_known": end and end.is_known,
        },
    )


def _topics(units: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": numbers} for topic, numbers in sorted(by_topic(units).items())]


def put_intervals(
    rows: HistoryRows,
    group: OpenGroup,
    intervals: Iterable[tuple[TopicPartition, OpenOwnership]],
    end: IntervalEnd | None = None,
    to_generation: int | None = None,
    scheduled_delay_ms: int | None = None,
) -> None:
    """Puts intervals of ownership into the table of the present generation's protocol type. The owners must be among
    the group's members. `scheduled_delay_ms` is how long Connect leaves the tasks of an ended interval unassigned."""
    is_connect = group.generation is not None and group.generation.protocol_type == CONNECT
    table = "connect_assignments" if is_connect else "assignments"
    name_column, number_column = ("connector", "task") if is_connect else ("topic", "partition")
    for (name, number), interval in intervals:
        owner = group.members[interval.owners[0]].facts
        rows.put(
            table,
            (group.incarnation, name, number, interval.from_offset),
            {
                "group_id": group.group_id,
                "incarnation": group.incarnation,
                name_column: name,
                number_column: number,
                "from_offset": interval.from_offset,
                "to_offset": end and end.kafka_offset,
                "member_id": owner.member_id,
                "other_member_ids": list(interval.owners[1:]),
                "group_instance_id": owner.group_instance_id,
                "client_id": owner.client_id,
                "from_generation": interval.from_generation,
                "to_generation": to_generation,
                "valid_from": micros(interval.valid_from_ms),
                "valid_to": micros(None if end is None else end.at_ms),
                "is_start_known": interval.is_start_known,
                "is_end_known": end and end.is_known,
                **({"scheduled_delay_ms": scheduled_delay_ms} if is_connect else {}),
            },
        )


def put_rebalance(rows: HistoryRows, rebalance: OpenRebalance, pauses: dict[str, Any]) -> None:
    row = rebalance.row | pauses
    rows.put("rebalances", (row["incarnation"], row["to_generation"]), row)


def put_group(rows: HistoryRows, group: OpenGroup) -> None:
    # The columns as they were at the epoch's beginning, not as they are now.
    is_modern = group.group_type != GroupType.CLASSIC
    now = group.generation if group.generation is not None and group.generation.ended_by is None else None
    is_alive = group.is_alive and group.ending is None
    is_known = not is_alive or group.ends_hidden_from is None
    rows.put(
        "groups",
        (),
        {
            "group_id": group.group_id,
            "kafka_partition": group.kafka_partition,
            "group_type": group.group_type,
            "is_alive": is_alive if is_known else None,
            "is_simple": group.is_simple if is_known else None,
            "incarnation": group.incarnation,
            "generation": now and now.generation,
            "revision": now and now.revision,
            "group_epoch": None if group.group_type == GroupType.CLASSIC else group.number,
            "protocol_type": now and now.protocol_type,
            "protocol": now and now.protocol,
            "leader": now and now.leader,
            "member_count": now and (len(group.members) if is_modern else now.member_count),
            "owned_count": now and (_owned_count(group) if is_modern else now.owned_count),
            "committed_partition_count": len(group.commits) if is_known else None,
            "first_seen_at": micros(group.first_seen_ms),
            "last_seen_at": micros(group.last_seen_ms),
            "last_commit_at": micros(group.last_commit_ms),
            "last_memberless_commit_at": micros(group.last_memberless_commit_ms),
            "first_kafka_offset": group.first_kafka_offset,
            "last_kafka_offset": group.last_kafka_offset,
        },
    )


def _owned_count(group: OpenGroup) -> int:
    """Returns how many partitions the members of a group of KIP-848's kind have; those of a share group have some of
    them together."""
    state = group.reconciliation
    if state is None or state.group_type != GroupType.SHARE:
        return len(group.owners)
    return len({held for of_member in state.holdings.values() for held in of_member})


def put_topology(rows: HistoryRows, group: OpenGroup, topology: Topology, end: IntervalEnd | None = None) -> None:
    rows.put(
        "stream_topologies",
        (group.incarnation, topology.epoch, topology.from_offset),
        {
            "group_id": group.group_id,
            "incarnation": group.incarnation,
            "topology_epoch": topology.epoch,
            "from_offset": topology.from_offset,
            "to_offset": end and end.kafka_offset,
            "subtopologies": topology.subtopologies,
            "valid_from": micros(topology.valid_from_ms),
            "valid_to": micros(None if end is None else end.at_ms),
            "is_end_known": end and end.is_known,
        },
    )


def open_group_row(group: OpenGroup) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "kafka_partition": group.kafka_partition,
        "last_kafka_offset": group.last_kafka_offset,
        "coverage_offset": group.coverage_offset,
        "state": dump(group),
    }
