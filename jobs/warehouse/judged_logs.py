"""Keeps a small file, `_groupledger/<cluster>/judged_logs.json`: the number of imported log rows that the incidents
were computed from.

Logs are imported at any time, and incidents are computed by `pipeline` or `incidents --update`. A question that is
asked in between can report which log rows are not used yet.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.storage import Readable, Storage

REMEDY = "move it out of the warehouse and run `groupledger incidents --update`"


def note_judged(storage: Storage, cluster: str, row_count: int) -> None:
    storage.write(_name(cluster), json.dumps({"row_count": row_count}))


def judged_rows(storage: Readable, cluster: str) -> int | None:
    """Returns how many imported log rows the last computation of incidents used. Returns None if incidents were never
    computed, or only by a release that did not store the number."""
    return read_parsed(storage, _name(cluster), lambda text: int(json.loads(text)["row_count"]), REMEDY)


def _name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/judged_logs.json"
