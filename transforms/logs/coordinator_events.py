"""Parses lines of server logs into rows of `coordinator_events`."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from groupledger.schemas.kafka.log_time import NO_EVIDENCE
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.transforms.logs.imported_lines import ROW, TOO_LONG, Line, parsed, parsed_schema, quarantined
from groupledger.transforms.logs.rules.server_log import entries, parse_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.transforms.logs.imported_lines import Parsed
    from groupledger.transforms.logs.rules.server_log import NumberedLine
    from groupledger.transforms.privacy import Privacy

PARSED_EVENTS = parsed_schema(COORDINATOR_EVENTS)


def parse_events(
    lines: Iterable[Line], time_zone: str, privacy: Privacy, entry_characters_max: int
) -> Iterator[Parsed]:
    """Yields rows of `PARSED_EVENTS`. The caller passes whole entries: the last line must not be in the middle of one.
    A line that is too long ends its entry."""
    of_entries = (line for line in lines if not line.is_of_another)
    for (source_file, is_whole), part in groupby(of_entries, attrgetter("source_file", "is_whole")):
        if not is_whole:
            yield from (quarantined(line, TOO_LONG, privacy) for line in part)
            continue
        for entry in entries(map(_numbered, part), entry_characters_max):
            found = TOO_LONG if entry.is_too_long else parse_entry(entry, time_zone, privacy)
            if isinstance(found, str):
                size = len(entry.text.encode())
                yield quarantined(Line(source_file, entry.line_number, entry.text, size, is_whole), found, privacy)
            elif found is not None:
                details = found["details"]
                found["details"] = None if details is None else list(details.items())  # as Arrow takes a map
                yield parsed(ROW, {"source_file": source_file, **found})


def _numbered(line: Line) -> NumberedLine:
    if line.evidence is NO_EVIDENCE and line.line_count == 1:
        return line.line_number, line.text
    return line.line_number, line.text, line.line_count, line.evidence
