"""Writes logs of one group, by hand or with a coordinator, and folds them into tables.

A log is a list of group-level events, single commits (`Commit`) and marks of coverage (`Coverage`). `summaries` turns a
part of it into the fold's input, as Spark does: it leaves out commits up to the offset `guard`, and sums up the commits
between two group-level events or marks, with separate sums before and after removals of offsets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import GroupType
from groupledger.transforms.history.rules.events import (
    CommitSums,
    Coverage,
    Event,
    GroupMember,
    GroupRecord,
    GroupTombstone,
    MemberFacts,
    OtherGroupType,
)
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.history.rules.modern_records import EpochRecord
from groupledger.transforms.history.rules.ownership_answer import owner_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.transforms.history.rules.ownership_answer import OwnerAnswer

GROUP = "g1"
KEYS = {
    "generations": ("incarnation", "generation", "revision"),
    "members": ("incarnation", "member_id", "from_offset"),
    "member_epochs": ("incarnation", "member_id", "from_offset"),
    "assignments": ("incarnation", "topic", "partition", "from_offset"),
    "connect_assignments": ("incarnation", "connector", "task", "from_offset"),
    "share_assignments": ("incarnation", "member_id", "topic", "partition", "from_offset"),
    "stream_tasks": ("incarnation", "member_id", "subtopology", "partition", "role", "from_offset"),
    "stream_topologies": ("incarnation", "topology_epoch", "from_offset"),
    "rebalances": ("incarnation", "to_generation"),
    "groups": (),
}
ALL_COMPLETE = (Coverage(0, "complete"),)


@dataclass(frozen=True)
class Commit:
    """A record of one offset commit. If `committed_offset` is None, the record is a tombstone."""

    kafka_offset: int
    kafka_timestamp_ms: int
    topic: str
    partition: int
    committed_offset: int | None


Entry: TypeAlias = GroupRecord | GroupTombstone | OtherGroupType | Commit | Coverage


def position(entry: Entry) -> tuple[int, bool]:
    """Returns the key by which entries of a log are sorted. A mark of coverage comes before the entry at its offset."""
    return (entry.from_offset, False) if isinstance(entry, Coverage) else (entry.kafka_offset, True)


def summaries(log: Iterable[Entry], guard: int = -1) -> list[Event]:
    events: list[Event] = []
    commits: dict[tuple[str, int], list[Commit]] = {}

    def flush() -> None:
        # Sorted by partition and not by time: the fold needs no order between two events.
        events.extend(summary(commits[place]) for place in sorted(commits, reverse=True))
        commits.clear()

    is_behind_removals = False
    for entry in log:
        if isinstance(entry, Commit):
            is_removal = entry.committed_offset is None
            if is_behind_removals and not is_removal:
                flush()
            is_behind_removals = is_removal
            if entry.kafka_offset > guard:
                commits.setdefault((entry.topic, entry.partition), []).append(entry)
        else:
            flush()
            events.append(entry)
    flush()
    return events


def summary(commits: Sequence[Commit]) -> CommitSums:
    made = [(commit, commit.committed_offset) for commit in commits if commit.committed_offset is not None]
    return CommitSums(
        commits[0].topic,
        commits[0].partition,
        commits[0].kafka_offset,
        commits[-1].kafka_offset,
        len(made),
        made[0][0].kafka_timestamp_ms if made else None,
        made[-1][0].kafka_timestamp_ms if made else None,
        made[0][1] if made else None,
        made[-1][1] if made else None,
        commits[-1].committed_offset is None,
    )


@dataclass
class Tables:
    """Holds the rows of one group's tables by key, after all upserts, and the group's row of `open_groups`."""

    rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = field(default_factory=lambda: {name: {} for name in KEYS})
    open_group: dict[str, Any] | None = None

    def take(self, log: Sequence[Entry]) -> None:
        guard = -1 if self.open_group is None else self.open_group["last_kafka_offset"]
        state = None if self.open_group is None else self.open_group["state"]
        folded = fold(GROUP, 3, state, summaries(log, guard))
        assert set(folded.rows) == set(KEYS)
        for table, rows in folded.rows.items():
            for row in rows:
                self.rows[table][tuple(row[column] for column in KEYS[table])] = row
        self.open_group = folded.open_group

    def table(self, name: str) -> list[dict[str, Any]]:
        return [row for _, row in sorted(self.rows[name].items())]

    @property
    def group(self) -> dict[str, Any]:
        return self.rows["groups"][()]

    def changes(self, to_generation: int, incarnation: int = 1) -> Any:
        return self.rows["rebalances"][incarnation, to_generation]["changes"]

    def kinds(self, to_generation: int, incarnation: int = 1) -> list[str]:
        return sorted(change["kind"] for change in self.changes(to_generation, incarnation))

    def owner(self, coverage: Sequence[Mapping[str, Any]], topic: str, partition: int, at_ms: int) -> OwnerAnswer:
        rows = self.table("generations"), self.table("assignments")
        return owner_at(self.group, *rows, coverage, topic, partition, at_ms * 1_000)


def folded(log: Sequence[Entry], marks: Sequence[Coverage] = ALL_COMPLETE) -> Tables:
    tables = Tables()
    tables.take(sorted([*marks, *log], key=position))
    return tables


def stretch(from_offset: int, to_offset: int, times_ms: tuple[int, int] | None, completeness: str) -> dict[str, Any]:
    """Returns a row of `coverage`, with its times in microseconds, as the fold's rows have them."""
    from_ms, to_ms = times_ms or (None, None)
    return {
        "from_offset": from_offset,
        "to_offset": to_offset,
        "from_time": None if from_ms is None else from_ms * 1_000,
        "to_time": None if to_ms is None else to_ms * 1_000,
        "completeness": completeness,
    }


