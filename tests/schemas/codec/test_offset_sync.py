"""Goal: MirrorMaker's offset syncs are read as `OffsetSync` of Kafka 4.2's connect-mirror writes them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.offset_sync import OffsetSync, decode_offset_sync, encode_offset_sync
from groupledger.schemas.wire.offset_sync import is_syncs_topic

# recordKey() and recordValue() of org.apache.kafka.connect.mirror.OffsetSync.
GOLDEN = {
    OffsetSync("orders", 0, 0, 0): ("00066f726465727300000000", "00" * 16),
    OffsetSync("zürich.orders", 2**31 - 1, 2**63 - 1, 2**32): (
        "000e7ac3bc726963682e6f72646572737fffffff",
        "7fffffffffffffff0000000100000000",
    ),
}


@pytest.mark.parametrize(("sync", "golden"), GOLDEN.items())
def test_golden_bytes(sync: OffsetSync, golden: tuple[str, str]) -> None:
    """Goal: the bytes that Kafka's own class writes are read, and written again."""
    key, value = map(bytes.fromhex, golden)
    assert decode_offset_sync(key, value) == sync
    assert encode_offset_sync(sync) == (key, value)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_hostile_bytes(key: bytes, value: bytes) -> None:
    """Goal: only DecodeError leaves the codec, and says in which part."""
    with suppress(DecodeError):
        assert decode_offset_sync(key, value).topic is not None


@pytest.mark.parametrize(("key", "value", "part"), [(b"", b"", "key"), (b"\0\1a\0\0\0\0", b"", "value")])
def test_the_part_that_is_damaged(key: bytes, value: bytes, part: str) -> None:
    """Goal: the error says where it is."""
    with pytest.raises(DecodeError) as found:
        decode_offset_sync(key, value)
    assert found.value.part == part


def test_names() -> None:
    """Goal: topics of syncs are known by their name alone."""
    assert is_syncs_topic("mm2-offset-syncs.west.internal")
    assert not any(map(is_syncs_topic, ("mm2-offset-syncs.internal", "mm2-offset-syncs.west", "orders")))
