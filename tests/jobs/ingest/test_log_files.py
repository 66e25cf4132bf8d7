"""Goal: a log file is known by what it holds: renamed, compressed, grown or copied, each of its lines is new once."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

import groupledger.jobs.ingest.log_files
from groupledger.jobs.ingest.log_files import (
    REQUEST_LOG,
    SERVER_LOG,
    SPLITS,
    Known,
    found_files,
    match,
    read_splits,
    scan,
)
from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from groupledger.jobs.ingest.log_files import Scanned


def entry(number: int, message: str = "x") -> str:
    return f"[2026-02-10 09:45:00,{number % 1000:03d}] INFO {message} {number} (a.Logger)\n"


def log(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines))
    return path


def scanned(path: Path, kind: str = SERVER_LOG, *known: Known) -> Scanned:
    found = scan(path, kind, {each.source_file.split("-")[1]: [each] for each in known})
    assert found is not None
    return found


def known(found: Scanned) -> Known:
    return Known(found.name, found.line_count, found.prefix_digests)


def lines(found: Scanned, from_line: int = 0) -> list[tuple[int, str]]:
    """Read as tasks do."""
    rows = [
        (str(found.path), found.name, split.offset, split.first_line, split.line_count, split.digest)
        for split in found.splits
        if split.first_line > from_line
    ]
    splits = [dict(zip(SPLITS.names, row, strict=True)) for row in rows]
    return [(line_number, line) for _, line_number, line in read_splits(splits)]


def test_a_grown_file(tmp_path: Path) -> None:
    """Goal: what is behind the last import is new, under its own line numbers; a line without an end waits for it."""
    path = log(tmp_path / "server.log", *map(entry, range(5)), "[2026-02-10 09:45:01,000] INFO ha")
    before = scanned(path)
    assert (before.line_count, before.waiting_count) == (5, 1)
    log(path, *map(entry, range(9)))
    after = scanned(path, SERVER_LOG, known(before))
    assert match(after, [known(before)]) == known(before)
    assert lines(after, before.line_count) == [(number + 1, entry(number).rstrip()) for number in range(5, 9)]


def test_a_renamed_file(tmp_path: Path) -> None:
    """Goal: rotated and compressed it is the same file, with the same name in the table; a shorter copy is, too."""
    before = scanned(log(tmp_path / "server.log", *map(entry, range(50))))
    assert before.name.startswith("20260210094500000-")
    packed = tmp_path / "server.log.1.gz"
    packed.write_bytes(gzip.compress("".join(map(entry, range(60))).encode()))
    after = scanned(packed, SERVER_LOG, known(before))
    assert (after.name, match(after, [known(before)])) == (before.name, known(before))
    assert [number for number, _ in lines(after, before.line_count)] == list(range(51, 61))
    copy = scanned(log(tmp_path / "copy", *map(entry, range(20))), SERVER_LOG, known(before))
    assert match(copy, [known(before)]) == known(before)
    assert lines(copy, before.line_count) == []


def test_another_file_with_the_same_first_line(tmp_path: Path) -> None:
    """Goal: two brokers that start with the same words in the same millisecond have two files."""
    one = scanned(log(tmp_path / "one", entry(0), entry(1), entry(2)))
    other = scanned(log(tmp_path / "other", entry(0), entry(1, "y"), entry(2)), SERVER_LOG, known(one))
    assert other.name == one.name
    assert match(other, [known(one)]) is None


def test_entries_are_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: splits begin with an entry, numbers go on over them, and a message that is not over yet waits."""
    monkeypatch.setattr(groupledger.jobs.ingest.log_files, "SPLIT_BYTES", 100)
    trace = "java.lang.Exception: no\n\tat a.B(B.java:1)\n"
    half = "[2026-02-10 09:45:01,000] INFO a name with\na line break\n"
    path = log(tmp_path / "server.log", *(entry(number) + trace for number in range(20)), half)
    found = scanned(path)
    assert (found.line_count, found.waiting_count) == (60, 2)
    assert len(found.splits) > 5
    assert {split.first_line % 3 for split in found.splits} == {1}
    assert [number for number, _ in lines(found)] == list(range(1, 61))
    log(path, path.read_text(), "and its end (a.Logger)\n")
    assert [number for number, _ in lines(scanned(path, SERVER_LOG, known(found)), 60)] == [61, 62, 63]


def test_a_file_that_changes_under_the_import(tmp_path: Path) -> None:
    """Goal: a file that was renamed between scan and read gives an error, and no line of another one."""
    path = log(tmp_path / "server.log", *map(entry, range(5)))
    found = scanned(path)
    log(path, *map(entry, range(100, 105)))
    with pytest.raises(RuntimeError, match="renamed or written anew"):
        lines(found)
    path.unlink()
    with pytest.raises(RuntimeError, match="renamed or written anew"):
        lines(found)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[2026-02-10 09:45:00,000] DEBUG Completed request:RequestHeader(apiKey=FETCH) -- {} (k)\n", "before 2.8"),
        (b"[2026-02-10 09:45:00,000] DEBUG Completed request:{api_key=1,api_version=5} (k)\n", "before 2.8"),
        (b"not a log\n", "no line that begins with a time and a level"),
        (b"PK\x03\x04....", "compressed with zip"),
        (gzip.compress(entry(1).encode() * 100, mtime=0)[:-9], "can't be read"),  # the bytes are in the id of the test
    ],
)
def test_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    """Goal: what is no such log is refused as a whole, with what to do instead."""
    path = tmp_path / "kafka-request.log"
    path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        scan(path, REQUEST_LOG, {})


def test_nothing_yet(tmp_path: Path) -> None:
    """Goal: an empty file, or one whose first line is being written, is no error."""
    assert scan(log(tmp_path / "a"), REQUEST_LOG, {}) is None
    assert scan(log(tmp_path / "b", "[2026-02-10 09:45"), SERVER_LOG, {}) is None


def test_found_files(tmp_path: Path) -> None:
    """Goal: of a directory the files of that log, of files themselves; one that is not there is named."""
    for name in ("server.log", "server.log.1", "controller.log", "kafkaServer-gc.log"):
        log(tmp_path / name)
    (tmp_path / "server.d").mkdir()
    assert {path.name for path in found_files([tmp_path], "server*")} == {"server.log", "server.log.1"}
    assert [path.name for path in found_files([tmp_path / "controller.log"], "server*")] == ["controller.log"]
    with pytest.raises(InputError, match="no log file or directory"):
        found_files([tmp_path / "gone"], "server*")
