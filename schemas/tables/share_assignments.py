"""`share_assignments`: one interval in which a member of a share group had a partition.

A partition may have several members at once: each gets records of its own. An interval goes from the first
current-assignment record of the member that names the partition to the first that does not, or to its tombstone.
"""

from groupledger.schemas.tables.holdings import holdings_table
from groupledger.schemas.tables.table import TOPIC_PARTITION

SHARE_ASSIGNMENTS = holdings_table(
    "share_assignments",
    "One row for each interval in which a member of a share group had a partition.",
    TOPIC_PARTITION,
)
