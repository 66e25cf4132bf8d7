"""Goal: each commit gets its incarnation, its generation and its owner, by the order of the log alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.transforms.offsets.offset_commits import COLUMNS, offset_commits
from tests.transforms.history.history_frames import (
    APART,
    REAL,
    compacted_group,
    cooperative_group,
    frames,
    modern_groups,
    real_operations,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

INPUTS = (COORDINATOR_RECORDS, GENERATIONS, ASSIGNMENTS, MEMBERS, MEMBER_EPOCHS, GROUPS, COVERAGE)
Rows = dict[tuple[str, int], Any]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Rows:
    tables = frames(spark, cooperative_group(), compacted_group(), *modern_groups())
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
        (("g1", 25), 2, None, None, "none"),  # after the hole
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
    """Goal: a commit says how far it went back below the one before; null if there is no commit to compare with."""
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
    """Goal: a removal is no commit; a commit of offset -1 is a commit without an offset; Kafka's values for "none" are
    null."""
    assert ("g1", 12) not in rows
    assert rows["g1", 10].committed_offset is None
    row = rows["g1", 3]
    assert (row.topic, row.partition, row.committed_offset) == ("orders", 0, 20)
    assert (row.leader_epoch, row.topic_id) == (None, None)


@dataclass
class Member:
    """Where a member stands by its newest record: its epoch, and for each of its partitions the epoch at which it got
    it."""

    epoch: int
    has: dict[tuple[str, int], int]


def members_then(group_id: str) -> Iterator[tuple[int, dict[str, Member]]]:
    """Yields the epochs and partitions of a real group's members after each operation, with its last offset."""
    members: dict[str, Member] = {}
    for record in real_operations(group_id):
        if record["record_type"].endswith("group_current_member_assignment"):
            members.pop(record["key"]["member_id"], None)
            if record["value"]:
                members[record["key"]["member_id"]] = member_then(group_id, record["value"])
        if record["is_last"]:
            yield record["kafka_offset"], members


def member_then(group_id: str, value: dict[str, Any]) -> Member:
    epoch = value["member_epoch"]
    if "active_tasks" in value:
        topics = {"0": "orders", "1": "refunds", "2": "a topic of the application's own"}
        has = {
            (topics[task["subtopology_id"]], number): since
            for task in (*value["active_tasks"], *value["active_tasks_pending_revocation"])
            for number, since in zip(task["partitions"], task["assignment_epochs"], strict=True)
        }
        return Member(epoch, has)
    given = [*value["assigned_partitions"], *value["partitions_pending_revocation"]] if epoch >= 0 else []
    has = {
        (group_id.removesuffix(" of 4.4"), number): since
        for topic in given
        # A broker of 4.2 names no epochs, and takes no older one.
        for number, since in zip_longest(topic["partitions"], topic.get("assignment_epochs", ()), fillvalue=epoch)
    }
    return Member(epoch, has)


@pytest.mark.parametrize("group_id", ["dynamic", "static", "dynamic of 4.4", "static of 4.4", "application"])
def test_the_epoch_of_a_modern_committer(rows: Rows, group_id: str) -> None:
    """Goal: a commit has the epoch of the member that owns the partition, as a real broker's records have it, and none
    where nobody does; that of a streams group, and of a consumer group since 4.3, only where an older one would be
    refused."""
    known_count = 0
    for offset, members in members_then(group_id):
        for number, place in enumerate(REAL[group_id][2], 1):
            row = rows[group_id, offset * APART + number]
            holders = [member_id for member_id, member in members.items() if place in member.has]
            assert row.owner_attribution != "none" or not holders
            assert [row.owner] == holders or (row.owner_attribution, holders) != ("assigned", [row.owner])
            owner = members.get(row.owner)
            if owner is None:
                assert (row.owner, row.committer_generation) == (None, None)
            elif holders:
                known_count += 1
                assert (row.owner_attribution, holders) == ("assigned", [row.owner])
                assert row.committer_generation == (owner.epoch if owner.has[place] == owner.epoch else None)
            else:
                assert row.owner_attribution == "previous_owner"
                assert row.committer_generation in (owner.epoch, *([None] if group_id == "application" else []))
                assert owner.epoch >= 0
    assert known_count > 10


def test_commits_over_a_conversion(rows: Rows) -> None:
    """Goal: in a group that becomes one of KIP-848's type and a classic one again, each commit has the number that its
    member then named."""
    found = {
        offset // APART: row.committer_generation
        for (group_id, offset), row in rows.items()
        if group_id == "migrated" and row.partition == 0 and row.owner is not None
    }
    assert found == {228: 1, 244: 1, 245: 1, 255: 2, 256: 2, 272: 2, 277: 3}
