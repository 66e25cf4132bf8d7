"""Goal: offsets of `__share_group_state` that may mean other records are refused; rows are kept whatever they hold."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

from groupledger.jobs.ingest.share_state import _check, _rows
from groupledger.jobs.kafka.share_state_topic import StateRecord, StateTopic
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.settings import load_settings
from groupledger.transforms.shares.rules.state_coverage import StateStretch

TOPIC = StateTopic("oMX_gNuQSiiJz12S_wfpxg", {0: 3, 1: 0}, {0: 9, 1: 4})
LAST = {
    0: StateStretch(0, 0, 9, 1_000, 2_000, "complete"),
    1: StateStretch(1, 0, 4, 1_000, 2_000, "complete"),
}


def test_the_same_topic() -> None:
    """Goal: a topic that goes on where it was read to is no error, nor is one that was never read."""
    _check(TOPIC, LAST, {0: 9, 1: 4})
    _check(TOPIC, {}, {})


def test_records_were_cut_off() -> None:
    """Goal: an end below what was read is an error that names the partition."""
    with pytest.raises(InputError, match="Partition 1 of __share_group_state ends at offset 4"):
        _check(TOPIC, LAST, {0: 9, 1: 5})


def test_more_partitions() -> None:
    """Goal: with another count of partitions, groups are somewhere else."""
    with pytest.raises(InputError, match="had 1 partitions and has 2"):
        _check(TOPIC, {0: LAST[0]}, {0: 9})


def test_what_no_broker_writes_is_kept() -> None:
    """Goal: any bytes, and a time that no calendar has, become a row of the table."""
    settings = load_settings(cluster="test")
    records = [StateRecord(0, 1, 2**62, b"\x00", None), StateRecord(0, 2, None, None, b"x")]
    records.append(StateRecord(0, 3, 5, b"", b""))
    rows = _rows(SimpleNamespace(cluster="test", settings=settings), records, 1_767_571_200_000).to_pylist()  # type: ignore[arg-type]
    assert [row["kafka_offset"] for row in rows] == [1, 2, 3]
    assert [row["decode_error"] for row in rows] == ["truncated", "null_key", "empty_key"]
    assert [row["kafka_timestamp"] for row in rows] == [None, None, datetime(1970, 1, 1, 0, 0, 0, 5_000, timezone.utc)]
