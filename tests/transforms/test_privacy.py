"""Goal: with hosts hashed or dropped no host of a client leaves the decoder, whatever kind of record it is in."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from groupledger.schemas.codec.connect_protocol import encode_connect_metadata
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.codec.records import Record, encode_record
from groupledger.schemas.wire.record_types import RECORD_TYPES
from groupledger.transforms.privacy import DROP, HASH, KEEP, Privacy
from groupledger.transforms.records.decode import DECODED, decode_batches
from lab.warehouses.rows import Row, batch_of, group_metadata

CANARY = "canary.example.org"
KEY = b"a key of some length"


def decoded(row: Row, privacy: Privacy) -> dict[str, Any]:
    batches = list(decode_batches([batch_of([row])], privacy))
    (found,) = pa.Table.from_batches(batches, schema=DECODED).to_pylist()
    return found  # type: ignore[no-any-return]


def with_canary(node: Any) -> Any:
    """Returns the values of a record with the canary as every host."""
    if isinstance(node, list):
        return [with_canary(each) for each in node]
    if not isinstance(node, dict):
        return node
    hosts = {"client_host", "host"} & node.keys()
    return {name: f"/{CANARY}" if name in hosts else with_canary(value) for name, value in node.items()}


def rows_with_hosts() -> dict[str, Row]:
    found: dict[str, Row] = {}
    for kind in RECORD_TYPES:
        key = {field.column: field.default_value() for field in kind.key} | {"group_id": "g"}
        value = with_canary({field.column: field.default_value() for field in kind.value.fields})
        if "user_endpoint" in value:
            value["user_endpoint"] = {"host": CANARY, "port": 1}
        if CANARY in repr(value):
            found[kind.record_type] = encode_record(Record(kind.record_type, key, kind.value.latest_version, value))
    return found


def classic(protocol_type: str, subscription: bytes) -> Row:
    key, value = group_metadata(protocol_type, subscription=subscription)
    assert value is not None
    return key, value


CONNECT = encode_connect_metadata(
    ProtocolMessage(1, {"url": f"http://{CANARY}:8083/", "config_offset": 1, "allocation": None})
)


@pytest.mark.parametrize("how", [HASH, DROP])
def test_no_host_leaves_the_decoder(how: str) -> None:
    """Goal: a host in any type of record, in a Connect worker's own bytes, and in bytes that can't be decoded."""
    rows = rows_with_hosts()
    assert {"consumer_group_member_metadata", "share_group_member_metadata", "streams_group_member_metadata"} <= {*rows}
    rows["connect"] = classic("connect", CONNECT)
    rows["unknown protocol"] = classic("mine", CANARY.encode())
    rows["quarantined"] = (b"\x00\x02\x00\x01g", b"\x00\x63" + CANARY.encode())
    for name, row in rows.items():
        assert CANARY in repr(decoded(row, Privacy())) or name in {"connect", "unknown protocol"}
        found = decoded(row, Privacy(KEEP, how, KEY))
        assert CANARY not in repr(found), name
        assert b64(CANARY) not in repr(found), name
    kept = decoded(rows["quarantined"], Privacy(KEEP, how, KEY))
    assert (kept["raw_key"], kept["raw_value"]) == (None, None)
    assert "the bytes may hold a host" in kept["decode_error_detail"]


def b64(text: str) -> str:
    """Returns the middle of the text's base64, as it is wherever the text begins at a multiple of three bytes."""
    import base64

    return base64.b64encode(text.encode()).decode()[:20]


def test_a_hash_is_one_for_records_and_logs() -> None:
    """Goal: the same host has the same hash wherever Kafka writes it, another key gives another, and it is no host."""
    privacy = Privacy(HASH, HASH, KEY)
    assert privacy.host("/10.1.2.3") == privacy.host("10.1.2.3")
    assert privacy.host("10.1.2.3") != privacy.host("10.1.2.4")
    assert privacy.host("10.1.2.3") != Privacy(HASH, HASH, b"another").host("10.1.2.3")
    assert len(privacy.host("10.1.2.3") or "") == len("h:") + 16
    assert privacy.principal("User:alice") != "User:alice"
    assert pickle.loads(pickle.dumps(privacy)) == privacy  # noqa: S301 - our own
    assert "some length" not in repr(privacy)


def test_what_members_of_kafkas_consumer_wrote_stays() -> None:
    """Goal: without hosts the topics and partitions of members are still there."""
    row = decoded(group_metadata(), Privacy(KEEP, DROP))
    (member,) = json.loads(row["record_json"])["members"]
    assert member["client_host"] is None
    assert member["consumer_subscription"]["topics"] == ["orders"]
    assert member["consumer_assignment"]["assigned_partitions"] == [{"topic": "orders", "partitions": [0, 1]}]


@pytest.mark.parametrize(
    "text", ["host 10.1.2.3 went", "at /10.1.2.3, and", "clientHost=/10.1.2.3)", "at /0:0:0:0:0:ffff:a01:203"]
)
def test_hosts_in_text(text: str) -> None:
    """Goal: an address in the message of a log is guarded; a version or a name with digits is not taken for an
    address."""
    guarded = Privacy(hosts=DROP).hosts_in_text(text)
    assert "10.1.2.3" not in guarded
    assert "a01:203" not in guarded
    assert Privacy(hosts=DROP).hosts_in_text("group app-10.1.2.3-x, 4.2.0") == "group app-10.1.2.3-x, 4.2.0"


def test_a_long_line() -> None:
    """Goal: the time for a line is linear in its length, whatever a client wrote into it."""
    for piece in ("1.", "/", "a:", "clientHost=", "10.1.2.3"):
        Privacy(hosts=DROP).hosts_in_text(piece * 200_000)
