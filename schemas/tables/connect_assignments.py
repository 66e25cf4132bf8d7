"""`connect_assignments`: one ownership interval of a Connect group: a worker runs a task, or a connector itself.

Under incremental protocols (versions 1 and 2) a record holds changes only: what a worker runs is what it brought along
as its allocation, less what the record revokes, with what it assigns.
"""

from pyspark.sql.types import IntegerType, StringType

from groupledger.schemas.tables.assignments import ownership_intervals
from groupledger.schemas.tables.table import Table, column

CONNECT_ASSIGNMENTS = Table(
    name="connect_assignments",
    comment="One row for each interval in which a connector or a task ran on the same worker.",
    written_by="history",
    key=("cluster", "group_id", "incarnation", "connector", "task", "from_offset"),
    statistics_columns=(
        "cluster",
        "group_id",
        "incarnation",
        "connector",
        "task",
        "from_offset",
        "valid_from",
        "valid_to",
    ),
    partition_columns=("is_open",),
    end_column="valid_to",
    schema=ownership_intervals(
        column("connector", StringType(), "Connector."),
        column("task", IntegerType(), "Task of the connector; -1 is the connector itself."),
    ),
)
