"""Makes Kafka rows for the tests of the transforms, in batches as Spark passes them on. Some rows are ordinary, others
are hostile."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from groupledger.schemas.codec.records import Record, encode_record
from groupledger.schemas.kafka.names import ZERO_UUID

Row = tuple["bytes | None", "bytes | None"]

KAFKA_ROWS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Lengths of metadata around the longest that the fast path takes, and above what one byte of varint can hold.
METADATA = st.one_of(st.just(""), st.text(st.characters(max_codepoint=127), max_size=140), NAMES)
SUBSCRIPTION = bytes.fromhex("0001 00000001 0006 6f7264657273 ffffffff 00000000".replace(" ", ""))
ASSIGNMENT = bytes.fromhex("0001 00000001 0006 6f7264657273 00000002 00000000 00000001 ffffffff".replace(" ", ""))

TOPIC_IDS = st.sampled_from([ZERO_UUID, "4L6g3nShT-eMCtK--X86sw", "_" * 20 + "8A"])


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    """Returns a batch of these keys and values, spread over fifty partitions, with offsets from 1000 on."""
    count = len(rows)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([key for key, _ in rows], pa.binary()),
            pa.array([value for _, value in rows], pa.binary()),
            pa.array([offset % 50 for offset in range(count)], pa.int32()),
            pa.array(range(1000, 1000 + count), pa.int64()),
            pa.array([1_760_000_000_000_000 + offset for offset in range(count)], pa.timestamp("us", tz="UTC")),
        ],
        schema=KAFKA_ROWS,
    )


def offset_commit(version: int = 4, record_type: str = "offset_commit", **fields: object) -> tuple[bytes, bytes]:
    """Returns the key and the value of an ordinary offset commit as bytes. `fields` replace fields of either."""
    value = {
        "offset": 42,
        "leader_epoch": 7 if version >= 3 else -1,
        "metadata": "",
        "commit_timestamp_ms": 1_760_000_000_000,
        "expire_timestamp_ms": 1_760_000_600_000 if version == 1 else -1,
        "topic_id": ZERO_UUID,
    }
    names = {"group_id": "g1", "topic": "orders", "partition": 3}
    key = {name: fields.pop(name, default) for name, default in names.items()}
    encoded_key, encoded_value = encode_record(Record(record_type, key, version, value | fields))
    assert encoded_value is not None
    return encoded_key, encoded_value


def group_metadata(protocol_type: str = "consumer", **member: Any) -> Row:
    fields = {
        "member_id": "m1",
        "group_instance_id": None,
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 300_000,
        "session_timeout_ms": 45_000,
        "subscription": SUBSCRIPTION,
        "assignment": ASSIGNMENT,
    }
    value = {
        "protocol_type": protocol_type,
        "generation": 5,
        "protocol": "range",
        "leader": "m1",
        "current_state_timestamp_ms": 1,
        "members": [fields | member],
    }
    return encode_record(Record("group_metadata", {"group_id": "g1"}, 3, value))


@st.composite
def offset_commits(draw: st.DrawFn) -> Row:
    version = draw(st.integers(0, 4))
    key, value = offset_commit(
        version,
        draw(st.sampled_from(["offset_commit", "legacy_offset_commit"])),
        group_id=draw(NAMES),
        topic=draw(NAMES),
        partition=draw(INT32),
        offset=draw(INT64),
        leader_epoch=draw(INT32) if version >= 3 else -1,
        metadata=draw(METADATA),
        commit_timestamp_ms=draw(INT64),
        expire_timestamp_ms=draw(INT64) if version == 1 else -1,
        topic_id=draw(TOPIC_IDS) if version == 4 else ZERO_UUID,
    )
    return key, draw(st.sampled_from([value, value, value, None]))


@st.composite
def damaged_offset_commits(draw: st.DrawFn) -> Row:
    """Draws an offset commit whose value has one byte changed, is cut, or has one byte more. A tombstone is drawn
    unchanged."""
    key, value = draw(offset_commits())
    if not value:
        return key, value
    at = draw(st.integers(0, len(value) - 1))
    byte = bytes([draw(st.integers(0, 255))])
    return key, draw(st.sampled_from([value[:at] + byte + value[at + 1 :], value[:at], value[:at] + byte + value[at:]]))


HOSTILE_ROWS = st.lists(
    st.one_of(
        offset_commits(),
        damaged_offset_commits(),
        st.tuples(st.one_of(st.none(), st.binary(max_size=12)), st.one_of(st.none(), st.binary(max_size=40))),
    ),
    max_size=24,
)