def everything(until_ms: int = 10**12) -> list[dict[str, Any]]:
    return [stretch(0, 10**9, (0, until_ms), "complete")]


def member(member_id: str, *assigned: int, **options: Any) -> GroupMember:
    """Returns a member of a classic consumer group to which these partitions of `orders` are assigned.

    The option `units` has assigned partitions of other topics, and `owned` the partitions of `orders` that the member
    reports to own. With `is_readable=False` the assignment can't be read. Other options are fields of MemberFacts.
    """
    units = [TopicPartition("orders", number) for number in assigned]
    units += options.pop("units", ())
    owned = tuple(TopicPartition("orders", number) for number in options.pop("owned", ()))
    is_readable = options.pop("is_readable", True)
    facts = {
        "group_instance_id": None,
        "client_id": f"client of {member_id}",
        "client_host": "/10.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 300_000,
        "topics": ("orders",),
        "assignment_error": None if is_readable else "cut off",
        **options,
    }
    return GroupMember(MemberFacts(member_id=member_id, **facts), owned, tuple(units) if is_readable else None)


class Log:
    """Builds a log: each entry takes the next offset and, in general, comes one second after the one before. `wait`
    makes the next entry later."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.offset = 0
        self.now_ms = 0

    def wait(self, milliseconds: int) -> Log:
        self.now_ms += milliseconds
        return self

    def _next(self, step_ms: int = 1_000) -> tuple[int, int]:
        self.offset += 1
        self.now_ms += step_ms
        return self.offset, self.now_ms

    def record(self, generation: int, *members: GroupMember, same_time: bool = False, **options: Any) -> Log:
        offset, now_ms = self._next(0 if same_time else 1_000)
        leader = members[0].facts.member_id if members else None
        fields = {
            "protocol_type": "consumer",
            "protocol": "range" if members else None,
            "leader": leader,
            "current_state_timestamp_ms": now_ms - 10,
            **options,
        }
        self.entries.append(GroupRecord(offset, now_ms, generation, members=members, **fields))
        return self

    def birth(self) -> Log:
        return self.record(0, protocol_type="")

    def tombstone(self) -> Log:
        self.entries.append(GroupTombstone(*self._next()))
        return self

    def other(self, group_type: str, epoch: int | None = None, *, same_time: bool = False, gone: bool = False) -> Log:
        offset, now_ms = self._next(0 if same_time else 1_000)
        content = None if epoch is None or group_type != GroupType.CONSUMER else EpochRecord(epoch, metadata_hash=0)
        self.entries.append(OtherGroupType(offset, now_ms, group_type, epoch, gone, gone, content))
        return self

    def removed(self, group_type: str) -> Log:
        """Adds the tombstone of a member or a topology, at the time of the record before."""
        self.entries.append(OtherGroupType(*self._next(0), group_type, is_tombstone=True))
        return self

    def commit(self, *partitions: int, at: int | None = 5, topic: str = "orders") -> Log:
        """Adds a commit for each of these partitions, all at the present time. `at` is the committed offset, or None
        for a tombstone."""
        for partition in partitions:
            self.entries.append(Commit(*self._next(0), topic, partition, at))
        return self

    def commits(self, *partitions: int, every_ms: int, times: int, first: int = 10) -> Log:
        for number in range(times):
            self.wait(every_ms).commit(*partitions, at=first + number)
        return self

    def mark(self, completeness: str, *, is_state_lost: bool = False, has_all_records: bool = False) -> Log:
        self.entries.append(Coverage(self.offset + 1, completeness, is_state_lost, has_all_records))
        return self
