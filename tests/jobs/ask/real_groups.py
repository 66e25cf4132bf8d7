"""Makes a small warehouse of a real broker's log of one group, without Spark: the rows of the pure fold."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from groupledger.schemas.definitions import schema_of
from lab.truth.histories import stretch
from tests.transforms.history.rules.consumer_groups import event, tables_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

EAST = "east"
ENDS = ("valid_to", "left_at", "ended_at")


def at(after_ms: int) -> datetime:
    return datetime.fromtimestamp(after_ms / 1_000, timezone.utc)


def write_group(folder: Path, group_id: str, log: Sequence[dict[str, Any]], names: Mapping[str, str]) -> None:
    """Writes the tables of the history and of coverage; `names` are those of topics by id."""
    tables = tables_of(group_id, [[event(record, dict(names)) for record in log]])
    rows = {name: [*table.values()] for name, table in tables.items()}
    rows["coverage"] = [{"kafka_partition": 0, **stretch(0, 10**6, (0, 10**6), "complete")}]
    for name, of_table in rows.items():
        schema = schema_of(name)
        known = [
            {"cluster": EAST, "is_open": int(all(row.get(end) is None for end in ENDS)), **row} for row in of_table
        ]
        chosen = [{key: value for key, value in row.items() if key in schema.names} for row in known]
        write_deltalake(str(folder / name), pa.Table.from_pylist(chosen, schema))
