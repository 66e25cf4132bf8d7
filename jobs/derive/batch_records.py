"""Reads what a fold of the history needs of rows of `coordinator_records`: their columns, where they lie, the topics
that they name by id, and how completely the log around them is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.delta_log import properties_of
from groupledger.jobs.warehouse.retention import read_beginnings
from groupledger.jobs.warehouse.source import read_source
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.wire.consumer_group import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
)
from groupledger.schemas.wire.share_group import (
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
)
from groupledger.transforms.coverage.rules.stretches import above_floor, stretches
from groupledger.transforms.history.rules.events import mark_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.retention import Floor
    from groupledger.transforms.history.group_history import Marks

    Extents = Mapping[int, tuple[int, int]]
    """The first and the last offset of each partition of `__consumer_offsets`."""

RECORD_COLUMNS = (
    *("group_id", "kafka_partition", "kafka_offset", "kafka_timestamp", "record_type", "is_tombstone", "decode_error"),
    *("offset_commit.topic", "offset_commit.partition", "offset_commit.offset as committed_offset", "record_json"),
    "offset_commit.topic_id",
)
NAMING_TOPICS_BY_ID = (
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.record_type,
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.record_type,
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER.record_type,
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT.record_type,
)
TOPIC_ID_IN_JSON = '"topic_id": "([A-Za-z0-9_-]{22})"'


def records_of(ledger: Ledger, records: DataFrame) -> DataFrame:
    return records.where(F.col("cluster") == F.lit(ledger.cluster)).selectExpr(*RECORD_COLUMNS)


@dataclass(frozen=True)
class BatchContent:
    """The content of a batch: by partition the first and the last offset, the number of records, their groups, and the
    ids of the topics that records of `consumer` and share groups name."""

    extents: Extents
    record_count: int
    groups: set[str]
    topic_ids: set[str]

    @property
    def ends(self) -> dict[int, int]:
        """Returns the offset after the last one of each partition."""
        return {partition: last + 1 for partition, (_, last) in self.extents.items()}


def mentioned_topics() -> Column:
    """Returns the ids of the topics that some records name, as an aggregate."""
    # Commits have no `record_json`, or one without this type; the ids of a record are in arrays of any depth.
    names_topics = F.when(F.col("record_type").isin(*NAMING_TOPICS_BY_ID), F.col("record_json"))
    topic_ids = F.flatten(F.collect_set(F.regexp_extract_all(names_topics, F.lit(TOPIC_ID_IN_JSON), 1)))
    return F.array_distinct(topic_ids)


def extents_of(records: DataFrame) -> BatchContent:
    offsets = (F.min("kafka_offset"), F.max("kafka_offset"), F.count(F.lit(1)), F.collect_set("group_id"))
    found = records.groupBy("kafka_partition").agg(*offsets, mentioned_topics()).collect()
    return BatchContent(
        extents={partition: (first, last) for partition, first, last, *_ in found},
        record_count=sum(row[3] for row in found),
        groups={group for row in found for group in row[4]},
        topic_ids={topic_id for row in found for topic_id in row[5]},
    )


def marks_of(ledger: Ledger, ends: Mapping[int, int]) -> Marks:
    """Returns, by partition, a mark for the start of each stretch of coverage up to the offset in `ends`. Raises
    InputError if the source's file is gone."""
    source = read_source(ledger.storage, ledger.cluster)
    if source is None or not source.readings.keys() >= ends.keys():
        raise InputError(
            f"The file with the source of the ledger of cluster {ledger.cluster} is gone, and with it how"
            " completely the log is known: run `groupledger ingest --recover` first."
        )
    floors = {partition: floor.offset for partition, floor in beginnings_of(ledger).items()}
    read = {partition: stretches(source.readings[partition], end, None) for partition, end in ends.items()}
    return {
        partition: [mark_of(each) for each in above_floor(found, floors.get(partition, 0))]
        for partition, found in read.items()
    }


def beginnings_of(ledger: Ledger) -> dict[int, Floor]:
    """Returns, by partition, the floor below which retention had removed records before the history began."""
    return read_beginnings(properties_of(ledger.warehouse, GENERATIONS), ledger.cluster)
