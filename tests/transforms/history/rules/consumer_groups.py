"""Reads `data/consumer_groups.jsonl`, a real broker's log of KIP-848 groups, and folds what is in it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Completeness
from groupledger.transforms.history.rules.events import Coverage
from lab.truth.consumer_groups import History, Table, event_of_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.transforms.history.rules.events import Event

DATA = Path(__file__).parent / "data"


def consumer_groups(name: str = "consumer_groups") -> list[dict[str, Any]]:
    """Returns the records or, from `consumer_groups_described`, the broker's descriptions of the groups meanwhile."""
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
    return event_of_line(record, names or {})


def tables_of(
    group_id: str,
    batches: Iterable[Sequence[Event]],
    marks: Sequence[Coverage] = (Coverage(0, Completeness.COMPLETE),),
) -> dict[str, Table]:
    """Returns the rows of each table by key, after folding batch by batch."""
    history = History(group_id, marks)
    for batch in batches:
        history.fold(batch)
    return history.tables
