"""Provides what several questions need: common rows, and errors for unknown groups."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import NotWrittenError, UnknownNameError
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.retention import (
    above_floors,
    above_history_floor,
    read_beginnings,
    read_history_floor_ms,
)
from groupledger.schemas.words import MemberState
from groupledger.transforms.history.rules.never_seen import unseen_group
from groupledger.transforms.history.rules.reserved_ownership import reserved_ownership
from groupledger.transforms.history.rules.shared_ownership import shared_ownership

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

# The tables that may know a group before the history does.
BESIDE_HISTORY = ("coordinator_records", "group_states", "lag")
OWNER_TYPES = ("generations", "members", "assignments", "member_epochs")
# The end of a stretch that is known is not part of it.
LAST_KNOWN = timedelta(microseconds=1)
NO_HISTORY = "its history is not made yet: run `groupledger history`"


def group_row(tables: ClusterRows, name: str) -> Answer:
    """Returns the row of the group `name` in the table `groups`. Raises UnknownNameError if it has none."""
    found = tables.rows("groups", ("group_id", "=", name))
    if not found:
        raise no_group(tables, name)
    return found[0]


def refuse_unknown(tables: ClusterRows, name: str) -> None:
    """Raises UnknownNameError for a group that has no row in the table `groups`. Does nothing if that table does not
    exist, as before the first pass of the history."""
    if tables.exists("groups"):
        group_row(tables, name)


def no_group(tables: ClusterRows, name: str) -> UnknownNameError:
    """Returns the error for a group that has no row in `groups`, with the names nearest to it."""
    if is_without_history(tables, name):
        return UnknownNameError(f"The group {printable(name)} is known, but {NO_HISTORY}.")
    every = (row["group_id"] for row in tables.rows("groups", columns=("group_id",)))
    nearest = " or ".join(map(printable, unseen_group(name, every).nearest_names))
    remedy = f"did you mean {nearest}?" if nearest else "check the name, or run `groupledger ingest` and `history`."
    return UnknownNameError(
        f"The ledger of cluster {tables.cluster} knows nothing of the group {printable(name)}: {remedy}"
    )


def is_without_history(tables: ClusterRows, name: str) -> bool:
    """Returns whether one of the tables `BESIDE_HISTORY` has rows of a group. Call it for a group without a row in
    `groups`: a new group is in the other tables before the history has folded its records."""
    return any(tables.rows_if_any(table, ("group_id", "=", name), columns=("group_id",)) for table in BESIDE_HISTORY)


def coverage_rows(tables: ClusterRows, *kafka_partitions: int) -> list[Answer]:
    return tables.rows("coverage", ("kafka_partition", "in", kafka_partitions))


def of_groups(tables: ClusterRows, *names: str) -> list[Filter]:
    """Returns filters for the rows of `coordinator_records` about groups. If the history knows all of these groups, the
    filters also name their partitions of `__consumer_offsets`, so that files of sorted dates
    (`jobs.warehouse.sorted_dates`) without these partitions are skipped."""
    filters: list[Filter] = [("group_id", "in", names)]
    known = tables.rows_if_any("groups", *filters, columns=("group_id", "kafka_partition"))
    if {row["group_id"] for row in known} == {*names}:
        filters.append(("kafka_partition", "in", sorted({row["kafka_partition"] for row in known})))
    return filters


def history_floor_ms(tables: ClusterRows) -> int | None:
    """Returns the instant, in milliseconds since 1970, such that retention has removed rows of ownership that ended
    before it; None if it has removed none."""
    return read_history_floor_ms(map(tables.properties, OWNER_TYPES), tables.small_files, tables.cluster)


def history_coverage(tables: ClusterRows, *kafka_partitions: int) -> list[Answer]:
    """Returns the rows of `coverage` of these partitions, with no `from_time` before the start of the history. Before
    that start, retention has removed rows of the history, or had removed the records when the history began."""
    beginnings = read_beginnings(tables.properties("generations"), tables.cluster)
    return above_history_floor(
        above_floors(coverage_rows(tables, *kafka_partitions), beginnings), history_floor_ms(tables)
    )


def ownership_rows(tables: ClusterRows, *filters: Filter) -> list[Answer]:
    """Returns intervals of ownership in the form of `assignments`, including those of share groups and of partitions
    that are reserved for a member. Filters of topics and partitions have to be equalities."""
    return tables.rows("assignments", *filters) + held_otherwise(tables, *filters)


def held_otherwise(tables: ClusterRows, *filters: Filter) -> list[Answer]:
    """Returns only the intervals that `assignments` lacks: those of share groups, and those of reserved partitions."""
    shared = tables.rows_if_any("share_assignments", *filters)
    place = {name: value for name, _, value in filters if name in ("topic", "partition")}
    of_steps = [each for each in filters if each[0] not in place]
    away = tables.rows_if_any("member_epochs", ("state", "=", MemberState.AWAY), *of_steps)
    reserved = (row for row in reserved_ownership(away) if all(row[name] == place[name] for name in place))
    return [*shared_ownership(shared), *reserved]


def known_until(tables: ClusterRows) -> datetime:
    """Returns the latest instant until which the log is known. Answers about the present take it as "now". Raises
    NotWrittenError if no log was read to its end yet."""
    at = last_known(tables)
    if at is None:
        raise NotWrittenError("The ledger has not read any log to its end yet: run `groupledger ingest` again.")
    return at


def last_answered(tables: ClusterRows) -> datetime:
    """Returns the last instant at which the members are known. It lies just before `known_until`, since the end of a
    stretch is not part of the stretch. Raises NotWrittenError if no log was read to its end yet."""
    return known_until(tables) - LAST_KNOWN


def last_known(tables: ClusterRows, name: str | None = None) -> datetime | None:
    """Returns the instant until which `__consumer_offsets` is known or, with `name`, the partition of it that stores
    this group. Returns None if no instant is known, or if the group has no row in `groups`."""
    groups = () if name is None else tables.rows("groups", ("group_id", "=", name), columns=("kafka_partition",))
    if not tables.exists("coverage") or (name is not None and not groups):
        return None
    of_partition = [("kafka_partition", "=", row["kafka_partition"]) for row in groups]
    ends = tables.rows("coverage", *of_partition, columns=("to_time",))
    return max((row["to_time"] for row in ends if row["to_time"] is not None), default=None)


def topics_by_id(tables: ClusterRows) -> dict[str, str]:
    """Returns the known names of topics by their ids."""
    return {row["topic_id"]: row["topic"] for row in tables.rows_if_any("topic_names", columns=("topic_id", "topic"))}


def within(column: str, since: datetime | None, until: datetime | None) -> list[Filter]:
    """Returns filters for the rows whose instant lies in [since, until); None means no limit."""
    bounds = ((">=", since), ("<", until))
    return [(column, operation, at) for operation, at in bounds if at is not None]
