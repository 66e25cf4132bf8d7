"""`groupledger share`: the position of a share group in each partition, in the newest pass or the last one by an
instant.

The first columns are those of `kafka-share-groups --describe --offsets`, with its names; then ours. Records that were
delivered at least a given number of times, and still wait to be delivered again, are those that the group can't
process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.answers import topics_by_id, within
from groupledger.jobs.ask.rounds import last_round, of_round
from groupledger.jobs.process.errors import NotWrittenError, UnknownNameError
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.wire.share_state import SHARE_UPDATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

# Heading of the table, and column of the answer.
COLUMNS = {
    "GROUP": "group_id",
    "TOPIC": "topic",
    "PARTITION": "partition",
    "START-OFFSET": "start_offset",
    "LAG": "lag",
    "BROKER-LAG": "broker_lag",
    "WAITING-AGAIN": "available_count",
    "DELIVERIES-MAX": "delivery_count_max",
    "REDELIVERED": "redelivered",
    "ACKNOWLEDGED": "acknowledged",
    "ARCHIVED": "archived",
}
OPTIONAL = ("ARCHIVED", "ACKNOWLEDGED", "DELIVERIES-MAX", "BROKER-LAG")
TABLE = "share_partitions"
STANDING = ("topic", "partition", "start_offset", "high_watermark", "lag")
PASS_COLUMNS = (*STANDING, "sampled_at", "delivery_complete_count")
DELIVERY_COLUMNS = ("kafka_timestamp", "topic_id", "partition", "state_batches")
LAG_ROUNDS = """
SELECT sampled_at, sum(lag) AS lag_sum, count(*) FILTER (lag IS NULL) AS partitions_without_lag
FROM rows
GROUP BY sampled_at
ORDER BY sampled_at
"""


def share_partitions(
    tables: ClusterRows, name: str, at: datetime | None, deliveries_min: int
) -> tuple[datetime, list[Answer]]:
    """Returns the instant of the newest pass, or of the last one at or before `at`, and the group's rows in it. Each
    row has the ranges `redelivered`: those that are available again after at least `deliveries_min` deliveries. Raises
    NotWrittenError if there was no such pass, UnknownNameError if the pass saw no such share group."""
    sampled_at = last_round(tables, TABLE, at)
    if sampled_at is None:
        raise NotWrittenError(
            f"The ledger of cluster {tables.cluster} has no state of share groups up to that time: run `groupledger"
            " pipeline --bootstrap-servers`."
        )
    rows = tables.rows(TABLE, *of_round(sampled_at), ("group_id", "=", name))
    if not rows:
        others = {row["group_id"] for row in tables.rows(TABLE, *of_round(sampled_at), columns=("group_id",))}
        raise UnknownNameError(
            f"The ledger of cluster {tables.cluster} has no state of a share group {printable(name)} at that time; it"
            f" has those of {', '.join(sorted(map(printable, others))[:5])}."
        )
    for row in rows:
        row["redelivered"] = [each for each in row["available"] if each["delivery_count"] >= deliveries_min]
    return sampled_at, sorted(rows, key=lambda row: (row["topic"], row["partition"]))


def share_standing(tables: ClusterRows, name: str, at: datetime) -> tuple[datetime | None, list[Answer]]:
    """Returns the instant of the last pass at or before `at`, None if there was none, and the rows of the group `name`
    in that pass."""
    sampled_at = last_round(tables, TABLE, at) if tables.exists(TABLE) else None
    return sampled_at, [] if sampled_at is None else tables.rows(
        TABLE, *of_round(sampled_at), ("group_id", "=", name), columns=STANDING
    )


def share_lag_rounds(tables: ClusterRows, name: str, since: datetime, until: datetime) -> list[Answer]:
    """Returns the number of records that are still to be processed, summed up for each pass within [since, until), in
    the order of time."""
    days: list[Filter] = [("sample_date", ">=", since.date()), ("sample_date", "<=", until.date())]
    rows = tables.scan_if_any(
        TABLE, *days, *within("sampled_at", since, until), ("group_id", "=", name), columns=("sampled_at", "lag")
    )
    return tables.query(LAG_ROUNDS, rows=rows)


def share_passes(tables: ClusterRows, name: str, since: datetime, until: datetime | None) -> list[Answer]:
    """Returns the rows of the group `name` in all passes within [since, until), in no order."""
    days: Filter = ("sample_date", ">=", since.date())
    return tables.rows_if_any(
        TABLE, days, *within("sampled_at", since, until), ("group_id", "=", name), columns=PASS_COLUMNS
    )


def share_deliveries(tables: ClusterRows, name: str, since: datetime, until: datetime | None) -> list[Answer]:
    """Returns the changed batches of the group's state that brokers wrote within [since, until), with their instant.
    Snapshots, which repeat batches, are left out. A topic whose name is not known has its id for a name."""
    records = tables.rows_if_any(
        "share_state_records",
        ("group_id", "=", name),
        ("record_type", "=", SHARE_UPDATE.record_type),
        *within("kafka_timestamp", since, until),
        columns=DELIVERY_COLUMNS,
    )
    topics = topics_by_id(tables)
    return [
        {
            **batch,
            "topic": topics.get(record["topic_id"]) or record["topic_id"],
            "partition": record["partition"],
            "happened_at": record["kafka_timestamp"],
        }
        for record in records
        for batch in record["state_batches"] or ()
    ]


def cells(row: Answer) -> list[Any]:
    """Returns the columns that the table shows: `4-7 (3)` is a range of offsets that was delivered three times."""
    return [_ranges(row[name]) if isinstance(row[name], list) else row[name] for name in COLUMNS.values()]


def _ranges(ranges: Iterable[Mapping[str, int]]) -> str:
    return ", ".join(f"{_offsets(each)} ({each['delivery_count']})" for each in ranges)


def _offsets(one: Mapping[str, int]) -> str:
    first, last = one["first_offset"], one["last_offset"]
    return f"{first}" if first == last else f"{first}-{last}"
