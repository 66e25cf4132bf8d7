"""`groupledger idle`: the groups whose committed offsets will expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import known_until, of_groups
from groupledger.jobs.ask.commits import commits_now
from groupledger.schemas.instants import LATEST_MS
from groupledger.transforms.offsets.rules.expiring_offsets import KEY_OF_RECORD, expiring_offsets

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

COLUMNS = (
    *("group_id", "group_type", "is_simple", "cause", "topic", "committed_partition_count"),
    *("last_commit_at", "idle_since", "offsets_expire_at"),
)
# Columns that a narrow terminal can leave out, in this order.
OPTIONAL = ("is_simple", "group_type", "committed_partition_count", "last_commit_at", "topic", "idle_since")
# The newest commit of each partition that has not been removed.
COMMITTED = """
WITH newest AS (
    SELECT group_id, topic, max_by(commit_log, kafka_offset) AS state
    FROM commit_log
    GROUP BY group_id, topic, partition
)
SELECT
    group_id,
    topic,
    CASE
        WHEN state.commit_timestamp_ms IS NULL THEN state.kafka_timestamp
        ELSE make_timestamptz(1000 * greatest(least(state.commit_timestamp_ms, $latest_ms), 0))
    END AS committed_at,
    CASE
        WHEN state.expire_timestamp_ms >= 0 THEN make_timestamptz(1000 * least(state.expire_timestamp_ms, $latest_ms))
    END AS expire_at
FROM newest
WHERE NOT state.is_tombstone
"""
RECORD_COLUMNS = ("group_id", "kafka_offset", "record_type", "is_tombstone", "decode_error", "record_json")


def idle(
    tables: ClusterRows, retention: timedelta, fraction: float, name: str | None = None
) -> tuple[datetime, list[Answer]]:
    """Returns the last instant that the ledger knows, and rows about the groups whose offsets will expire, or only
    about the group `name`; the earliest expiry comes first. `retention` is how long the brokers keep idle offsets.
    Offsets count if they have been idle for the part `fraction` of that time, or expire within what then remains of
    it."""
    as_of = known_until(tables)
    of: list[Filter] = [] if name is None else [("group_id", "=", name)]
    places = [] if name is None else of_groups(tables, name)
    records = tables.rows(
        "coordinator_records", *places, ("record_type", "in", [*KEY_OF_RECORD]), columns=RECORD_COLUMNS
    )
    found = expiring_offsets(
        groups=tables.rows("groups", *of),
        committed=tables.query(COMMITTED, {"latest_ms": LATEST_MS}, commit_log=commits_now(tables, *places)),
        generations=tables.rows("generations", *of, ("is_current", "=", True), ("member_count", "=", 0)),
        members=tables.rows("members", *of, ("is_open", "=", 1), columns=("group_id", "subscribed_topics")),
        records=(row for row in records if row["decode_error"] is None),
        as_of=as_of,
        idle_for=retention * fraction,
        retention=retention,
    )
    return as_of, found
