"""`stream_tasks`: one interval in which a member of a streams group had a task, in one role.

A task is active at one member at most; standbys and warm-ups of it may be at others at the same time. An interval ends
when the member has the task in another role, or no longer. A task that the member still has to give up counts as had.
`assignments` has the source partitions of active tasks.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.holdings import holdings_table
from groupledger.schemas.tables.table import column
from groupledger.schemas.words import TaskRole, one_of, words_of

STREAM_TASKS = holdings_table(
    "stream_tasks",
    "One row for each interval in which a member of a streams group had a task in a role.",
    (
        column("subtopology", T.StringType(), "Part of the topology."),
        column("partition", T.IntegerType(), "Partition of the task: the same of each of the part's source topics."),
        column("role", T.StringType(), f"What the member did with it: {one_of(words_of(TaskRole))}."),
    ),
)
