"""Goal: each record of `__share_group_state` is in the table once, whatever ends a pass; a prune is a hole; a topic
that may be another one is refused.

No broker and no Spark: the log is the one that a broker wrote for `test_share_state.py` of the rules.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from kafka.errors import OffsetOutOfRangeError, TopicAuthorizationFailedError

from groupledger.jobs.derive.share_partitions import states_now
from groupledger.jobs.ingest import share_state
from groupledger.jobs.ingest.share_state import _check, _rows, read_share_state
from groupledger.jobs.kafka.share_state_topic import StateRecord, StateTopic
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.tables.share_state_coverage import SHARE_STATE_COVERAGE
from groupledger.schemas.tables.share_state_records import SHARE_STATE_RECORDS
from groupledger.transforms.shares.rules.state_coverage import StateStretch
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.killed import KilledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

RECORDS = Path(__file__).parents[2] / "transforms" / "shares" / "rules" / "data" / "broker_records.txt"

TOPIC = StateTopic("oMX_gNuQSiiJz12S_wfpxg", {0: 3, 1: 0}, {0: 9, 1: 4})
LAST = {
    0: StateStretch(0, 0, 9, 1_000, 2_000, "complete"),
    1: StateStretch(1, 0, 4, 1_000, 2_000, "complete"),
}


def written() -> list[StateRecord]:
    lines = (line.split() for line in RECORDS.read_text().splitlines() if line[0] != "#")
    return [
        StateRecord(0, int(offset), 1_000, bytes.fromhex(key), None if value == "null" else bytes.fromhex(value))
        for offset, key, value in lines
    ]


@dataclass
class Log:
    """A log of one partition that grows and is pruned. `before_piece` is called with the number of each piece."""

    begin: int = 0
    end: int = 0
    topic_id: str = TOPIC.topic_id
    records: list[StateRecord] = field(default_factory=written)
    before_piece: Callable[[int], object] = id

    def topic(self, *_: object) -> StateTopic:
        return StateTopic(self.topic_id, {0: self.begin}, {0: self.end})

    def read(
        self, _servers: str, _settings: object, begins: Mapping[int, int], ends: Mapping[int, int]
    ) -> Iterator[list[StateRecord]]:
        for number, offset in enumerate(range(begins[0], ends[0], 3)):
            self.before_piece(number)
            if offset < self.begin:
                raise OffsetOutOfRangeError
            yield self.records[offset : min(offset + 3, ends[0])]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setattr(share_state, "describe_state_topic", made.topic)
    monkeypatch.setattr(share_state, "state_records", made.read)
    return made


def run(warehouse: Path, check: Callable[[Any], object] = id) -> StateTopic | None:
    with open_test_ledger(None, warehouse) as ledger:  # type: ignore[arg-type]
        topic = read_share_state(ledger, None, "")  # type: ignore[arg-type]
        check(ledger)
        return topic


def stored(warehouse: Path) -> tuple[list[int], list[tuple[int, int, str]]]:
    """Returns the offsets of all rows, and the stretches."""
    with open_test_ledger(None, warehouse) as ledger:  # type: ignore[arg-type]
        offsets = ledger.arrow(SHARE_STATE_RECORDS)["kafka_offset"].to_pylist()
        coverage = ledger.arrow(SHARE_STATE_COVERAGE).to_pylist()
    return sorted(offsets), sorted((row["from_offset"], row["to_offset"], row["completeness"]) for row in coverage)


def test_passes_go_on_where_the_last_has_ended(log: Log, tmp_path: Path) -> None:
    """Goal: each record once; a pass without new records adds none; the first one begins at the log's start."""
    for log.begin, log.end in ((3, 7), (3, 7), (6, 7), (7, 12)):
        run(tmp_path)
    assert stored(tmp_path) == (list(range(3, 12)), [(3, 12, "complete")])


