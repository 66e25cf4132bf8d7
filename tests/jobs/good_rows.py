"""Makes for each table a correct row, which fits its schema and its suite in `conf/quality`."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.coordinator_records import OFFSET_COMMIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from groupledger.schemas.tables.table import Table

    Row = dict[str, Any]

EARLY, NOW, LATE = (datetime(2026, 1, 5, hour, tzinfo=timezone.utc) for hour in (0, 1, 2))
BY_TYPE: dict[str, Any] = {
    "integer": 1,
    "long": 1,
    "string": "x",
    "boolean": True,
    "double": 0.5,
    "timestamp": NOW,
    "date": date(2026, 1, 5),
    "array": [],
}
ENDED = {"from_offset": 1, "to_offset": 5, "is_open": 0, "from_generation": 1, "to_generation": 2}
COMMIT = {name: {"topic": "t", "partition": 0, "offset": 7}.get(name) for name in OFFSET_COMMIT.names}

# The columns for which the default value of their type is not correct.
GOOD: dict[str, Row] = {
    "assignments": ENDED,
    "connect_assignments": ENDED,
    "coordinator_records": {
        "record_type": "offset_commit",
        "is_tombstone": False,
        "offset_commit": COMMIT,
        **dict.fromkeys(("decode_error", "decode_error_detail", "raw_key", "raw_value", "record_json")),
    },
    "commit_steps": {"kafka_offset": 1, "is_open": 1, "next_at": None, "next_kafka_offset": None},
    "coverage": {"from_offset": 0, "to_offset": 5, "completeness": "complete"},
    "generations": {
        "to_offset": 5,
        "ended_by": "hole",
        "is_current": False,
        "is_open": 0,
        "revision": 0,
        "changes": None,
    },
    "groups": {"group_type": "classic"},
    "group_states": {"group_type": "classic"},
    "incidents": {"kind": "commit_gap", "severity": "info", "evidence": "inferred"},
    "lag": {"committed_offset": 5, "high_watermark": 7, "raw_lag": 2, "lag": 2},
    "lag_seeds": {"kind": "commit", "kafka_offset": 1},
    "log_files": {"log": "server_log", "line_count": 9},
    "members": {**ENDED, "leave_cause": "left"},
    "member_epochs": {"from_offset": 1, "to_offset": 5, "is_open": 0, "state": "stable"},
    "share_assignments": ENDED,
    "stream_tasks": {**ENDED, "role": "standby"},
    "stream_topologies": {"from_offset": 1, "to_offset": 5, "is_open": 0},
    "offset_events": {
        "kind": "expired",
        "kafka_offset": 2,
        "cause": "retention",
        "evidence": "age",
        **dict.fromkeys(("offset_after", "records_repeated", "records_skipped")),
    },
    "offset_syncs": {"decode_error": None},
    "open_groups": {"state": '{"a":1}'},
    "quality_results": {"unexpected_rows": 0, "error": None},
    "rebalance_stats": {"window": "hour"},
    "rebalances": {
        "to_generation": 2,
        "is_hole": False,
        "hole_cause": None,
        "protocol_kind": "eager",
        "inferred_trigger": "joined",
    },
    "replay_findings": {"severity": "error"},
    "share_partitions": {"start_offset": 3, "delivery_complete_count": 1, "high_watermark": 6, "lag": 2},
    "share_state_coverage": {"from_offset": 0, "to_offset": 5, "completeness": "complete"},
    "share_state_records": {
        "record_type": "share_update",
        "is_tombstone": False,
        **dict.fromkeys(("decode_error", "decode_error_detail", "raw_key", "raw_value")),
    },
    "troubles": {"step": "history", "is_open": 0},
    "topic_names": {"topic_id": "x" * 22},
    "what_if_effects": {
        "refusal": None,
        "rebalances": {"asked_low": 1.0, "asked_high": 2.0, "spared_low": 0.0, "spared_high": 1.0},
    },
    "what_if_runs": {"since": EARLY},
}


def value_of(data_type: DataType) -> Any:
    return BY_TYPE.get(data_type.typeName())


def good_row(table: Table) -> Row:
    return {field.name: value_of(field.dataType) for field in table.schema} | GOOD.get(table.name, {})


def frame(spark: SparkSession, table: Table, rows: list[Row]) -> DataFrame:
    """In the order of the rows."""
    arrow = pa.Table.from_pylist(rows, schema=arrow_schema(table.schema))
    return spark.createDataFrame(arrow, table.schema)
