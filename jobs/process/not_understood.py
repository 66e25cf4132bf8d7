"""Recognizes, from the errors of the libraries that read and write tables, that a table has a feature which this
release does not support.

Such a table may be healthy: another engine, or a newer release, has given it a feature, a type or a form of its log
that came after this release. Treating it as damaged and rebuilding it would destroy data that may exist nowhere else.
So these causes are checked before those of damage (`jobs.process.outside`), and their sentence advises nothing that
changes the table.

A row of `CAUSES` has a phrase of delta-rs, of its kernel, of Delta Lake, of Spark, of Arrow or of a Parquet reader. The
text from that phrase up to a mark may name the feature, of which only words and numbers are shown. The phrases come
from errors for tables that were made for this purpose (`tests/jobs/process/test_not_understood.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NAMED_MAX = 5
OF_RUST = "Unknown"  # by which delta-rs puts a name that it does not know into brackets
PROTOCOL = "a version of Delta's protocol"
OTHER_TYPE = "a column of another type than its files"
ITS_LOG = "something in its log"


@dataclass(frozen=True, slots=True)
class UnreadableFeature:
    """A phrase that shows an unsupported feature. If the text of an error has `phrase`, the table has the feature
    `what`; if `until` is set, the text between `phrase` and `until` has the names of the feature."""

    phrase: str
    what: str
    until: str | None = None


CAUSES = (
    UnreadableFeature("Kernel error: Unsupported: Feature '", "the table feature", "'"),
    UnreadableFeature("Unsupported table features required: [", "the table feature", "]"),
    UnreadableFeature('that are unsupported by Delta Lake "', "the table feature", "\n"),
    UnreadableFeature("DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH", "a table feature"),
    UnreadableFeature("Unsupported minimum reader version ", "the reader version", "\n"),
    UnreadableFeature(" requires reader version ", "the reader version", " and"),
    UnreadableFeature("Invalid protocol action in the delta log", PROTOCOL),
    UnreadableFeature("Table features must be specified", PROTOCOL),
    UnreadableFeature("Mismatched minReaderVersion", PROTOCOL),
    UnreadableFeature("Mismatched minWriterVersion", PROTOCOL),
    UnreadableFeature("Unsupported Delta table type: '", "the column type", "'"),
    UnreadableFeature("Failed to convert the JSON string '", "the column type", "'"),
    UnreadableFeature("olumn mapping ", "column mapping"),
    UnreadableFeature("eletion vector", "deletion vectors"),
    UnreadableFeature("catalog-managed table", "a catalog that manages it"),
    UnreadableFeature("is append-only", "the property delta.appendOnly"),
    UnreadableFeature("Invalid Spark read type", OTHER_TYPE),
    UnreadableFeature("PARQUET_COLUMN_DATA_TYPE_MISMATCH", OTHER_TYPE),
    UnreadableFeature("SchemaColumnConvertNotSupportedException", OTHER_TYPE),
    UnreadableFeature("Unsupported cast from", OTHER_TYPE),
    UnreadableFeature("encrypted", "files that are encrypted"),
    UnreadableFeature(
        "found [80, 65, 82, 69]", "files that are encrypted"
    ),  # PARE, where other Parquet files have PAR1
    UnreadableFeature("Unexpected CompressionCodec", "another compression"),
    UnreadableFeature("Support for codec '", "the compression", "'"),
    UnreadableFeature("Kernel error: Unsupported", ITS_LOG),
)
# Errors of kernels for a log whose beginning is missing, which may be in a checkpoint of another form.
NO_BEGINNING = re.compile(
    r"No table metadata or protocol|No protocol found|No metadata found|Invalid Checkpoint"
    r"|Could not find any delta files"
)
OTHER_CHECKPOINT = re.compile(r"[0-9]{20}\.checkpoint\.[0-9a-f-]{36}\.(?:json|parquet)")


def what_is_needed(text: str) -> str | None:
    """Returns the unsupported feature that the text of an error reports; None if it reports none."""
    for cause in CAUSES:
        _, found, rest = text.partition(cause.phrase)
        if found:
            return cause.what if cause.until is None else named(cause.what, rest.partition(cause.until)[0])
    return None


def named(what: str, text: str) -> str:
    """Returns the feature `what` followed by the names in `text`, a part of an error. Delta Lake puts its own version
    before the names, which is left out."""
    names = [each.strip(".") for each in NAME.findall(text.rpartition(": ")[2])]
    return " ".join([what, ", ".join([each for each in names if each != OF_RUST][:NAMED_MAX])]).strip()


def checkpoint_of_another_form(text: str, names_in_log: Iterable[str]) -> str | None:
    """Returns the feature if the `text` of an error says that a table's log has no beginning, and the log has a
    checkpoint with a UUID in its name, a form that these libraries do not read. Returns None for any other table or
    error."""
    is_other = NO_BEGINNING.search(text) and any(OTHER_CHECKPOINT.fullmatch(name) for name in names_in_log)
    return "a checkpoint of another form" if is_other else None


def may_be_healthy(place: str | None, what: str) -> OutsideError:
    """Returns the error for a table that has an unsupported feature and may be healthy."""
    table = "A table" if place is None else f"The table at {place}"
    return OutsideError(
        f"{table} has {what}, which this release does not understand: it may be healthy, and another engine or a newer"
        " release may have written it; leave it as it is, and upgrade groupledger or ask who changed it."
    )
