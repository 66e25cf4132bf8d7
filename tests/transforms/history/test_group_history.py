"""Goal: the fold gets what is about groups, and nothing else."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.words import Completeness
from groupledger.transforms.history.group_history import fold_groups, group_events
from groupledger.transforms.history.rules.events import SESSION_DEFAULT_MS, Coverage
from tests.transforms.history.rules.consumer_groups import consumer_groups, of_group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = """
    group_id string, kafka_partition int, kafka_offset long, kafka_timestamp timestamp, record_type string,
    is_tombstone boolean, record_json string, decode_error string, topic string, partition int, committed_offset long
"""


@pytest.mark.spark
def test_a_record_type_about_no_known_type_of_group(spark: SparkSession) -> None:
    """Goal: a record type that the codec learns before the fold does makes no group, and takes nothing from others."""
    types = ("group_metadata", "group_metadata_of_tomorrow", "share_group_metadata", "cluster_link", "members")
    rows = [(f"of {each}", 0, offset, None, each, True, "{}", *[None] * 4) for offset, each in enumerate(types)]
    events = group_events(spark.createDataFrame(rows, RECORDS), spark.createDataFrame([], OPEN_GROUPS.schema), {})
    folded = (
        fold_groups(events, {}, {}, consumer_session_timeout_ms=SESSION_DEFAULT_MS)
        .where("open_groups IS NOT NULL")
        .select("open_groups.group_id")
        .collect()
    )
    assert {row.group_id for row in folded} == {"of group_metadata", "of share_group_metadata"}


@pytest.mark.spark
def test_groups_that_ended(spark: SparkSession) -> None:
    """Goal: a streams group that was deleted is gone, though the tombstone of its topology comes after its own; and so
    is a simple group whose last offset was removed, unless it has committed again or another partition meanwhile."""
    epoch = {"epoch": 2, "metadata_hash": 0, "validated_topology_epoch": -1, "last_assignment_configs": []}
    topology = {"epoch": 0, "subtopologies": []}
    streams = [
        ("streams_group_metadata", False, epoch),
        ("streams_group_topology", False, topology),
        ("streams_group_member_metadata", True, {"member_id": "m"}),
        ("streams_group_metadata", True, {}),
        ("streams_group_topology", True, {}),
    ]
    commits = {
        "gone": [(0, 1), (1, 1), (0, None), (1, None)],
        "again": [(0, 1), (0, None), (0, 1)],
        "meanwhile": [(0, 1), (1, 1), (0, None), (0, 1), (1, None), (1, 1)],
    }
    rows: list[tuple[Any, ...]] = [
        ("streams", 0, offset, None, kind, is_tombstone, json.dumps(fields), *[None] * 4)
        for offset, (kind, is_tombstone, fields) in enumerate(streams)
    ]
    for number, (group, made) in enumerate(commits.items(), 1):
        for offset, (partition, committed) in enumerate(made):
            when = datetime.fromtimestamp(offset, timezone.utc)
            is_removed = committed is None
            commit = ("orders", partition, committed)
            rows.append((group, number, offset, when, "offset_commit", is_removed, None, None, *commit))
    marks = {number: [Coverage(0, Completeness.COMPLETE)] for number in range(len(commits) + 1)}
    events = group_events(spark.createDataFrame(rows, RECORDS), spark.createDataFrame([], OPEN_GROUPS.schema), marks)
    folded = (
        fold_groups(events, marks, {}, consumer_session_timeout_ms=SESSION_DEFAULT_MS)
        .where("groups IS NOT NULL")
        .select("groups.*")
        .collect()
    )
    assert {row.group_id: (row.is_alive, row.incarnation) for row in folded} == {
        "streams": (False, 1),
        "gone": (False, 1),
        "again": (True, 2),
        "meanwhile": (True, 1),
    }


@pytest.mark.spark
def test_the_brokers_session(spark: SparkSession) -> None:
    """Goal: Spark's tasks know how long the brokers wait for a silent member of KIP-848
    (`rules.test_consumer.test_the_brokers_session` has more)."""
    log = of_group(consumer_groups(), "dynamic")
    joins, goes = log[:5], log[-4:]

    def row_of(record: dict[str, Any], second: int) -> tuple[Any, ...]:
        fields = json.dumps(record["key"] | (record["value"] or {}))
        when = datetime.fromtimestamp(second, timezone.utc)
        place = "dynamic", 0, record["kafka_offset"], when
        return (*place, record["record_type"], record["value"] is None, fields, *[None] * 4)

    topic = joins[2]["value"]["topic_partitions"][0]["topic_id"]
    rows = [row_of(record, 0) for record in joins]
    for second in range(1, 9):
        when = datetime.fromtimestamp(second, timezone.utc)
        rows.append(("dynamic", 0, 4 + second, when, "offset_commit", False, None, None, topic, 0, second))
    rows += [row_of(record, 33) for record in goes]
    marks = {0: [Coverage(0, Completeness.COMPLETE)]}
    events = group_events(spark.createDataFrame(rows, RECORDS), spark.createDataFrame([], OPEN_GROUPS.schema), marks)
    causes = [
        fold_groups(events, marks, {}, consumer_session_timeout_ms=session_ms)
        .where("members IS NOT NULL")
        .select("members.leave_cause")
        .collect()
        for session_ms in (SESSION_DEFAULT_MS, 20_000)
    ]
    assert causes == [[("left",)], [("session_expired",)]]
