"""Computes time lag from the record at the committed offset, for the partitions with the most lag: `groupledger lag
--exact N`.

Each partition takes one fetch, so the number of partitions and the time for each are limited. For a partition that is
not read in time, the lag from the samples stays. The reader has no group and commits nothing. It sees records of
transactions that are open or aborted, as a read_uncommitted consumer does. If it reaches the high watermark without a
record, only markers are left.
"""

from __future__ import annotations

import heapq
import time
from contextlib import closing
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from groupledger.jobs.kafka.login import kafka_python_security
from groupledger.jobs.process.errors import OutsideError
from groupledger.transforms.lag.rules import LagRow, NextRecord, with_next_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.jobs.process.settings import Settings

READ_S_MAX = 5.0
POLL_MS = 200


def with_exact_seconds(rows: Sequence[LagRow], count: int, bootstrap_servers: str, settings: Settings) -> list[LagRow]:
    """Returns the rows in their order, with the exact time lag in the `count` rows that have the most lag, as far as
    their records could be read in time. Raises OutsideError if no broker answers."""
    worst = heapq.nlargest(
        count, (number for number, row in enumerate(rows) if row.lag), key=lambda n: rows[n].lag or 0
    )
    found = list(rows)
    try:
        with closing(
            KafkaConsumer(
                bootstrap_servers=bootstrap_servers.split(","),
                enable_auto_commit=False,
                auto_offset_reset="none",
                max_poll_records=1,
                request_timeout_ms=settings.kafka.request_timeout_ms,
                **kafka_python_security(settings.kafka),
            )
        ) as consumer:
            for number in worst:
                record = _next_record(consumer, rows[number])
                if record is not None:
                    found[number] = with_next_record(rows[number], record)
    except KafkaError as error:
        raise OutsideError(f"The records at the committed offsets can't be read: {error}.") from error
    return found


def _next_record(consumer: KafkaConsumer, row: LagRow) -> NextRecord | None:
    """Returns None if the record was not read in time, or is not there any more."""
    if row.committed_offset is None or row.log_start_offset is None or row.high_watermark is None:
        return None
    place = TopicPartition(row.topic, row.partition)
    consumer.assign([place])
    consumer.seek(place, max(row.committed_offset, row.log_start_offset))
    deadline_s = time.monotonic() + READ_S_MAX
    while time.monotonic() < deadline_s:
        for record in consumer.poll(timeout_ms=POLL_MS).get(place, ()):
            # Records appended after the round do not belong to its lag.
            return NextRecord(record.timestamp if record.offset < row.high_watermark else None)
        if (consumer.position(place) or 0) >= row.high_watermark:
            return NextRecord(None)
    return None
