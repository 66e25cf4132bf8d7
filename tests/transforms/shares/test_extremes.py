"""Goal: no number in `__share_group_state` ends a pass, from a record's bytes to the rows of `share_partitions`."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import product
from typing import Any

import pyarrow as pa

from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.codec.records import SHARE_STATE
from groupledger.schemas.instants import INT32_MAX, INT64_MAX, INT64_MIN
from groupledger.schemas.tables.share_partitions import SHARE_PARTITIONS
from groupledger.schemas.tables.share_state_records import SHARE_STATE_RECORDS
from groupledger.transforms.privacy import Privacy
from groupledger.transforms.records.decode_share_state import share_state_row
from groupledger.transforms.shares.rules.share_state import share_lag, share_states, state_columns
from lab.scenarios.extremes import poisoned, share_state_cases

RECORDS, PARTITIONS = arrow_schema(SHARE_STATE_RECORDS.schema), arrow_schema(SHARE_PARTITIONS.schema)
AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
ENDS = (None, 0, 5, INT64_MAX)


def in_table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the table gives them back."""
    placed = [{"kafka_partition": 0, "kafka_offset": at, "kafka_timestamp": AT} | row for at, row in enumerate(rows)]
    return pa.Table.from_pylist(placed, RECORDS).to_pylist()  # type: ignore[no-any-return]


def reported(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of `share_partitions` after some records, for each end that the topic may have."""
    rows = []
    for key, state in share_states(records).items():
        known = state_columns(state)
        for end in ENDS:
            lag = share_lag(known["start_offset"], known["delivery_complete_count"], end)
            rows.append({**key._asdict(), **known, "high_watermark": end, "lag": lag})
    return pa.Table.from_pylist(rows, PARTITIONS).to_pylist()  # type: ignore[no-any-return]


def test_every_field() -> None:
    """Goal: each value of each field is decoded or kept, and the state after each record can be known."""
    cases = list(share_state_cases())
    for case in cases:
        encoded = [SHARE_STATE.encode_record(record) for record in poisoned(case, "orders")]
        records = in_table([share_state_row(key, value, Privacy()) for key, value in encoded])
        assert all(reported(records[: count + 1]) for count in range(len(records)))
    assert (len(cases), len({(case.record_type, case.path) for case in cases})) == (213, 21)


def test_fields_at_once() -> None:
    """Goal: a sum of several fields beyond the bounds of the table is the nearest value that the table holds."""
    ends = (INT64_MIN, -1, 0, INT64_MAX)
    update = {"record_type": "share_update", "is_tombstone": False, "group_id": "g", "topic_id": "t", "partition": 0}
    for start, first, last in product(ends, ends, ends):
        batch = {"first_offset": first, "last_offset": last, "delivery_state": 0, "delivery_count": 1}
        fields = {"start_offset": start, "delivery_complete_count": INT32_MAX, "leader_epoch": 1}
        records = in_table([{**update, **fields, "snapshot_epoch": 1, "state_batches": [batch, batch]}] * 2)
        for row in reported(records[:1]) + reported(records):
            assert row["available_count"] >= 0
    assert share_lag(INT64_MAX, INT32_MAX, 0) == INT64_MIN
