"""`groupledger records`: the decoded records, in log order; as JSON in the form of Kafka's DumpLogSegments."""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.answers import of_groups, refuse_unknown
from groupledger.jobs.ask.log_order import in_log_order, last_of_the_log
from groupledger.jobs.process.arrow_values import rows_of
from groupledger.jobs.process.output import print_json
from groupledger.jobs.process.terminal import print_table
from groupledger.schemas.codec.json_form import to_json_form
from groupledger.transforms.records.decoded_record import record_of_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

COLUMNS = (
    *("kafka_partition", "kafka_offset", "record_type", "value_version", "is_tombstone", "group_id", "offset_commit"),
    *("record_json", "decode_error", "decode_error_detail"),
)
ROWS_AT_ONCE = 10_000


def records(tables: ClusterRows, *, group: str | None, limit: int | None) -> Iterator[Answer]:
    """Yields a dict for each record of the cluster, or of `group`: its partition and offset in `__consumer_offsets`,
    and its key and value or, if it could not be decoded, the error. With `limit`, yields only the last records in the
    order of the log.
    """
    filters = () if group is None else of_groups(tables, group)
    rows = tables.scan("coordinator_records", *filters, columns=COLUMNS)
    for ordered in in_log_order(rows) if limit is None else last_of_the_log(rows, limit):
        for batch in ordered.to_batches(max_chunksize=ROWS_AT_ONCE):
            yield from map(shown, rows_of(batch))


def shown(row: dict[str, Any]) -> dict[str, Any]:
    position = {"partition": row["kafka_partition"], "offset": row["kafka_offset"]}
    if row["decode_error"] is not None:
        return position | {"error": row["decode_error"], "detail": row["decode_error_detail"]}
    return position | to_json_form(record_of_row(row))


def print_records(tables: ClusterRows, *, group: str | None, limit: int | None, as_json: bool) -> None:
    found: Iterator[Answer] = records(tables, group=group, limit=limit)
    if group is not None:
        first = [*islice(found, 1)]
        if not first:
            refuse_unknown(tables, group)
        found = chain(first, found)
    if as_json:
        print_json(found)
    else:
        print_table("Records", ("partition", "offset", "key", "value"), map(cells, found))


def cells(record: dict[str, Any]) -> tuple[object, ...]:
    if "error" in record:
        return record["partition"], record["offset"], record["error"], record["detail"]
    value = "tombstone" if record["value"] is None else json.dumps(record["value"]["data"], ensure_ascii=False)
    return record["partition"], record["offset"], json.dumps(record["key"]["data"], ensure_ascii=False), value
