"""`log_quarantine`: lines of imported logs that no parser could read, or that are too long to be read, with the reason.

Lines of other loggers, requests that are not about groups, and stack traces are not damaged, and have no rows here;
`log_files` counts them.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.requests import LINE_NUMBER, SOURCE_FILE
from groupledger.schemas.tables.table import CLUSTER, Table, column, struct

LOG_QUARANTINE = Table(
    name="log_quarantine",
    comment="One row for each line of an imported log that could not be read.",
    written_by="import-logs",
    key=("cluster", "log", "source_file", "line_number"),
    written_at_column="imported_at",
    statistics_columns=("cluster", "source_file", "line_number", "imported_at"),
    schema=struct(
        CLUSTER,
        column("log", T.StringType(), "request_log or server_log: what the file was imported as."),
        SOURCE_FILE,
        LINE_NUMBER,
        column("reason", T.StringType(), "The reason why the line could not be read."),
        column("line", T.StringType(), "The line, at most 65,536 characters; null if the settings hide names."),
        column("line_bytes", T.LongType(), "How long the line is; of an entry over lines, as far as it was read."),
        column("imported_at", T.TimestampType(), "When it was found."),
    ),
)
