"""Refuses tables whose Parquet files can't be read without Delta's further features.

delta-rs opens tables with deletion vectors and with mapped columns, and lists their files correctly. But the files then
do not equal the table: they still have deleted rows, or columns under other names. Our readers take the files as they
are, and our writers continue from what was read. So a table with more reader features than delta-rs supports for files
is refused by every function that opens one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake.table import MAX_SUPPORTED_READER_VERSION, SUPPORTED_READER_FEATURES

from groupledger.jobs.process.not_understood import may_be_healthy, named
from groupledger.jobs.process.terminal import escaped

if TYPE_CHECKING:
    from deltalake import DeltaTable

MAPPING, NO_MAPPING = "delta.columnMapping.mode", "none"


def refuse_unreadable(delta: DeltaTable, place: str) -> None:
    """Raises OutsideError for a table whose files alone do not give its rows. `place` names it in the message."""
    protocol = delta.protocol()
    strange = {*(protocol.reader_features or ())} - SUPPORTED_READER_FEATURES
    if strange:
        raise may_be_healthy(escaped(place), named("the table feature", " ".join(sorted(strange))))
    if protocol.min_reader_version > MAX_SUPPORTED_READER_VERSION:
        raise may_be_healthy(escaped(place), f"the reader version {protocol.min_reader_version}")
    if delta.metadata().configuration.get(MAPPING, NO_MAPPING) != NO_MAPPING:
        raise may_be_healthy(escaped(place), "column mapping")
