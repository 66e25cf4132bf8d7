"""Keeps small files, `_groupledger/<cluster>/<step>_until.json`: until when the topic was known as a step was done.

The topic is read at any time, the history is folded behind it, and incidents are looked for behind that. So what a step
has not found says nothing of what was read since. The instant is learned before a step reads anything, and written when
it is done: a step that was cut short has not moved it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed
from groupledger.schemas.instants import instant_if_known, ms_if_known
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.storage import Readable, Storage

REMEDY = "remove it and run `groupledger pipeline`"


def topic_until_ms(ledger: Ledger) -> int | None:
    """Returns until when the topic is known now, None before it was read to its end."""
    ends = ledger.arrow(COVERAGE, columns=("to_time",))["to_time"] if ledger.exists(COVERAGE) else ()
    return ms_if_known(pc.max(ends).as_py()) if len(ends) else None


def known_until_ms(ledger: Ledger) -> dict[str, int]:
    """Returns until when the topic and what is made of it is known, by source; without those that are not there."""
    steps = {step: noted_until(ledger.storage, ledger.cluster, step) for step in (Source.HISTORY, Source.INCIDENTS)}
    found = {Source.TOPIC: topic_until_ms(ledger), **{step: ms_if_known(at) for step, at in steps.items()}}
    return {source: ms for source, ms in found.items() if ms is not None}


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
