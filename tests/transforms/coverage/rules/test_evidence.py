"""Goal: a stretch that is called complete is complete, however Kafka's cleaner works between reads and during them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from groupledger.transforms.coverage.rules.evidence import BatchHeader, Gap, Read, UnreadError, explained_from, judged
from groupledger.transforms.coverage.rules.stretches import Reading, stretches
from lab.truth.cleaned_log import CleanedLog

KEYS = 12
RETENTION_MS = 40


def a_log(seed: int) -> CleanedLog:
    return CleanedLog(random=Random(seed), key_count=KEYS // 2, retention_ms=RETENTION_MS)


def append(log: CleanedLog, count: int) -> None:
    """Appends some batches: markers, batches of aborted transactions, tombstones, and plain records."""
    for _ in range(count):
        kind = log.random.random()
        size = 1 if kind < 0.15 else log.random.randint(1, 4)
        keys = [log.random.randrange(KEYS) for _ in range(size)]
        offsets = log.append(keys, is_control=kind < 0.15, is_aborted=0.15 <= kind < 0.3)
        log.tombstones |= {offset for offset in offsets if log.random.random() < 0.3}
        log.now_ms += size


@pytest.mark.parametrize("first_seed", range(0, 1_000, 100))
def test_no_claim_is_false(first_seed: int) -> None:
    """Goal: in a stretch with a proof no committed record is missing, and where a complete one begins the newest record
    of every key is among the rows, or there was none; pieces that were judged before a crash are judged again."""
    for seed in range(first_seed, first_seed + 100):
        read_in_passes(a_log(seed))


def read_in_passes(log: CleanedLog) -> None:
    """Plays a log with its cleaner, reads it in passes, and checks each verdict."""
    readings: list[Reading] = []
    rows: dict[int, object] = {}
    position = known_until_ms = 0
    append(log, log.random.randint(0, 12))
    for _ in range(log.random.randint(1, 6)):
        append(log, log.random.randint(0, 25))
        if log.random.random() < 0.5:
            log.clean()
        began_ms, goal = log.now_ms, log.end
        readings = readings or [log.first_reading()]
        while position < goal:
            end = min(goal, position + log.random.randint(3, 30))
            if log.random.random() < 0.2:
                log.read(readings, position, end, known_until_ms)  # and crashes
                log.clean()
            log.pause()
            readings, piece = log.read(readings, position, end, known_until_ms)
            rows |= piece
            position = end
            check(log, readings, rows, position)
            check_state(log, readings, rows, position)
        known_until_ms = began_ms


def check_state(log: CleanedLog, readings: list[Reading], rows: dict[int, object], position: int) -> None:
    """Checks that the known state of a key is its newest record, unless the readings say that they can't know."""
    lost_from = max((each.from_offset for each in readings if each.is_state_lost), default=0)
    held = {key: at for at, key in sorted(rows.items())}
    for key, at in held.items():
        newest = max(offset for offset, of in log.committed.items() if of == key)
        is_to_come = newest >= position
        assert newest == at or is_to_come or at < lost_from or at in log.tombstones, (key, at, newest, readings)


def check(log: CleanedLog, readings: list[Reading], rows: dict[int, object], position: int) -> None:
    found = stretches(readings, position, None)
    assert [each.from_offset for each in found[1:]] == [each.to_offset for each in found[:-1]]
    for stretch in found:
        if stretch.proof is None:
            continue
        inside = {at: key for at, key in log.committed.items() if stretch.from_offset <= at < stretch.to_offset}
        assert inside.items() <= rows.items(), (stretch, readings)
        if stretch.completeness != "complete":
            continue
        before = {key: at for at, key in sorted(log.committed.items()) if at < stretch.from_offset}
        seen = {key: at for at, key in sorted(rows.items()) if at < stretch.from_offset}
        gone = {key for key, at in before.items() if at in log.tombstones and at not in rows}  # left to check_state
        assert before.items() - seen.items() <= {(key, before[key]) for key in gone}, (stretch, readings)
        assert seen.keys() - before.keys() == set(), (stretch, readings)


@pytest.mark.parametrize("seed", range(200))
def test_keys_that_come_again(seed: int) -> None:
    """Goal: if no header shows the gaps, a key that comes again proves that all records are there from then on, in
    whatever state a cleaning was left; and some logs give such a proof."""
    log = a_log(seed)
    log.has_headers = False
    append(log, 60)
    for _ in range(3):
        log.clean()
    begin = log.random.randrange(0, log.end // 2) if seed % 2 else 0
    readings, rows = log.read([log.first_reading()], begin, log.end, 0)
    check(log, readings, rows, log.end)


def test_a_cleaning_that_is_half_done() -> None:
    """Goal: a segment below was thinned by a record far above, and a key comes again in between: all records there are
    reported, and nothing is claimed about the thinned key before the log's end."""
    headers = [BatchHeader(0, 3, 2, is_without_rows=False), BatchHeader(4, 9, 6, is_without_rows=False)]
    assert explained_from([Gap(1, 3)], 0, lambda *_: headers) == 3
    read = Read(begin=0, end=10, begin_ms=0, explained_from=3, proof="batch_headers", at_end=(12, 700))
    first = Reading(from_offset=0, complete_from=10, complete_from_ms=600)
    assert judged([first], read) == [
        replace(first, complete_from=3, settled_from=12, complete_from_ms=700, proof="batch_headers")
    ]


def test_a_log_that_nobody_cleaned_is_complete_from_its_birth() -> None:
    """Goal: markers and aborted transactions are explained, so that all of it is known, by the headers alone."""
    log = a_log(1)
    append(log, 200)
    log.random = Random(5)  # by which nothing is cleaned during the read
    readings, _ = log.read([log.first_reading()], 0, log.end, 0)
    (stretch,) = stretches(readings, log.end, None)
    assert (stretch.from_offset, stretch.completeness, stretch.proof) == (0, "complete", "batch_headers")


def test_headers_are_asked_for_from_the_end() -> None:
    """Goal: the price is the explained gaps: below the first gap that is not explained nothing is fetched."""
    asked: list[tuple[int, int]] = []

    def headers(begin: int, end: int) -> list[BatchHeader]:
        asked.append((begin, end))
        return [BatchHeader(90, 90, 1, is_without_rows=True)] if begin <= 90 < end else []

    assert explained_from([Gap(10, 20), Gap(60, 61), Gap(90, 91)], 0, headers) == 61
    assert asked == [(0, 91)]


def test_a_record_that_was_not_delivered() -> None:
    """Goal: a committed record that lies whole in the log and that we lack is no compaction, and is reported."""
    with pytest.raises(UnreadError, match="offset 5"):
        explained_from([Gap(5, 6)], 0, lambda *_: [BatchHeader(4, 6, 3, is_without_rows=False)])
