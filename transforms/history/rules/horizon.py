"""Makes the states from which a fold begins if older records are gone.

`state_before` is for a group that is folded again from a record in the middle of an incarnation. As after a hole in
coverage, the fold then knows no member, no owner and no generation. It knows only what was the same all the time: the
number of the incarnation, when the group was first seen, and which partitions have commits. These partitions come from
the state at the end, without times: the remaining records repeat each later commit and each later removal.

`state_of_rows` replaces a state that this version of groupledger can't read. It is made from the open rows of the
tables, so the commits are not known, and the next transition is a hole.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import GroupType
from groupledger.transforms.history.rules.events import MemberFacts
from groupledger.transforms.history.rules.modern_state import Reconciliation
from groupledger.transforms.history.rules.rows import open_group_row
from groupledger.transforms.history.rules.state import (
    OpenGeneration,
    OpenGroup,
    OpenOwnership,
    PartitionCommits,
    Tenure,
    UnknownStateError,
    load,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.transforms.history.rules.events import Coverage


@dataclass(frozen=True, slots=True)
class OpenRows:
    """The open rows of a group. Each field has the rows of the table with its name, as dicts by column with instants in
    microseconds. `assignments` includes the rows of `connect_assignments`, in the form of topic and partition."""

    group: Mapping[str, Any]
    generation: Mapping[str, Any] | None
    members: Iterable[Mapping[str, Any]]
    assignments: Iterable[Mapping[str, Any]]


def readable_state(state: str, rows: OpenRows, stretch: Coverage) -> OpenGroup:
    """Returns the group's state: the parsed text, or a state made from the group's open rows if this version can't read
    the text."""
    try:
        return load(state)
    except UnknownStateError:
        return state_of_rows(rows, stretch)


def state_before(old: OpenGroup, incarnation: int, kafka_offset: int, stretch: Coverage) -> dict[str, Any]:
    """Returns the row of `open_groups` from which a fold begins with the record at `kafka_offset`. `old` is the group's
    state at the end of the log, and `stretch` the stretch of coverage that contains the record."""
    commits = {unit: PartitionCommits(None, committed.committed_offset) for unit, committed in old.commits.items()}
    group = OpenGroup(
        group_id=old.group_id,
        kafka_partition=old.kafka_partition,
        first_kafka_offset=old.first_kafka_offset,
        last_kafka_offset=kafka_offset - 1,
        record_offset=kafka_offset - 1,
        coverage_offset=stretch.from_offset,
        completeness=stretch.completeness,
        incarnation=incarnation,
        is_alive=True,
        first_seen_ms=old.first_seen_ms,
        commits=commits,
    )
    return open_group_row(group)


def state_of_rows(rows: OpenRows, stretch: Coverage) -> OpenGroup:
    """Returns the group's state, made from its open rows. `stretch` is the stretch of coverage that contains the
    group's last record."""
    group = rows.group
    return OpenGroup(
        group_id=group["group_id"],
        kafka_partition=group["kafka_partition"],
        first_kafka_offset=group["first_kafka_offset"],
        last_kafka_offset=group["last_kafka_offset"],
        record_offset=group["last_kafka_offset"],
        coverage_offset=stretch.from_offset,
        completeness=stretch.completeness,
        incarnation=group["incarnation"],
        is_alive=group["is_alive"] is not False,
        ends_hidden_from=stretch.from_offset if group["is_alive"] is None else None,
        group_type=group["group_type"],
        number=group["generation"] if group["group_epoch"] is None else group["group_epoch"],
        first_seen_ms=millis(group["first_seen_at"]),
        last_seen_ms=millis(group["last_seen_at"]),
        last_commit_ms=millis(group["last_commit_at"]),
        last_memberless_commit_ms=millis(group["last_memberless_commit_at"]),
        generation=None if rows.generation is None else _generation(rows.generation),
        members={row["member_id"]: _tenure(row) for row in rows.members},
        owners={
            TopicPartition(row["topic"], row["partition"]): OpenOwnership(
                owners=(row["member_id"], *row["other_member_ids"]),
                from_generation=row["from_generation"],
                from_offset=row["from_offset"],
                valid_from_ms=row["valid_from"] // 1_000,
                is_start_known=row["is_start_known"],
            )
            for row in rows.assignments
        },
        reconciliation=None
        if group["group_type"] == GroupType.CLASSIC
        else Reconciliation(is_whole=False, group_type=group["group_type"]),
    )


def millis(microseconds: int | None) -> int | None:
    return None if microseconds is None else microseconds // 1_000


def _generation(row: Mapping[str, Any]) -> OpenGeneration:
    same = {each.name: row[each.name] for each in fields(OpenGeneration) if each.name in row}
    return OpenGeneration(
        **same | {"group_type": row["group_type"] or GroupType.CLASSIC},
        targeted_at_ms=millis(row["targeted_at"]),
        converged_at_ms=millis(row["converged_at"]),
        started_at_ms=row["started_at"] // 1_000,
        current_state_timestamp_ms=millis(row["current_state_at"]),
    )


def _tenure(row: Mapping[str, Any]) -> Tenure:
    facts = {each.name: row[each.name] for each in fields(MemberFacts) if each.name in row}
    topics = row["subscribed_topics"]
    return Tenure(
        facts=MemberFacts(**facts, topics=None if topics is None else tuple(topics)),
        from_generation=row["from_generation"],
        from_offset=row["from_offset"],
        joined_at_ms=row["joined_at"] // 1_000,
        is_start_known=row["is_start_known"],
        may_have_left=row["is_end_known"] is False,
        group_type=row["group_type"] or GroupType.CLASSIC,
    )
