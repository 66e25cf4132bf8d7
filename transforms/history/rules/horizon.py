"""Where a history is made again from a record in the middle of a group's life, because older records are gone.

What came before is not known to the fold then, as behind a hole in coverage: no member, no owner, no generation. Known
is only what does not depend on the instant: which life it is, when the group was first seen, and which partitions it
has committed. The latter are those of the state at the end, without their times: one that was committed only later is
committed again by the records that are left, and one that was removed is removed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.transforms.history.rules.rows import open_group_row
from groupledger.transforms.history.rules.state import OpenGroup, PartitionCommits, load

if TYPE_CHECKING:
    from groupledger.transforms.history.rules.events import Coverage


def state_before(open_state: str, incarnation: int, kafka_offset: int, stretch: Coverage) -> dict[str, Any]:
    """The row of `open_groups` from which a fold begins with the record at this offset, in this stretch of coverage."""
    old = load(open_state)
    commits = {unit: PartitionCommits(None, committed.committed_offset) for unit, committed in old.commits.items()}
    group = OpenGroup(
        old.group_id,
        old.kafka_partition,
        first_kafka_offset=old.first_kafka_offset,
        last_kafka_offset=kafka_offset - 1,
        record_offset=kafka_offset - 1,
        coverage_offset=stretch.from_offset,
        completeness=stretch.completeness,
        incarnation=incarnation,
        is_alive=True,
        first_seen_ms=old.first_seen_ms,
        commits=commits,
    )
    return open_group_row(group)
