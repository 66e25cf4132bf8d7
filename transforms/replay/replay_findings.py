"""`replay_findings`: the log of each group through `transforms.replay.rules`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from groupledger.schemas.tables.replay_findings import REPLAY_FINDINGS
from groupledger.transforms.history.group_history import group_logs, in_log_order
from groupledger.transforms.replay.rules import replay

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from groupledger.transforms.history.group_history import Marks

FOUND = StructType([field for field in REPLAY_FINDINGS.schema if field.name != "cluster"])


def replay_findings(events: DataFrame, marks: Marks) -> DataFrame:
    """The columns of the table but for cluster; `events` are those of `group_events` from the begin of each log."""

    def replay_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(FOUND)
        for log in group_logs(batches, marks):
            found = [asdict(finding) for finding in replay(log.group_id, log.kafka_partition, log.events)]
            yield pa.RecordBatch.from_pylist(found, schema=schema)

    return in_log_order(events).mapInArrow(replay_partition, FOUND)
