"""The columns that Spark hands to the parsers of both logs, and the columns that they give back.

    LINES             numbered lines of files, each file's in order within a task
    parsed_schema     a struct filled in each row: a row of the log's table, one of `log_quarantine`, or a topic's name

A line about something else gives nothing. The job adds what it knows: the cluster, and when.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from groupledger.schemas.tables.log_quarantine import LOG_QUARANTINE
from groupledger.schemas.tables.requests import LINE_NUMBER, SOURCE_FILE
from groupledger.schemas.tables.topic_names import TOPIC_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.logs.rules.privacy import Privacy

LINES = StructType([SOURCE_FILE, LINE_NUMBER, StructField("line", StringType())])
ROW, QUARANTINED, TOPIC_NAME = "row", "quarantined", "topic_name"
# What the job adds to every row.
OF_THE_JOB = ("cluster", "log", "imported_at", "happened_date", "logged_date")
ROWS_MAX = 5_000
LINE_CHARACTERS_MAX = 65_536

Output = tuple[str, dict[str, Any]]


def _without(table: Table) -> StructType:
    return StructType([field for field in table.schema if field.name not in OF_THE_JOB])


def parsed_schema(table: Table) -> StructType:
    return StructType(
        [
            StructField(ROW, _without(table)),
            StructField(QUARANTINED, _without(LOG_QUARANTINE)),
            StructField(TOPIC_NAME, _without(TOPIC_NAMES)),
        ]
    )


def numbered_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, int, str]]:
    """Yields (source_file, line_number, line)."""
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in LINES.names), strict=True)


def quarantined(source_file: str, line_number: int, reason: str, line: str, privacy: Privacy) -> Output:
    kept = line[:LINE_CHARACTERS_MAX] if privacy.keeps_lines else None
    return QUARANTINED, {"source_file": source_file, "line_number": line_number, "reason": reason, "line": kept}


def to_batches(outputs: Iterable[Output], schema: StructType) -> Iterator[pa.RecordBatch]:
    arrow = to_arrow_schema(schema)
    waiting = iter(outputs)
    while found := list(islice(waiting, ROWS_MAX)):
        columns = [
            pa.array([fields if name == field.name else None for name, fields in found], field.type) for field in arrow
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow)
