"""The lines that the parsers of both logs are fed, and the columns that they fill.

    Line              a line of a file, numbered; each file's in order
    parsed_schema     a struct filled in each row: a row of the log's table, one of `log_quarantine`, or a topic's name

A line about something else gives nothing. The job adds what it knows: the cluster, and when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from groupledger.schemas.tables.log_quarantine import LOG_QUARANTINE
from groupledger.schemas.tables.topic_names import TOPIC_NAMES

if TYPE_CHECKING:
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.logs.rules.privacy import Privacy

ROW, QUARANTINED, TOPIC_NAME = "row", "quarantined", "topic_name"
# What the job adds to every row.
OF_THE_JOB = ("cluster", "log", "imported_at", "happened_date", "logged_date")
LINE_CHARACTERS_MAX = 65_536

Line = tuple[str, int, str]
"""(source_file, line_number, line)."""
Parsed = dict[str, Any]


def parsed_schema(table: Table) -> StructType:
    tables = {ROW: table, QUARANTINED: LOG_QUARANTINE, TOPIC_NAME: TOPIC_NAMES}
    return StructType([StructField(name, each.without(*OF_THE_JOB)) for name, each in tables.items()])


def parsed(name: str, fields: dict[str, Any]) -> Parsed:
    """Returns a row of `parsed_schema` that fills one of its structs."""
    return {ROW: None, QUARANTINED: None, TOPIC_NAME: None, name: fields}


def quarantined(source_file: str, line_number: int, reason: str, line: str, privacy: Privacy) -> Parsed:
    kept = line[:LINE_CHARACTERS_MAX] if privacy.keeps_lines else None
    fields = {"source_file": source_file, "line_number": line_number, "reason": reason, "line": kept}
    return parsed(QUARANTINED, fields)
