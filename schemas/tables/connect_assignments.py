"""`connect_assignments`: one ownership interval of a Connect group: a worker runs a task, or a connector itself.

Under incremental protocols (versions 1 and 2) a record holds changes only: a worker runs the tasks that it brought
along as its allocation, without those that the record revokes, and with those that the record assigns. Nobody gets the
tasks of a lost worker until a delay is over (`scheduled.rebalance.max.delay.ms`), which the leader sends to all.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.assignments import ownership_table
from groupledger.schemas.tables.table import column

CONNECT_ASSIGNMENTS = ownership_table(
    "connect_assignments",
    "One row for each interval in which a connector or a task ran on the same worker.",
    (
        column("connector", T.StringType(), "Connector."),
        column("task", T.IntegerType(), "Task of the connector; -1 is the connector itself."),
    ),
    column(
        "scheduled_delay_ms",
        T.IntegerType(),
        "How long the leader keeps the task back from valid_to on, in case its worker returns; 0: only until the next"
        " round. Null while the interval is open, if another worker had the task at once, or if nobody can know.",
    ),
)
