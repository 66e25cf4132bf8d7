"""Keeps the floors: per partition, the offset below which retention has removed the rows of `coordinator_records`.

They are in `_groupledger/<cluster>/floor.json`. Retention removes whole dates and raises the floors before it does.
Nothing is written below a floor, so that a log that is read again can't bring removed rows back; and what was committed
at an instant below it is unknown. The history that was folded from the removed rows stays.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.jobs.warehouse.storage import Storage


@dataclass(frozen=True, slots=True)
class Floor:
    """The offset behind the last one that was removed, and the latest time of a removed record."""

    offset: int
    time_ms: int


def read_floors(storage: Storage, cluster: str) -> dict[int, Floor]:
    """Returns the floors by partition of `__consumer_offsets`, for the partitions where something was removed."""
    return read_parsed(storage, _name(cluster), _parsed, "restore it, since nothing else tells what was removed") or {}


def _parsed(text: str) -> dict[int, Floor]:
    return {int(partition): Floor(**floor) for partition, floor in json.loads(text).items()}


def raise_floors(storage: Storage, cluster: str, new: Mapping[int, Floor]) -> None:
    """Raises floors. A floor that is higher already stays."""
    floors = read_floors(storage, cluster)
    for partition, floor in new.items():
        before = floors.get(partition, floor)
        floors[partition] = Floor(max(before.offset, floor.offset), max(before.time_ms, floor.time_ms))
    storage.write(_name(cluster), json.dumps({key: asdict(floor) for key, floor in sorted(floors.items())}))


def above_floors(coverage: Iterable[Mapping[str, Any]], floors: Mapping[int, Floor]) -> list[dict[str, Any]]:
    """Returns the rows of `coverage`, with `from_time` not before the floor's time."""
    found = []
    for row in coverage:
        floor, known_from = floors.get(row["kafka_partition"]), row["from_time"]
        if floor is not None and known_from is not None:
            known_from = max(known_from, datetime.fromtimestamp(floor.time_ms / 1_000, timezone.utc))
        found.append({**row, "from_time": known_from})
    return found


def _name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/floor.json"
