"""Defines the class `Table` by which the Delta tables are declared, one per file of this folder.

Every table starts with `cluster`, lies at `WAREHOUSE/<name>`, and is partitioned by the cluster (a name of the
settings), dates or small derived integers only: a name that comes from data never becomes a path. A table in which rows
are merged, replaced or deleted is partitioned by cluster, so that the writers of two clusters never change the same
file. A table to which rows are only added may be partitioned by its date alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import BooleanType, DataType, IntegerType, StringType, StructField, StructType

from groupledger.schemas.words import GroupType, one_of, words_of

# Features that other Delta readers lack stay off. Type widening is off unless it is turned on, and delta-rs makes no
# table that so much as names it.
COMMON_PROPERTIES = {"delta.enableDeletionVectors": "false", "delta.columnMapping.mode": "none"}

CHECKPOINT_INTERVAL = "delta.checkpointInterval"
LOG_RETENTION = "delta.logRetentionDuration"
DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"


@dataclass(frozen=True, kw_only=True)
class TableRetention:
    """How long the past of a table is kept. `log_hours` is for the files of its log, `deleted_file_hours` for data
    files that are no longer part of the table; a past version can be read for the shorter of the two times. A
    checkpoint is written after every `checkpoint_interval` Delta commits.

    `deleted_file_hours` are an hour less than half a day, since maintenance comes every six hours: what it removes is
    deleted two maintenances later, and not three.

    A table with a Delta commit a minute has 1,440 a day, and each checkpoint names all files that are kept. So the cost
    grows with the square of the time. A reader opens each Delta commit after the last checkpoint, which limits the
    interval.
    """

    log_hours: int = 168
    deleted_file_hours: int = 11
    checkpoint_interval: int = 100

    @property
    def properties(self) -> dict[str, str]:
        return {
            CHECKPOINT_INTERVAL: str(self.checkpoint_interval),
            LOG_RETENTION: f"interval {self.log_hours} hours",
            # The log names them half a day longer, so that a maintenance finds them.
            DELETED_FILE_RETENTION: f"interval {self.deleted_file_hours + 12} hours",
        }


OF_HISTORY = TableRetention()
"""The retention of records and of the history. Their log is kept longer than the longest downtime that a streaming
reader may have (`maintain.reader_downtime_days_max`). If a rebuild is killed, the next pass still needs the versions
with which it began."""
OF_SAMPLES = TableRetention(log_hours=24)
OF_STATE = TableRetention(log_hours=48)
"""The retention of tables whose rows describe the present, and are written again in each pass."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Defines a Delta table. `written_by` is the command that writes it, and `key` are the columns that identify a row.

    Queries choose the files to read by the `statistics_columns`; statistics on other columns would only cost time. In a
    table with an `end_column`, a row is open while that column is null, and does not change after it is set. A
    `fixed_time_column` holds a time that is always the same for a key. A table with neither has a `written_at_column`,
    and its rows never change.
    """

    name: str
    comment: str
    written_by: str
    schema: StructType
    key: tuple[str, ...]
    statistics_columns: tuple[str, ...]
    partition_columns: tuple[str, ...] = ("cluster",)
    end_column: str | None = None
    fixed_time_column: str | None = None
    written_at_column: str | None = None
    retention: TableRetention = OF_HISTORY

    @property
    def retention_column(self) -> str | None:
        """Returns the time column that gives the age of rows in a table that is not partitioned by date."""
        return self.end_column or self.fixed_time_column or self.written_at_column

    def without(self, *names: str) -> StructType:
        """Returns the schema without some columns, such as those that a job adds to the rows of a transform."""
        return struct(*(field for field in self.schema if field.name not in names))

    @property
    def properties(self) -> dict[str, str]:
        skipped_by = (name for name in self.statistics_columns if name not in self.partition_columns)
        return {
            **COMMON_PROPERTIES,
            **self.retention.properties,
            "delta.dataSkippingStatsColumns": ",".join(skipped_by),
        }


def column(name: str, data_type: DataType, comment: str) -> StructField:
    return StructField(name, data_type, nullable=True, metadata={"comment": comment})


def struct(*columns: StructField) -> StructType:
    return StructType(list(columns))


# Open rows lie in files of their own, which are as small as the groups are now.
IS_CARRIED_OVER = column(
    "is_carried_over",
    BooleanType(),
    "What it rests on has left coordinator_records since: a rebuild took the row over from the history before.",
)
IS_OPEN = column("is_open", IntegerType(), "1 while nothing has ended the row, else 0; a partition of the files.")

# The columns that all tables about groups have.
CLUSTER = column("cluster", StringType(), "The Kafka cluster, as the settings name it.")
GROUP_ID = column("group_id", StringType(), "The consumer group.")
INCARNATION = column(
    "incarnation",
    IntegerType(),
    "Which incarnation of the group, from 1; its tombstone ends one, or the removal of a simple group's last offset.",
)
GROUP_TYPE = column(
    "group_type",
    StringType(),
    f"{one_of(words_of(GroupType))}; null in rows of releases that knew classic groups only.",
)
KAFKA_PARTITION = column("kafka_partition", IntegerType(), "Partition of __consumer_offsets that holds the group.")
TOPIC = column("topic", StringType(), "The topic.")
PARTITION = column("partition", IntegerType(), "Partition of the topic.")

OF_INCARNATION = (CLUSTER, GROUP_ID, INCARNATION)
TOPIC_PARTITION = (TOPIC, PARTITION)
