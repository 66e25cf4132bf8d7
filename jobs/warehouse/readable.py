"""Refuses tables that a reader of Parquet files would read wrongly.

delta-rs opens tables with deletion vectors and with mapped columns, and its list of files is right. But what the files
hold is not what the table holds then: deleted rows are in them, and columns have other names. Our readers take the
files as they are, and our writers go on from what was read. So a table that has more than the features that delta-rs
lets readers of files know is refused, by whoever opens it.
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
    """Raises OutsideError for a table at a place whose files do not say all about its rows."""
    protocol = delta.protocol()
    strange = {*(protocol.reader_features or ())} - SUPPORTED_READER_FEATURES
    if strange:
        raise may_be_healthy(escaped(place), named("the table feature", " ".join(sorted(strange))))
    if protocol.min_reader_version > MAX_SUPPORTED_READER_VERSION:
        raise may_be_healthy(escaped(place), f"the reader version {protocol.min_reader_version}")
    if delta.metadata().configuration.get(MAPPING, NO_MAPPING) != NO_MAPPING:
        raise may_be_healthy(escaped(place), "column mapping")
