"""Reads MirrorMaker's offset syncs into `offset_syncs`, in a step of its own of a pass.

The step finds the topics by their names (`schemas.wire.offset_sync`), and continues after the last row of each. A
cluster without such a topic costs one request for metadata. Of a pass, each mirrored partition keeps at most
`KEPT_MAX` syncs, evenly among all that were read: a busy partition has one for every hundred records, and
`transforms.offsets.rules.failover` is right with any of them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from groupledger.jobs.ingest.samples import check_sampled_cluster
from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.sampling import describe_topics, sample_watermarks
from groupledger.jobs.kafka.share_state_topic import state_records
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.offset_sync import decode_offset_sync
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.offset_syncs import OFFSET_SYNCS
from groupledger.schemas.wire.offset_sync import is_syncs_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.jobs.kafka.sampling import SampledWatermark
    from groupledger.jobs.kafka.share_state_topic import StateRecord
    from groupledger.jobs.warehouse.ledger import Ledger

KEPT_MAX = 64


def read_offset_syncs(ledger: Ledger, bootstrap_servers: str) -> int:
    """Reads up to the present ends of the topics, and returns the number of rows. Raises InputError if the ledger is
    fed from another cluster, OutsideError if a topic can't be read."""
    with connect(bootstrap_servers, ledger.settings) as brokers:
        _, found, _ = describe_topics(brokers, ledger.settings.sampling, None)
        topics = sorted({place.topic for place in found if is_syncs_topic(place.topic)})
        ends, _ = sample_watermarks(brokers, ledger.settings.sampling, topics) if topics else ((), {})
    if not topics:
        return 0
    check_sampled_cluster(ledger, bootstrap_servers)
    ledger.create(OFFSET_SYNCS)
    return sum(_read(ledger, bootstrap_servers, topic, [row for row in ends if row.topic == topic]) for topic in topics)


def _read(ledger: Ledger, bootstrap_servers: str, topic: str, ends: Iterable[SampledWatermark]) -> int:
    reached = _reached(ledger, topic)
    known = {row.partition: row.offsets for row in ends}
    begins = {
        partition: max(reached.get(partition, 0), offsets[0])
        for partition, offsets in known.items()
        if offsets is not None
    }
    limits = {partition: offsets[-1] for partition, offsets in known.items() if offsets is not None}
    if any(reached.get(partition, 0) > end for partition, end in limits.items()):
        ledger.warn(
            f"offset syncs: {printable(topic)} ends before what was read of it: it was made anew, and is not read"
        )
    at_ms, count = now_ms(), 0
    try:
        for records in state_records(bootstrap_servers, ledger.settings, begins, limits, topic):
            rows = kept([row_of(each) for each in records])
            constants = {"cluster": ledger.cluster, "syncs_topic": topic, "ingest_date": instant_of_ms(at_ms).date()}
            table = pa.Table.from_pylist([constants | row for row in rows], arrow_schema(OFFSET_SYNCS.schema))
            ledger.commits.append(OFFSET_SYNCS, table)
            count += len(rows)
    except TopicAuthorizationFailedError:
        ledger.warn(f"offset syncs: not read, since the principal lacks Read on {printable(topic)}")
    except KafkaError as error:
        raise OutsideError(f"The records of {printable(topic)} can't be read: {error}.") from error
    if count:
        ledger.say(f"offset syncs: {count:,} of {printable(topic)}")
    return count


def _reached(ledger: Ledger, topic: str) -> dict[int, int]:
    """Returns, by partition of the topic, the offset after the last row."""
    rows = ledger.arrow(OFFSET_SYNCS, pc.field("syncs_topic") == topic, ["kafka_partition", "kafka_offset"])
    last = rows.group_by("kafka_partition").aggregate([("kafka_offset", "max")]).to_pylist()
    return {row["kafka_partition"]: row["kafka_offset_max"] + 1 for row in last}


def row_of(record: StateRecord) -> dict[str, Any]:
    """Returns the columns of a record, decoded or with the reason why it can't be."""
    row: dict[str, Any] = {
        "kafka_partition": record.partition,
        "kafka_offset": record.offset,
        "synced_at": record.written_at,
    }
    try:
        return row | decode_offset_sync(record.key or b"", record.value or b"")._asdict()
    except DecodeError as error:
        return row | {"decode_error": error.reason}


def kept(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns at most KEPT_MAX rows of each mirrored partition, among them the last, and so where the next pass
    begins."""
    of_place: defaultdict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        of_place[row["kafka_partition"], row.get("topic"), row.get("partition")].append(row)
    found = []
    for each in of_place.values():
        step = -(-len(each) // KEPT_MAX)
        found += each[::-step][::-1]
    return sorted(found, key=lambda row: (row["kafka_partition"], row["kafka_offset"]))