def test_the_table_is_deleted(log: Log, tmp_path: Path) -> None:
    """Goal: the records that the topic still has are read again, and no stretch shows the records that are gone."""
    log.end = 7
    run(tmp_path)
    shutil.rmtree(tmp_path / SHARE_STATE_RECORDS.name)
    log.begin, log.end = 3, 9
    run(tmp_path)
    assert stored(tmp_path) == (list(range(3, 9)), [(3, 9, "complete")])


@pytest.mark.parametrize("piece", range(4))
def test_a_pass_that_is_killed(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """Goal: between any two commits, and after the last; the next pass repeats and loses nothing."""
    log.end = 9
    with monkeypatch.context() as patched:

        def kill(number: int) -> None:
            if number == piece:
                raise KilledError

        if piece < 3:
            log.before_piece = kill
        else:
            patched.setattr(share_state, "_grown", lambda *_: kill(3))
        with pytest.raises(KilledError):
            run(tmp_path)
    log.before_piece = id
    log.end = 10
    run(tmp_path)
    assert stored(tmp_path) == (list(range(10)), [(0, 10, "complete")])


def test_a_prune_is_a_hole(log: Log, tmp_path: Path) -> None:
    """Goal: offsets that are gone before they are read are a hole, also right after an empty stretch; the state is
    that of the log as it is."""
    log.end = log.begin = 2
    run(tmp_path)
    log.begin, log.end = 5, 8
    run(tmp_path)
    log.begin, log.end = 12, 18
    everything: list[Any] = []
    run(tmp_path, lambda ledger: everything.append(states_now(ledger, log.topic())))
    holes = [(2, 5, "unknown"), (8, 12, "unknown")]
    complete = [(5, 8, "complete"), (12, 18, "complete")]
    assert stored(tmp_path) == ([*range(5, 8), *range(12, 18)], sorted(holes + complete))
    assert sorted((key.partition, state.start_offset) for key, state in everything[0].items()) == [(0, 7), (1, 5)]


def test_a_prune_while_it_is_read(log: Log, tmp_path: Path) -> None:
    """Goal: the pass begins again after what is gone, and keeps what it had read."""
    log.end = 12

    def prune(number: int) -> None:
        if number == 1:
            log.begin = 7

    log.before_piece = prune
    run(tmp_path)
    stretches = [(0, 3, "complete"), (3, 7, "unknown"), (7, 12, "complete")]
    assert stored(tmp_path) == ([0, 1, 2, *range(7, 12)], stretches)


def test_another_topic(log: Log, tmp_path: Path) -> None:
    """Goal: a topic of the same name with another id is refused, before anything of it is written."""
    log.end = 5
    run(tmp_path)
    log.topic_id = "x" * 22
    with pytest.raises(InputError, match="was created again"):
        run(tmp_path)
    assert stored(tmp_path) == (list(range(5)), [(0, 5, "complete")])


def test_no_topic_and_no_right(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: both are no error; without the topic no table is made."""
    with monkeypatch.context() as patched:
        patched.setattr(share_state, "describe_state_topic", lambda *_: None)
        assert run(tmp_path, lambda ledger: not ledger.exists(SHARE_STATE_RECORDS) or pytest.fail("a table")) is None

    def refuse(_: int) -> None:
        raise TopicAuthorizationFailedError

    log.end, log.before_piece = 3, refuse
    assert run(tmp_path) is None
    assert stored(tmp_path)[0] == []


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
    ledger: Any = SimpleNamespace(cluster="test", settings=settings, storage=None)
    rows = _rows(ledger, records, 1_767_571_200_000).to_pylist()
    assert [row["kafka_offset"] for row in rows] == [1, 2, 3]
    assert [row["decode_error"] for row in rows] == ["truncated", "null_key", "empty_key"]
    assert [row["kafka_timestamp"] for row in rows] == [None, None, datetime(1970, 1, 1, 0, 0, 0, 5_000, timezone.utc)]
