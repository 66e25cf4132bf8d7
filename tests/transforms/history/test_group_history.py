"""Goal: the fold is told what is about groups, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.transforms.history.group_history import fold_groups, group_events

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
    rows = [(f"of {each}", 0, offset, None, each, True, *[None] * 5) for offset, each in enumerate(types)]
    events = group_events(spark.createDataFrame(rows, RECORDS), spark.createDataFrame([], OPEN_GROUPS.schema), {})
    folded = fold_groups(events, {}).where("open_groups IS NOT NULL").select("open_groups.group_id").collect()
    assert {row.group_id for row in folded} == {"of group_metadata", "of share_group_metadata"}
