"""Makes rows of `coordinator_events` out of lines of server logs: the bridge from `transforms.logs.rules` to Spark."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.transforms.logs.imported_lines import ROW, numbered_lines, parsed_schema, quarantined, to_batches
from groupledger.transforms.logs.rules.server_log import entries, parse_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from groupledger.transforms.logs.imported_lines import Output
    from groupledger.transforms.logs.rules.privacy import Privacy

PARSED_EVENTS = parsed_schema(COORDINATOR_EVENTS)


def parse_events(lines: DataFrame, time_zone: str, privacy: Privacy) -> DataFrame:
    """Returns `PARSED_EVENTS` out of `LINES`; the caller sees to it that no entry lies in two tasks."""

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return to_batches(_outputs(batches, time_zone, privacy), PARSED_EVENTS)

    return lines.mapInArrow(parse, PARSED_EVENTS)


def _outputs(batches: Iterable[pa.RecordBatch], time_zone: str, privacy: Privacy) -> Iterator[Output]:
    for source_file, lines in groupby(numbered_lines(batches), itemgetter(0)):
        for entry in entries((line_number, line) for _, line_number, line in lines):
            parsed = parse_entry(entry, time_zone, privacy)
            if isinstance(parsed, str):
                yield quarantined(source_file, entry.line_number, parsed, entry.text, privacy)
            elif parsed is not None:
                details = parsed["details"]
                parsed["details"] = None if details is None else list(details.items())  # as Arrow takes a map
                yield ROW, {"source_file": source_file, **parsed}
