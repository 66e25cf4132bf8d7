"""Keeps small files, `_groupledger/<cluster>/<step>_until.json`. Each has the instant up to which `__consumer_offsets`
had been read when a step ran.

The topic is read at any time, the history is folded after it, and incidents are computed after that. So if a step has
no result, that says nothing about records that were read later. The instant is determined before a step reads anything,
and written when the step is done: an interrupted step does not change it.
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
    """Returns the instant up to which the topic had been read when `step` last ran to its end. Returns None if it never
    did, or only in a release that did not note the instant."""
    return read_parsed(
        storage, _name(cluster, step), lambda text: instant_if_known(int(json.loads(text)["until_ms"])), REMEDY
    )


def forget_until(storage: Storage, cluster: str, step: str) -> None:
    """Removes the instant, because the step begins with everything again."""
    storage.delete(_name(cluster, step))


def _name(cluster: str, step: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/{step}_until.json"
