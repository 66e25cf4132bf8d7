"""Goal: a query lists the records that were never read, with the ranges where they are known."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from groupledger.jobs.ask.engine import ask
from groupledger.jobs.ask.named_queries import query_named
from groupledger.jobs.ask.snapshots import Snapshots
from tests.jobs.ask.test_processed_twice import write

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)


def test_every_loss(tmp_path: Path) -> None:
    """Goal: a move forward and a loss to retention have a row for each range, other incidents one with their topic; an
    incident without a loss has none, nor has a move of another time."""
    skip = {"topic": "orders", "kind": "skipped", "happened_at": AT, "offset_before": 25, "offset_after": 45}
    skip |= {"records_skipped": 20}
    lost = {**skip, "kind": "lost_to_retention", "partition": 3, "happened_at": AT + timedelta(minutes=1)}
    write(
        tmp_path,
        "offset_events",
        *(skip | {"partition": partition} for partition in (0, 1)),
        lost | {"offset_after": 30, "records_skipped": 5},
        skip | {"partition": 2, "happened_at": AT - timedelta(hours=1)},
        skip | {"partition": 2, "kind": "rewound", "records_skipped": None},
    )
    incident = {"first_seen_at": AT, "last_seen_at": AT + timedelta(minutes=1), "evidence": "inferred"}
    places = [{"topic": "bills", "partition": partition} for partition in (0, 1)]
    losses = {"offset_skip": 40, "lost_to_retention": 5, "offsets_expired": 172, "offset_rewind": None}
    write(
        tmp_path,
        "incidents",
        *(
            {**incident, "incident_id": kind, "kind": kind, "never_read_max": most, "partitions": places}
            for kind, most in losses.items()
        ),
    )
    query = query_named("never-read")
    found = ask(Snapshots(str(tmp_path)), query.text, query.arguments({})).to_pylist()
    columns = ("what", "topic", "partition", "first_offset", "last_offset", "records_max")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("offsets_expired", "bills", None, None, None, 172),
        ("offset_skip", "orders", 0, 25, 44, 20),
        ("offset_skip", "orders", 1, 25, 44, 20),
        ("lost_to_retention", "orders", 3, 25, 29, 5),
    ]
