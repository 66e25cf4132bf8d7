"""Reads `__share_group_state` into `share_state_records`, in a step of its own beside the stream of `ingest`.

The step reads a batch that continues where the tables end: after the last row and the last stretch of
`share_state_coverage`. Each piece is one Delta commit under the ledger's lease, so that a row is written exactly once,
however a pass ends. New stretches are written before their rows, and are extended after them.

Brokers prune the topic every few minutes. Records that were pruned before they were read leave a hole in the coverage,
which is not an error. If a cluster does not have the topic, nothing is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from kafka.errors import KafkaError, OffsetOutOfRangeError, TopicAuthorizationFailedError

from groupledger.jobs.kafka.share_state_topic import describe_state_topic, state_records
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.warehouse.commits import as_new
from groupledger.jobs.warehouse.ledger import begin_again_if_lost
from groupledger.jobs.warehouse.source import own_groups
from groupledger.jobs.warehouse.upsert import of_rows
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import instant_if_known, instant_of_ms, ms_if_known
from groupledger.schemas.kafka.names import SHARE_STATE_TOPIC
from groupledger.schemas.tables.share_state_coverage import SHARE_STATE_COVERAGE
from groupledger.schemas.tables.share_state_records import SHARE_STATE_RECORDS
from groupledger.transforms.records.decode_share_state import share_state_row
from groupledger.transforms.shares.rules.state_coverage import StateStretch, new_stretches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.kafka.share_state_topic import StateRecord, StateTopic
    from groupledger.jobs.warehouse.ledger import Ledger

TABLES = (SHARE_STATE_RECORDS, SHARE_STATE_COVERAGE)
# A broker may prune between the question where the log starts and the reading.
ATTEMPTS = 5


def read_share_state(ledger: Ledger, brokers: Brokers, bootstrap_servers: str) -> StateTopic | None:
    """Reads up to the topic's present ends; returns the topic as it was described, with these ends. Returns None if
    there is no such topic, or if this user may not read it. Raises InputError if it is not the topic that was read
    before, OutsideError if it can't be read."""
    for _ in range(ATTEMPTS):
        at_ms = now_ms()
        topic = describe_state_topic(brokers, ledger.settings.sampling)
        if topic is None:
            return None
        try:
            count = _read(ledger, topic, bootstrap_servers, at_ms)
        except OffsetOutOfRangeError:
            continue
        except TopicAuthorizationFailedError:
            ledger.warn(f"share groups: not read, since the principal lacks Read on {SHARE_STATE_TOPIC}")
            return None
        except KafkaError as error:
            raise OutsideError(f"The records of {SHARE_STATE_TOPIC} can't be read: {error}.") from error
        if count:
            ledger.say(f"share groups: {count:,} records of {SHARE_STATE_TOPIC}")
        return topic
    raise OutsideError(f"{SHARE_STATE_TOPIC} is pruned faster than it can be read: run the command again.")


def _read(ledger: Ledger, topic: StateTopic, bootstrap_servers: str, at_ms: int) -> int:
    """Reads the new records, and returns their number. The ends of the topic were asked for at `at_ms`."""
    if begin_again_if_lost(ledger, SHARE_STATE_RECORDS, SHARE_STATE_COVERAGE):
        ledger.warn(f"the table {SHARE_STATE_RECORDS.name} is gone: what the topic still has is read again")
    ledger.create(*TABLES)
    last = _last_stretches(ledger, topic)
    positions = _positions(ledger, last)
    _check(topic, last, positions)
    new = new_stretches(last, positions, topic.log_starts, at_ms)
    _write_coverage(ledger, topic, new)
    last |= {stretch.kafka_partition: stretch for stretch in new}
    positions |= {stretch.kafka_partition: stretch.to_offset for stretch in new}
    count = 0
    for records in state_records(bootstrap_servers, ledger.settings, positions, topic.ends):
        ledger.commits.append(SHARE_STATE_RECORDS, _rows(ledger, records, at_ms))
        count += len(records)
    reached = [_grown(stretch, topic.ends[partition], at_ms) for partition, stretch in sorted(last.items())]
    _write_coverage(ledger, topic, reached)
    return count


