"""Reads a group's history once, to answer who owned each of its partitions at an instant, or at several."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import LAST_KNOWN, group_row, history_coverage, ownership_rows
from groupledger.transforms.history.rules.ownership_answer import generation_at, owners_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer
    from groupledger.transforms.history.rules.ownership_answer import OwnerAnswer

COLUMNS = ("topic", "partition", "status", "member_id", "client_id", "client_host", "group_instance_id", "since")
GENERATION_COLUMNS = (
    *("incarnation", "generation", "group_type", "protocol", "leader", "member_count", "kafka_offset", "to_offset"),
    *("started_at", "ended_at", "ended_by", "owned_count", "is_start_known", "is_ownership_known"),
)
MEMBER_COLUMNS = (
    *("incarnation", "member_id", "client_id", "client_host", "group_instance_id", "from_offset", "to_offset"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupHistory:
    """Holds the rows of one group. `group` is its row in `groups`; each other field has its rows in the table of the
    same name, and `coverage` those of its partition of `__consumer_offsets`. `assignments` include shared and reserved
    partitions."""

    group: Answer
    generations: list[Answer]
    members: list[Answer]
    assignments: list[Answer]
    coverage: list[Answer]

    @property
    def known_until(self) -> datetime | None:
        """The last instant at which the group's partition of `__consumer_offsets` is known; None if it is known at no
        instant."""
        return max((row["to_time"] - LAST_KNOWN for row in self.coverage if row["to_time"] is not None), default=None)

    def generation_at(self, at: datetime) -> Mapping[str, object] | None:
        return generation_at(self.generations, self.coverage, at)

    def members_at(self, at: datetime) -> list[Answer]:
        """Returns the members of the generation in force at an instant; empty if no such generation is known."""
        generation = generation_at(self.generations, self.coverage, at)
        if generation is None:
            return []
        stated_at, incarnation = generation["kafka_offset"], generation["incarnation"]
        return [
            row
            for row in self.members
            if row["incarnation"] == incarnation
            and row["from_offset"] <= stated_at
            and (row["to_offset"] is None or stated_at < row["to_offset"])
        ]

    def owners_at(self, at: datetime) -> dict[tuple[str, int], OwnerAnswer]:
        """Returns, by topic and partition, who owned each partition at an instant, for all partitions that the group
        ever owned."""
        places = sorted({(row["topic"], row["partition"]) for row in self.assignments})
        return owners_at(self.group, self.generations, self.assignments, self.coverage, places, at)


def read_history(tables: ClusterRows, name: str) -> GroupHistory:
    """Returns the history of a group. Raises UnknownNameError for a group without a row in the ledger."""
    (found,) = read_histories(tables, [group_row(tables, name)])
    return found


def read_histories(tables: ClusterRows, groups: Sequence[Answer]) -> Iterator[GroupHistory]:
    """Yields the history of each group, given by its row of `groups`, with one read of each table."""
    of_groups = ("group_id", "in", [group["group_id"] for group in groups])
    generations = by_group(tables.rows("generations", of_groups, columns=("group_id", *GENERATION_COLUMNS)))
    members = by_group(tables.rows("members", of_groups, columns=("group_id", *MEMBER_COLUMNS)))
    assignments = by_group(ownership_rows(tables, of_groups))
    coverage: defaultdict[int, list[Answer]] = defaultdict(list)
    for row in history_coverage(tables, *{group["kafka_partition"] for group in groups}):
        coverage[row["kafka_partition"]].append(row)
    for group in groups:
        name = group["group_id"]
        yield GroupHistory(
            group=group,
            generations=generations[name],
            members=members[name],
            assignments=assignments[name],
            coverage=coverage[group["kafka_partition"]],
        )


def by_group(rows: Iterable[Answer]) -> defaultdict[str, list[Answer]]:
    found: defaultdict[str, list[Answer]] = defaultdict(list)
    for row in rows:
        found[row.pop("group_id")].append(row)
    return found


def owner_rows(history: GroupHistory, at: datetime) -> Iterator[Answer]:
    """Yields who owned each partition of a group at an instant: one row, or one for each owner if several had the
    partition. If the partition is reserved, the row names the static member that is away."""
    members = {row["member_id"]: row for row in history.members_at(at)}
    for (topic, partition), answer in history.owners_at(at).items():
        found = {"topic": topic, "partition": partition, "status": answer.status}
        for member_id in answer.member_ids or (None,):
            member = members.get(member_id, {})
            yield {
                **found,
                "member_id": member_id,
                **{name: member.get(name) for name in ("client_id", "client_host", "group_instance_id")},
                "since": answer.interval and answer.interval["valid_from"],
            }


def owners_of(tables: ClusterRows, name: str, at: datetime | None) -> tuple[datetime | None, list[Answer]]:
    """Returns `at`, or else the last instant at which the group's log is known, and the rows of `owner_rows` at that
    instant. Returns None and no rows if no instant is known."""
    history = read_history(tables, name)
    at = at or history.known_until
    return at, [] if at is None else list(owner_rows(history, at))
