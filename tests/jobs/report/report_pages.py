"""Makes histories of groups without Spark, from folded logs, and reads what a report has packed."""

from __future__ import annotations

import base64
import re
import zlib
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import TimestampType

from groupledger.jobs.ask.owners import GroupHistory
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.transforms.history.rules.events import Coverage
from groupledger.transforms.history.rules.fold import fold
from lab.truth.histories import everything, position, summaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.schemas.tables.table import Table
    from lab.truth.histories import Entry

    Row = Mapping[str, Any]

START_MS = 1_760_000_000_000
START = datetime.fromtimestamp(START_MS / 1_000, timezone.utc)
# A name with the worst characters, as long as Kafka's longest string.
HOSTILE = (
    "</script><script>alert(1)</script>'\"`../../etc/passwd\n\0\u202egnp.exe\u2028<!--{{ 7*7 }}&amp;<a href=//x>%{y}"
)
ENDING = "/end\u2066"
HOSTILE_NAME = HOSTILE + "x" * (32_767 - len((HOSTILE + ENDING).encode())) + ENDING
BLOCK = re.compile(r'<script type="text/plain" id="g\d+">(.*?)</script>')


def groups_in(page: str) -> dict[str, str]:
    """Returns the pages of groups in a report, by the group's name on the page."""
    pages = (zlib.decompress(base64.b64decode(block)).decode() for block in BLOCK.findall(page))
    return {page.split("<h1>")[1].split("</h1>")[0]: page for page in pages}


def typed(table: Table, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of the fold as the table would give them back: all columns, and instants for microseconds."""
    found = []
    for row in rows:
        made = {}
        for field in table.schema:
            value = row.get(field.name)
            if isinstance(field.dataType, TimestampType) and isinstance(value, int):
                value = START + timedelta(microseconds=value - START_MS * 1_000)
            made[field.name] = value
        found.append(made)
    return found


def history_of(group_id: str, log: Sequence[Entry], coverage: Sequence[Row] | None = None) -> GroupHistory:
    marks = [Coverage(0, "complete")]
    rows = fold(group_id, 3, None, summaries(sorted([*marks, *log], key=position))).rows
    return of_fold(rows, coverage or everything(START_MS * 10))


def of_fold(rows: Mapping[str, list[dict[str, Any]]], coverage: Sequence[Row]) -> GroupHistory:
    (group,) = typed(GROUPS, rows["groups"])
    return GroupHistory(
        group=group,
        generations=typed(GENERATIONS, rows["generations"]),
        members=typed(MEMBERS, rows["members"]),
        assignments=typed(ASSIGNMENTS, rows["assignments"]),
        coverage=typed(COVERAGE, coverage),
    )