def _grown(stretch: StateStretch, end: int, at_ms: int) -> StateStretch:
    return StateStretch(
        stretch.kafka_partition, stretch.from_offset, end, stretch.from_time_ms, at_ms, stretch.completeness
    )


def _check(topic: StateTopic, last: Mapping[int, StateStretch], positions: Mapping[int, int]) -> None:
    """Raises InputError if offsets of the topic may mean other records than those that were read."""
    remedy = "use another --cluster name or another --warehouse from now on"
    if last and last.keys() != topic.ends.keys():
        raise InputError(
            f"{SHARE_STATE_TOPIC} had {len(last)} partitions and has {len(topic.ends)}: share groups are looked for in"
            f" other partitions; {remedy}."
        )
    for partition, position in positions.items():
        if position > topic.ends[partition]:
            raise InputError(
                f"Partition {partition} of {SHARE_STATE_TOPIC} ends at offset {topic.ends[partition]:,}, and the ledger"
                f" has read up to {position:,}: records were cut off; {remedy}."
            )


def _last_stretches(ledger: Ledger, topic: StateTopic) -> dict[int, StateStretch]:
    """Returns the last stretch of each partition. Raises InputError if they are of another topic."""
    last: dict[int, StateStretch] = {}
    rows = ledger.arrow(SHARE_STATE_COVERAGE).to_pylist()
    for row in sorted(rows, key=lambda row: row["from_offset"]):
        if row["topic_id"] != topic.topic_id:
            raise InputError(
                f"{SHARE_STATE_TOPIC} was created again: the ledger of cluster {ledger.cluster} has read another topic"
                " of"
                " that name; use another --cluster name or another --warehouse for it."
            )
        last[row["kafka_partition"]] = StateStretch(
            row["kafka_partition"],
            row["from_offset"],
            row["to_offset"],
            ms_if_known(row["from_time"]),
            ms_if_known(row["to_time"]),
            row["completeness"],
        )
    return last


def _positions(ledger: Ledger, last: Mapping[int, StateStretch]) -> dict[int, int]:
    """Returns the next offset to read of each partition. After an interrupted pass there may be rows after the end of
    the last stretch."""
    positions = {partition: stretch.to_offset for partition, stretch in last.items()}
    if positions:
        is_new = pc.field("kafka_offset") >= min(positions.values())
        found = ledger.arrow(SHARE_STATE_RECORDS, is_new, ["kafka_partition", "kafka_offset"])
        for partition, offset in zip(*(found[name].to_pylist() for name in found.column_names), strict=True):
            positions[partition] = max(positions[partition], offset + 1)
    return positions


def _write_coverage(ledger: Ledger, topic: StateTopic, stretches: Iterable[StateStretch]) -> None:
    rows = [
        (
            ledger.cluster,
            each.kafka_partition,
            each.from_offset,
            each.to_offset,
            instant_if_known(each.from_time_ms),
            instant_if_known(each.to_time_ms),
            each.completeness,
            topic.topic_id,
        )
        for each in stretches
    ]
    if rows:
        ledger.commits.merge(
            SHARE_STATE_COVERAGE,
            of_rows(rows, SHARE_STATE_COVERAGE),
            f"old.cluster = '{ledger.cluster}'",
            # A stretch that is still empty becomes part of the hole if its first record would have been pruned.
            updates=as_new(["to_offset", "from_time", "to_time", "completeness"]),
        )


def _rows(ledger: Ledger, records: Iterable[StateRecord], at_ms: int) -> pa.Table:
    constants = {"cluster": ledger.cluster, "ingest_date": instant_of_ms(at_ms).date()}
    privacy = ledger.settings.privacy.resolve()
    is_own = own_groups(ledger.storage, ledger.cluster, ledger.settings.kafka.own)
    every: list[dict[str, Any]] = [
        constants
        | {
            "kafka_partition": each.partition,
            "kafka_offset": each.offset,
            "kafka_timestamp": each.written_at,
        }
        | share_state_row(each.key, each.value, privacy)
        for each in records
    ]
    rows = [row for row in every if is_own(row.get("group_id"))]
    return pa.Table.from_pylist(rows, arrow_schema(SHARE_STATE_RECORDS.schema))
