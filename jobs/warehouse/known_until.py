"""Keeps small files, `_groupledger/<cluster>/<step>_until.json`: until when the topic was known as a step was done.

The topic is read at any time, the history is folded after it, and incidents are looked for after that. So what a step
has not found says nothing of what was read since. The instant is learned before a step reads anything, and written when
it is done: a step that was cut short has not moved it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed
from groupledger.schemas.instants import instant_if_known

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.warehouse.storage import Readable, Storage

REMEDY = "move it out of the warehouse and run `groupledger pipeline`"


def note_until(storage: Storage, cluster: str, step: str, until_ms: int | None) -> None:
    if until_ms is not None:
        storage.write(_name(cluster, step), json.dumps({"until_ms": until_ms}))


def noted_until(storage: Readable, cluster: str, step: str) -> datetime | None:
    """Returns the instant, or None where no release that keeps it has done the step."""
    return read_parsed(
        storage, _name(cluster, step), lambda text: instant_if_known(int(json.loads(text)["until_ms"])), REMEDY
    )


def _name(cluster: str, step: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/{step}_until.json"
