"""Keeps the floors: per partition, the offset below which retention has removed the rows of `coordinator_records`.

They are in `_groupledger/<cluster>/floor.json`. Retention removes whole dates and raises the floors before it does.
Nothing is written below a floor, so that a log that is read again can't bring removed rows back; and what was committed
at an instant below it is unknown. The history that was folded from the removed rows stays.

The history has a floor of its own, an instant, in `_groupledger/<cluster>/history_floor.json`. Below it rows of the
history that had ended are gone, so that who was in a group then, and who owned what, is unknown. A rebuild may bring
rows back below it; they are not all.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed
from groupledger.schemas.instants import instant_of_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from groupledger.jobs.warehouse.storage import Readable, Storage

NOTHING_ELSE = "restore it, since nothing else tells what was removed"


@dataclass(frozen=True, slots=True)
class Floor:
    """The offset behind the last one that was removed, and the latest time of a removed record."""

    offset: int
    time_ms: int


def read_floors(storage: Readable, cluster: str) -> dict[int, Floor]:
    """Returns the floors by partition of `__consumer_offsets`, for the partitions where something was removed."""
    return read_parsed(storage, _name(cluster), _parsed, NOTHING_ELSE) or {}


def _parsed(text: str) -> dict[int, Floor]:
    return {int(partition): Floor(**floor) for partition, floor in json.loads(text).items()}


def raise_floors(storage: Storage, cluster: str, new: Mapping[int, Floor]) -> None:
    """Raises floors. A floor that is higher already stays."""
    floors = read_floors(storage, cluster)
    for partition, floor in new.items():
        before = floors.get(partition, floor)
        floors[partition] = Floor(max(before.offset, floor.offset), max(before.time_ms, floor.time_ms))
    storage.write(_name(cluster), json.dumps({key: asdict(floor) for key, floor in sorted(floors.items())}))


def read_history_floor_ms(storage: Readable, cluster: str) -> int | None:
    """Returns the instant below which rows of the history are gone, or None if nothing was removed."""
    return read_parsed(storage, _history_name(cluster), lambda text: int(json.loads(text)["time_ms"]), NOTHING_ELSE)


def raise_history_floor(storage: Storage, cluster: str, time_ms: int) -> None:
    """Raises the history's floor. One that is higher already stays."""
    floor_ms = max(time_ms, read_history_floor_ms(storage, cluster) or time_ms)
    storage.write(_history_name(cluster), json.dumps({"time_ms": floor_ms}))


def above_history_floor(coverage: Iterable[Mapping[str, Any]], floor_ms: int | None) -> list[dict[str, Any]]:
    """Returns the rows of `coverage`, with `from_time` not before the history's floor."""
    if floor_ms is None:
        return [dict(row) for row in coverage]
    return [{**row, "from_time": _not_before(row["from_time"], floor_ms)} for row in coverage]


def above_floors(coverage: Iterable[Mapping[str, Any]], floors: Mapping[int, Floor]) -> list[dict[str, Any]]:
    """Returns the rows of `coverage`, with `from_time` not before the floor's time."""
    found = []
    for row in coverage:
        floor, known_from = floors.get(row["kafka_partition"]), row["from_time"]
        found.append({**row, "from_time": known_from if floor is None else _not_before(known_from, floor.time_ms)})
    return found


def _not_before(known_from: datetime | None, floor_ms: int) -> datetime | None:
    floor = instant_of_ms(floor_ms)
    return None if known_from is None else max(known_from, floor)


def _name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/floor.json"


def _history_name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/history_floor.json"
