"""Makes rows of `coordinator_events` out of lines of server logs."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.transforms.logs.imported_lines import ROW, parsed, parsed_schema, quarantined
from groupledger.transforms.logs.rules.server_log import entries, parse_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.transforms.logs.imported_lines import Line, Parsed
    from groupledger.transforms.logs.rules.privacy import Privacy

PARSED_EVENTS = parsed_schema(COORDINATOR_EVENTS)


def parse_events(lines: Iterable[Line], time_zone: str, privacy: Privacy) -> Iterator[Parsed]:
    """Yields rows of `PARSED_EVENTS`; the caller sees to it that no entry is cut by the end of the lines."""
    for source_file, of_file in groupby(lines, itemgetter(0)):
        for entry in entries((line_number, line) for _, line_number, line in of_file):
            found = parse_entry(entry, time_zone, privacy)
            if isinstance(found, str):
                yield quarantined(source_file, entry.line_number, found, entry.text, privacy)
            elif found is not None:
                details = found["details"]
                found["details"] = None if details is None else list(details.items())  # as Arrow takes a map
                yield parsed(ROW, {"source_file": source_file, **found})
