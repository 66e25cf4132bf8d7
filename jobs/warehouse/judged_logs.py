"""Keeps a small file, `_groupledger/<cluster>/judged_logs.json`: how many imported log rows the incidents rest on.

Logs are imported at any time, and incidents are looked for by `pipeline` or `incidents --update`. A question that comes
in between says what it lacks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.storage import STATE_FOLDER, read_parsed

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.storage import Readable, Storage

REMEDY = "remove it and run `groupledger incidents --update`"


def note_judged(storage: Storage, cluster: str, row_count: int) -> None:
    storage.write(_name(cluster), json.dumps({"row_count": row_count}))


def judged_rows(storage: Readable, cluster: str) -> int | None:
    """Returns the number, or None where no release that keeps it has looked for incidents."""
    return read_parsed(storage, _name(cluster), lambda text: int(json.loads(text)["row_count"]), REMEDY)


def _name(cluster: str) -> str:
    return f"{STATE_FOLDER}/{cluster}/judged_logs.json"
