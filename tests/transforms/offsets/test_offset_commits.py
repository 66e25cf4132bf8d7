"""Goal: each commit gets its incarnation, its generation and its owner, by the order of the log alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.transforms.offsets.offset_commits import COLUMNS, offset_commits
from tests.transforms.history.history_frames import compacted_group, cooperative_group, frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUTS = (COORDINATOR_RECORDS, GENERATIONS, ASSIGNMENTS, MEMBERS, GROUPS, COVERAGE)
Rows = dict[tuple[str, int], Any]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Rows:
    tables = frames(spark, cooperative_group(), compacted_group())
    view = offset_commits(*(tables[table] for table in INPUTS))
    assert tuple(view.columns) == COLUMNS
    found = view.collect()
    by_position = {(row.group_id, row.kafka_offset): row for row in found}
    assert len(by_position) == len(found)
    return by_position


@pytest.mark.parametrize(
    ("position", "incarnation", "generation", "owner", "attribution"),
    [
        (("g1", 1), 1, None, None, "none"),  # a simple consumer, whose incarnation the members join
        (("g1", 3), 1, 1, "a", "assigned"),
        (("g1", 5), 1, 1, None, "none"),  # nobody owns it, or ever did
        (("g1", 7), 1, 2, "a", "previous_owner"),  # given up in the cooperative round
        (("g1", 9), 1, 3, "b", "assigned"),
        (("g1", 15), 1, None, None, "none"),  # a reset of the empty group
        (("g1", 17), 2, None, None, "none"),  # after its tombstone
        (("g1", 25), 2, None, None, "none"),  # behind the hole
        (("g1", 27), 2, None, None, "none"),
        (("g1", 28), None, None, None, "none"),  # the history has not got there
        (("old", 2), 1, None, None, "none"),  # a record between may have been compacted away
        (("old", 4), 1, 9, "b", "assigned"),  # the last record that compaction left
        (("old", 5), 1, 9, "b", "assigned"),
        (("old", 7), 1, 10, None, "none"),  # two owners
    ],
)
def test_committer(
    rows: Rows,
    position: tuple[str, int],
    incarnation: int | None,
    generation: int | None,
    owner: str | None,
    attribution: str,
) -> None:
    """Goal: incarnation, generation and owner where they are certain, null where they are not."""
    row = rows[position]
    assert (row.incarnation, row.committer_generation) == (incarnation, generation)
    assert (row.owner, row.owner_attribution) == (owner, attribution)


def test_regression(rows: Rows) -> None:
    """Goal: how far a commit went back behind the one before; null where there is none to compare with."""
    assert {offset: row.regression for (group, offset), row in rows.items() if group == "g1"} == {
        1: None,
        3: 0,
        4: 15,
        5: None,
        7: 0,
        9: 0,
        10: None,  # offset -1
        11: None,
        13: None,  # after a removal
        15: 0,
        17: 0,
        25: None,  # over the hole
        26: None,
        27: 1,
        28: 0,
    }
    assert [rows["old", offset].regression for offset in (2, 4, 5, 7)] == [None, None, 0, 0]


def test_values(rows: Rows) -> None:
    """Goal: a removal is no commit; offset -1 is one, of nothing; what Kafka writes for "none" is null."""
    assert ("g1", 12) not in rows
    assert rows["g1", 10].committed_offset is None
    row = rows["g1", 3]
    assert (row.topic, row.partition, row.committed_offset) == ("orders", 0, 20)
    assert (row.leader_epoch, row.topic_id) == (None, None)
