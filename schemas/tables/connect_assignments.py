"""`connect_assignments`: one ownership interval of a Connect group: a worker runs a task, or a connector itself.

Under incremental protocols (versions 1 and 2) a record holds changes only: what a worker runs is what it brought along
as its allocation, less what the record revokes, with what it assigns. What a lost worker ran is given to nobody until a
delay is over (`scheduled.rebalance.max.delay.ms`), which the leader sends to all workers.
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
        "From valid_to on the leader keeps it back for so long, in case that its worker returns; 0: only for the next"
        " round. Null while open, where another worker had it at once, and where nobody can know.",
    ),
)
