"""Provides what several questions need: common rows, and errors for unknown groups."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import InputError, UnknownNameError
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
    """Returns the group's row in `groups`. Raises InputError if it has none."""
    found = tables.rows("groups", ("group_id", "=", name))
    if not found:
        raise no_group(tables, name)
    return found[0]


def refuse_unknown(tables: ClusterRows, name: str) -> None:
    """Raises UnknownNameError for a group that has no row in `groups`, if there is a history."""
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
    """Returns whether a group without a row in `groups` is in another table. A new group is, until the history has
    folded its records."""
    return any(tables.rows_if_any(table, ("group_id", "=", name), columns=("group_id",)) for table in BESIDE_HISTORY)


def coverage_rows(tables: ClusterRows, *kafka_partitions: int) -> list[Answer]:
    return tables.rows("coverage", ("kafka_partition", "in", kafka_partitions))


def of_groups(tables: ClusterRows, *names: str) -> list[Filter]:
    """Returns filters for the records of groups. The history knows in which partition a group is, so files of sorted
    dates (`jobs.warehouse.sorted_dates`) that lack the partition are skipped."""
    filters: list[Filter] = [("group_id", "in", names)]
    known = tables.rows_if_any("groups", *filters, columns=("group_id", "kafka_partition"))
    if {row["group_id"] for row in known} == {*names}:
        filters.append(("kafka_partition", "in", sorted({row["kafka_partition"] for row in known})))
    return filters


def history_floor_ms(tables: ClusterRows) -> int | None:
    """Returns the time before which retention has removed ownership rows, or None if it has removed none."""
    return read_history_floor_ms(map(tables.properties, OWNER_TYPES), tables.small_files, tables.cluster)


def history_coverage(tables: ClusterRows, *kafka_partitions: int) -> list[Answer]:
    """Returns the rows of `coverage` whose `from_time` is not before the start of the history: retention may have
    removed rows of it, or records before it began."""
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
    """Returns the latest instant that the ledger knows: "now", for an answer about the present."""
    at = last_known(tables)
    if at is None:
        raise InputError("The ledger has not read any log to its end yet: run `groupledger ingest` again.")
    return at


def last_answered(tables: ClusterRows) -> datetime:
    """Returns the last instant at which the members are known: the log is known until just after that."""
    return known_until(tables) - LAST_KNOWN


def last_known(tables: ClusterRows, name: str | None = None) -> datetime | None:
    """Returns the instant until which the log is known, or the partition of the log that stores a group; None if it is
    not known at all, or the group is unknown."""
    groups = () if name is None else tables.rows("groups", ("group_id", "=", name), columns=("kafka_partition",))
    if not tables.exists("coverage") or (name is not None and not groups):
        return None
    of_partition = [("kafka_partition", "=", row["kafka_partition"]) for row in groups]
    ends = tables.rows("coverage", *of_partition, columns=("to_time",))
    return max((row["to_time"] for row in ends if row["to_time"] is not None), default=None)


def within(column: str, since: datetime | None, until: datetime | None) -> list[Filter]:
    """Returns filters for the rows whose instant lies in [since, until); None means no limit."""
    bounds = ((">=", since), ("<", until))
    return [(column, operation, at) for operation, at in bounds if at is not None]
