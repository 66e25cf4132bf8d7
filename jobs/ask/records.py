"""`groupledger records`: what was decoded, in log order; as JSON in the form of Kafka's DumpLogSegments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from groupledger.jobs.process.output import print_json
from groupledger.jobs.process.terminal import print_table
from groupledger.schemas.codec.json_form import to_json_form
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.transforms.records.decoded_record import record_of_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.warehouse.tables import ClusterTables

COLUMNS = (
    *("kafka_partition", "kafka_offset", "record_type", "value_version", "is_tombstone", "group_id", "offset_commit"),
    *("record_json", "decode_error", "decode_error_detail"),
)


def records(tables: ClusterTables, *, group: str | None, limit: int | None) -> Iterator[Answer]:
    """Yields a dict for each row of the cluster: partition, offset, and key and value or the error of a row kept
    undecoded. With `limit`, only the last rows of the log's order.
    """
    rows = tables.rows(COORDINATOR_RECORDS) if group is None else tables.rows_of_group(COORDINATOR_RECORDS, group)
    order = ["kafka_partition", "kafka_offset"]
    rows = rows.select(*COLUMNS)
    if limit is not None:
        rows = rows.orderBy(*[F.desc(name) for name in order]).limit(limit)
    for row in rows.orderBy(*order).toLocalIterator():
        yield shown(row.asDict(recursive=True))


def shown(row: dict[str, Any]) -> dict[str, Any]:
    position = {"partition": row["kafka_partition"], "offset": row["kafka_offset"]}
    if row["decode_error"] is not None:
        return position | {"error": row["decode_error"], "detail": row["decode_error_detail"]}
    return position | to_json_form(record_of_row(row))


def print_records(tables: ClusterTables, *, group: str | None, limit: int | None, as_json: bool) -> None:
    found = records(tables, group=group, limit=limit)
    if as_json:
        print_json(found)
    else:
        print_table("Records", ("partition", "offset", "key", "value"), map(cells, found))


def cells(record: dict[str, Any]) -> tuple[object, ...]:
    if "error" in record:
        return record["partition"], record["offset"], record["error"], record["detail"]
    value = "tombstone" if record["value"] is None else json.dumps(record["value"]["data"], ensure_ascii=False)
    return record["partition"], record["offset"], json.dumps(record["key"]["data"], ensure_ascii=False), value
