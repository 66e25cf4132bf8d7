"""Keeps a small file, `_groupledger/<cluster>/judged_logs.json`: how many imported log rows the incidents rest on, and
until when the topic was known as they were looked for.

Logs are imported at any time, the topic is read at any time, and incidents are looked for by `pipeline` or `incidents
--update`. A question that comes in between says what it lacks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed
from groupledger.schemas.instants import instant_if_known

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.warehouse.storage import Readable, Storage

REMEDY = "remove it and run `groupledger incidents --update`"


def note_judged(storage: Storage, cluster: str, row_count: int, until_ms: int | None) -> None:
    storage.write(_name(cluster), json.dumps({"row_count": row_count, "until_ms": until_ms}))


def judged_rows(storage: Readable, cluster: str) -> int | None:
    """Returns the number, or None where no release that keeps it has looked for incidents."""
    return read_parsed(storage, _name(cluster), lambda text: int(json.loads(text)["row_count"]), REMEDY)


def searched_until(storage: Readable, cluster: str) -> datetime | None:
    """Returns until when the topic was known as incidents were last looked for, or None where no release that keeps it
    has."""
    return read_parsed(storage, _name(cluster), lambda text: instant_if_known(_until_ms(json.loads(text))), REMEDY)


def _until_ms(note: dict[str, Any]) -> int | None:
    found = note.get("until_ms")
    return None if found is None else int(found)


def _name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/judged_logs.json"
