"""`groupledger idle`: the groups whose committed offsets will expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.tables import collect
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.transforms.history.expiring_offsets import expiring_offsets

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.warehouse.tables import ClusterTables

COLUMNS = (
    *("group_id", "group_type", "is_simple", "cause", "topic", "committed_partition_count"),
    *("last_commit_at", "idle_since", "offsets_expire_at"),
)


def idle(tables: ClusterTables, as_of: datetime, retention: timedelta, fraction: float) -> list[Answer]:
    """Returns the groups whose offsets will expire; what expires first comes first."""
    found = expiring_offsets(
        groups=tables.rows(GROUPS),
        generations=tables.rows(GENERATIONS),
        members=tables.rows(MEMBERS),
        coordinator_records=tables.rows(COORDINATOR_RECORDS),
        as_of=as_of,
        idle_for=retention * fraction,
        retention=retention,
    )
    return collect(found.drop("cluster").orderBy("offsets_expire_at", "group_id", "cause", "topic"))
