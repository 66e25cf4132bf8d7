"""Goal: the query lists the records that were processed twice by every source, and names the source."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from groupledger.jobs.ask.engine import ask
from groupledger.jobs.ask.named_queries import named_queries
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)


def write(warehouse: Path, table: str, *rows: dict[str, Any]) -> None:
    found = pa.Table.from_pylist([{"cluster": "c", "group_id": "g", **row} for row in rows], schema_of(table))
    write_deltalake(str(warehouse / table), found)


def test_every_source(tmp_path: Path) -> None:
    """Goal: the query lists offsets that went back over a rebalance, and incidents with their lower and upper bounds;
    those that cost nothing, or whose cost nobody can know, are left out. An incident has its topic
    and its partition, if it is about one."""
    pause = {"topic": "orders", "partition": 0, "committed_offset_before": 40, "committed_offset_after": 30}
    went_on = {**pause, "partition": 1, "committed_offset_after": 40}
    write(tmp_path, "rebalances", {"to_generation": 4, "happened_at": AT, "partition_pauses": [pause, went_on]})
    incident = {"first_seen_at": AT, "evidence": "observed", "confidence": 1.0}
    orders = [{"topic": "orders", "partition": partition} for partition in (4, 5)]
    places = {"illegal_generation": orders[:1], "offset_rewind": orders}
    bounds = {"illegal_generation": (7, 120), "offset_rewind": (None, 4_000), "poll_timeout": (0, 0)}
    write(
        tmp_path,
        "incidents",
        *(
            {**incident, "incident_id": kind, "kind": kind, "duplicates_min": low, "duplicates_max": high}
            | {"partitions": places.get(kind)}
            for kind, (low, high) in bounds.items()
        ),
        {**incident, "incident_id": "5", "kind": "commit_gap"},
    )
    (query,) = (each for each in named_queries() if each.name == "processed-twice")
    found = ask(Snapshots(str(tmp_path)), query.text, query.arguments({})).to_pylist()
    columns = ("known_from", "what", "topic", "partition", "partition_count", "records_min", "records_max")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("incidents", "offset_rewind", "orders", None, 2, None, 4_000),
        ("incidents", "illegal_generation", "orders", 4, 1, 7, 120),
        ("rebalances", "generation 4", "orders", 0, 1, 10, 10),
    ]
    assert [row["evidence"] for row in found] == ["observed", "observed", None]
