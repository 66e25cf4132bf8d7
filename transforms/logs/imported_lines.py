"""Defines the input of the parsers of both logs, and the columns that they fill.

    Line              a numbered line of a file; each file's lines come in order; a line that is too long is cut
    parsed_schema     each row fills one struct: a row of the log's table, one of `log_quarantine`, or a topic's name

A line about something else gives no row. The job adds the cluster and the time of import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import StructField, StructType

from groupledger.schemas.kafka.log_time import NO_EVIDENCE, ZoneEvidence
from groupledger.schemas.tables.log_quarantine import LOG_QUARANTINE
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from groupledger.transforms.by_group import ROWS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.privacy import Privacy

ROW, QUARANTINED, TOPIC_NAME = "row", "quarantined", "topic_name"
# Columns that the job adds to every row.
OF_THE_JOB = ("cluster", "log", "imported_at", "happened_date", "logged_date")
LINE_CHARACTERS_MAX = 65_536
# Limits of the rows that wait to leave a task, so that long lines don't pile up.
PIECE_CHARACTERS_MAX = 8 << 20
TOO_LONG = "longer than the settings allow (logs.line_bytes_max): not read, and kept in part"

Parsed = dict[str, Any]


class Line(NamedTuple):
    """Holds a line of a log file. If a container has cut a line, `line_count` is the number of lines of the file that
    it covers. `is_of_another` means that the line comes from another source in the same file than the last entry does,
    and begins no entry itself."""

    source_file: str
    line_number: int
    text: str
    byte_count: int
    is_whole: bool
    line_count: int = 1
    evidence: ZoneEvidence = NO_EVIDENCE
    is_of_another: bool = False


def parsed_schema(table: Table) -> StructType:
    tables = {ROW: table, QUARANTINED: LOG_QUARANTINE, TOPIC_NAME: TOPIC_NAMES}
    return StructType([StructField(name, each.without(*OF_THE_JOB)) for name, each in tables.items()])


def parsed(name: str, fields: dict[str, Any]) -> Parsed:
    """Returns a row of `parsed_schema` that fills one of its structs."""
    return {ROW: None, QUARANTINED: None, TOPIC_NAME: None, name: fields}


def quarantined(line: Line, reason: str, privacy: Privacy) -> Parsed:
    kept = line.text[:LINE_CHARACTERS_MAX] if privacy.keeps_lines else None
    place = {"source_file": line.source_file, "line_number": line.line_number}
    return parsed(QUARANTINED, {**place, "reason": reason, "line": kept, "line_bytes": line.byte_count})


def pieces(rows: Iterable[Parsed]) -> Iterator[list[Parsed]]:
    """Yields the rows in lists of bounded length and size."""
    piece: list[Parsed] = []
    characters = 0
    for row in rows:
        piece.append(row)
        characters += sum(len(text) for fields in row.values() for text in _texts(fields))
        if len(piece) == ROWS_MAX or characters > PIECE_CHARACTERS_MAX:
            yield piece
            piece, characters = [], 0
    if piece:
        yield piece


def _texts(fields: dict[str, Any] | None) -> Iterator[str]:
    return (value for value in (fields or {}).values() if isinstance(value, str))
