"""`groupledger records`: what was decoded, in log order; as JSON in the form of Kafka's DumpLogSegments."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from groupledger.jobs.process.terminal import print_table
from groupledger.jobs.warehouse.warehouse import read_table
from groupledger.schemas.codec.json_form import to_json_form
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.transforms.records.decoded_record import record_of_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

COLUMNS = (
    "kafka_partition",
    "kafka_offset",
    "record_type",
    "value_version",
    "is_tombstone",
    "group_id",
    "offset_commit",
    "record_json",
    "decode_error",
    "decode_error_detail",
)


def records(
    spark: SparkSession, warehouse: str, cluster: str, *, group: str | None, limit: int | None
) -> Iterator[dict[str, Any]]:
    """One dict for each row of the cluster: partition, offset, and key and value or the error of a row kept undecoded.

    With `limit`, the last rows of the log's order only.
    """
    rows = read_table(spark, warehouse, COORDINATOR_RECORDS).where(F.col("cluster") == F.lit(cluster))
    if group is not None:
        rows = rows.where(F.col("group_id") == F.lit(group))
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


def print_records(
    spark: SparkSession, warehouse: str, cluster: str, *, group: str | None, limit: int | None, as_json: bool
) -> None:
    found = records(spark, warehouse, cluster, group=group, limit=limit)
    if as_json:
        for record in found:
            # ASCII only, so that no name can do anything to a terminal.
            sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")
        return
    print_table("Records", ("partition", "offset", "key", "value"), map(cells, found))


def cells(record: dict[str, Any]) -> tuple[object, ...]:
    if "error" in record:
        return record["partition"], record["offset"], record["error"], record["detail"]
    value = "tombstone" if record["value"] is None else json.dumps(record["value"]["data"], ensure_ascii=False)
    return record["partition"], record["offset"], json.dumps(record["key"]["data"], ensure_ascii=False), value
