"""Reads `data/consumer_groups.jsonl`, a real broker's log of KIP-848 groups, and folds what is in it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Completeness, GroupType
from groupledger.transforms.history.rules import Coverage, GroupTombstone, OtherGroupType, fold, group_record
from groupledger.transforms.history.rules.consumer_records import consumer_content
from lab.truth.histories import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.transforms.history.rules import Event

DATA = Path(__file__).parent / "data"
EPOCH = "consumer_group_metadata"

Table = dict[tuple[Any, ...], dict[str, Any]]


def consumer_groups(name: str = "consumer_groups") -> list[dict[str, Any]]:
    """Returns the records, or what `consumer_groups_described` holds: what the broker said of the groups meanwhile."""
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="ascii").splitlines()]


def topic_names(log: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Returns the names by id: the topic of a group is called as the group is."""
    ids = re.compile(r'"topic_id": "([^"]+)"')
    return {found: record["key"]["group_id"] for record in log for found in ids.findall(json.dumps(record["value"]))}


def of_group(log: Iterable[dict[str, Any]], group_id: str) -> list[dict[str, Any]]:
    found = [record for record in log if record["key"]["group_id"] == group_id]
    assert found
    return found


def event(record: dict[str, Any], names: dict[str, str] | None = None) -> Event:
    """Returns what the fold is told of a record."""
    offset, at_ms, value, record_type = (record[k] for k in ("kafka_offset", "after_ms", "value", "record_type"))
    is_gone = value is None
    if record_type == "group_metadata":
        return GroupTombstone(offset, at_ms) if is_gone else group_record(offset, at_ms, json.dumps(value))
    is_epoch = record_type == EPOCH
    content = consumer_content(record_type, record["key"] | (value or {}), names or {}, is_tombstone=is_gone)
    epoch = value["epoch"] if is_epoch and not is_gone else None
    return OtherGroupType(offset, at_ms, GroupType.CONSUMER, epoch, is_epoch and is_gone, is_gone, content)


def tables_of(group_id: str, batches: Iterable[Sequence[Event]], marks: Sequence[Coverage] = ()) -> dict[str, Table]:
    """Returns the rows of each table by key, after folding batch by batch."""
    state: str | None = None
    tables: dict[str, Table] = {name: {} for name in KEYS}
    for batch in batches:
        told = sorted(
            [*(marks or [Coverage(0, Completeness.COMPLETE)]), *batch],
            key=lambda each: (each.from_offset, 0) if isinstance(each, Coverage) else (each.last_kafka_offset, 1),
        )
        folded = fold(group_id, 0, state, told)
        state = folded.open_group["state"]
        for name, rows in folded.rows.items():
            tables[name] |= {tuple(row[column] for column in KEYS[name]): row for row in rows}
    return tables
