"""`log_files`: the imported logs, and how far each has been read, so that no line is imported twice.

A file is known by what it holds, not by its name, since log4j renames it when it rolls over, and others compress it
then. `source_file` is the time of its first line and a digest of that line; `prefix_digests` are those of its first 1,
2, 4, 8 ... lines, and the last one is that of all that were imported. A file is one of the table's if all digests
that both have are equal; then only its lines after `line_count` are new. Another file with the same first line gets a
number after its name.

Limits. A log whose beginning was cut off (copytruncate does not do that; a tool that keeps the last megabytes does) is
another file, and its lines are imported again. Of two files that agree in so many lines as both digests cover, and
differ only later, the later one is taken for a longer copy of the other.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.requests import SOURCE_FILE
from groupledger.schemas.tables.table import CLUSTER, Table, column, struct

LOG_FILES = Table(
    name="log_files",
    comment="One row for each imported log file: how far it was read, and what became of its lines.",
    written_by="import-logs",
    key=("cluster", "log", "source_file"),
    statistics_columns=("cluster", "source_file"),
    schema=struct(
        CLUSTER,
        column("log", T.StringType(), "request_log or server_log: what the file was imported as; it may be both."),
        SOURCE_FILE,
        column("path", T.StringType(), "Where it lay when it was last imported."),
        column("line_count", T.LongType(), "Lines imported, from the first on, whatever became of them."),
        column("row_count", T.LongType(), "Rows that came of them in requests or coordinator_events."),
        column("quarantined_count", T.LongType(), "Lines that could not be read: see log_quarantine."),
        column("skipped_count", T.LongType(), "Lines about something else, and stack traces."),
        column(
            "prefix_digests",
            T.MapType(T.LongType(), T.StringType()),
            "SHA-256 of so many first lines: of 1, 2, 4, 8 and so on, and of line_count.",
        ),
        column("first_logged_at", T.TimestampType(), "Time of the first row."),
        column("last_logged_at", T.TimestampType(), "Time of the last row."),
        column("imported_at", T.TimestampType(), "When it was last imported."),
    ),
)
