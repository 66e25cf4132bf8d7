"""Keeps the floors. Retention has removed rows below a floor, and their content is unknown.

A floor is a property of the table whose rows were removed (`FLOORS`, by cluster). So a floor is lost only with its
table, and a copy of the table has the floor of its own rows. Retention raises the floors before it removes.

- For `coordinator_records` a floor is, by partition, an offset and the latest time of a removed record. Retention
  removes whole dates. The history that was folded from the removed rows stays.
- For a table of the history a floor is an instant: rows that ended before it are gone. A rebuild may bring some of them
  back, but not all.

A history that starts after records were removed, or starts over because its tables were lost, never learns about the
removed records: it stores the floors with which it began (`BEGINNINGS`, a property of `generations`), and treats
everything below them as a hole.

Earlier releases kept floors in files, `_groupledger/<cluster>/floor.json` and `history_floor.json`. Such a file is used
until the table itself has a floor of the cluster.
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

    from groupledger.jobs.warehouse.storage import Readable

    Properties = Mapping[str, str]

FLOORS = "groupledger.floors"
BEGINNINGS = "groupledger.beginnings"
NOTHING_ELSE = "restore it, since nothing else records which rows were removed"


@dataclass(frozen=True, slots=True)
class Floor:
    """A floor of a partition: the offset after the last removed record, and the latest time of a removed record."""

    offset: int
    time_ms: int


def read_floors(properties: Properties, small_files: Readable, cluster: str) -> dict[int, Floor]:
    """Returns the floor of each partition of `__consumer_offsets` from which retention has removed rows. `properties`
    are the table properties of `coordinator_records`."""
    of_cluster = _parsed_property(properties, FLOORS).get(cluster)
    if of_cluster is None:
        name = f"{STATE_FOLDER}/{cluster}/floor.json"
        return read_parsed(small_files, name, lambda text: _floors(json.loads(text)), NOTHING_ELSE) or {}
    return _floors(of_cluster)


def with_floors(
    properties: Properties, small_files: Readable, new: Mapping[str, Mapping[int, Floor]]
) -> dict[str, str]:
    """Returns the table properties in which the floors are raised to `new`, by cluster and partition. A floor that is
    already higher stays."""
    by_cluster = _parsed_property(properties, FLOORS)
    for cluster, of_cluster in new.items():
        floors = read_floors(properties, small_files, cluster)
        for partition, floor in of_cluster.items():
            before = floors.get(partition, floor)
            floors[partition] = Floor(max(before.offset, floor.offset), max(before.time_ms, floor.time_ms))
        by_cluster[cluster] = _as_json(floors)
    return {FLOORS: json.dumps(by_cluster)}


def read_beginnings(properties: Properties, cluster: str) -> dict[int, Floor]:
    """Returns, by partition, the floors with which the history of a cluster began. `properties` are those of
    `generations`."""
    return _floors(_parsed_property(properties, BEGINNINGS).get(cluster, {}))


def with_beginnings(properties: Properties, cluster: str, floors: Mapping[int, Floor]) -> dict[str, str]:
    """Returns the properties that say with which floors the history of a cluster begins."""
    return {BEGINNINGS: json.dumps(_parsed_property(properties, BEGINNINGS) | {cluster: _as_json(floors)})}


def read_history_floor_ms(tables: Iterable[Properties], small_files: Readable, cluster: str) -> int | None:
    """Returns the instant before which at least one table of the history has lost rows, in milliseconds since the
    epoch; None if nothing was removed. `tables` has the properties of each table."""
    of_tables = [_parsed_property(properties, FLOORS).get(cluster) for properties in tables]
    name = f"{STATE_FOLDER}/{cluster}/history_floor.json"
    of_file = read_parsed(small_files, name, lambda text: int(json.loads(text)["time_ms"]), NOTHING_ELSE)
    return max((floor_ms for floor_ms in (*of_tables, of_file) if floor_ms is not None), default=None)


def with_history_floor(properties: Properties, clusters: Iterable[str], time_ms: int) -> dict[str, str]:
    """Returns the table properties in which the floor of a table of the history is raised to `time_ms`, for some
    clusters. A floor that is already higher stays."""
    by_cluster = _parsed_property(properties, FLOORS)
    by_cluster |= {cluster: max(time_ms, by_cluster.get(cluster, time_ms)) for cluster in clusters}
    return {FLOORS: json.dumps(by_cluster)}


def above_history_floor(coverage: Iterable[Mapping[str, Any]], floor_ms: int | None) -> list[dict[str, Any]]:
    """Returns the rows of `coverage`, with the history's floor in the place of an earlier `from_time`."""
    if floor_ms is None:
        return [dict(row) for row in coverage]
    return [{**row, "from_time": _not_before(row["from_time"], floor_ms)} for row in coverage]


def above_floors(coverage: Iterable[Mapping[str, Any]], floors: Mapping[int, Floor]) -> list[dict[str, Any]]:
    """Returns the rows of `coverage`, with the time of the partition's floor in the place of an earlier `from_time`."""
    found = []
    for row in coverage:
        floor, known_from = floors.get(row["kafka_partition"]), row["from_time"]
        found.append({**row, "from_time": known_from if floor is None else _not_before(known_from, floor.time_ms)})
    return found


def _not_before(known_from: datetime | None, floor_ms: int) -> datetime | None:
    floor = instant_of_ms(floor_ms)
    return None if known_from is None else max(known_from, floor)


def _parsed_property(properties: Properties, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(properties.get(name, "{}"))
    return found


def _as_json(floors: Mapping[int, Floor]) -> dict[str, dict[str, int]]:
    return {str(partition): asdict(floor) for partition, floor in sorted(floors.items())}


def _floors(by_partition: Mapping[str, Mapping[str, int]]) -> dict[int, Floor]:
    return {int(partition): Floor(**floor) for partition, floor in by_partition.items()}
