"""Goal: a log file is recognized by its content: renamed, compressed, grown or copied, each of its lines is new
once."""

from __future__ import annotations

import bz2
import gzip
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import groupledger.jobs.ingest.log_files
from groupledger.coordinator.model.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetToCommit,
    PartitionResult,
)
from groupledger.coordinator.simulator.network import Exchange
from groupledger.coordinator.simulator.request_log import render_line
from groupledger.jobs.ingest.log_files import (
    REQUEST_LOG,
    SERVER_LOG,
    SPLITS,
    ImportedFile,
    LineLimits,
    ScanPosition,
    list_log_files,
    match,
    read_splits,
    scan,
)
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from groupledger.jobs.ingest.log_files import Scanned
    from groupledger.transforms.logs.imported_lines import Line

LINE_BYTES_MAX = 1_000
PIECES = (
    "[2026-02-10 09:45:01,000] INFO a (a.Logger)\n",
    "[2026-02-10 09:45:02,000] INFO a name with\na line break\n",
    "java.lang.Exception: no\n\tat a.B(B.java:1)\n",
    "and its end (a.Logger)\n",
)
LIMITS = LineLimits(LINE_BYTES_MAX, unpacked_bytes=100_000)


def entry(number: int, message: str = "x") -> str:
    return f"[2026-02-10 09:45:00,{number % 1000:03d}] INFO {message} {number} (a.Logger)\n"


def log(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines))
    return path


def scanned(path: Path, kind: str = SERVER_LOG, *known: ImportedFile, position: ScanPosition | None = None) -> Scanned:
    found = scan(path, kind, {each.source_file.split("-")[1]: [each] for each in known}, LIMITS, position)
    assert found is not None
    return found


def known(found: Scanned) -> ImportedFile:
    return ImportedFile(found.name, found.line_count, found.prefix_digests)


def lines(found: Scanned, from_line: int = 0) -> list[tuple[int, str]]:
    return [(line.line_number, line.text) for line in read(found, from_line)]


def read(found: Scanned, from_line: int = 0) -> list[Line]:
    """Read as tasks do."""
    rows = found.rows(found.name, from_line)
    splits = [dict(zip(SPLITS.names, row, strict=True)) for row in rows]
    return list(read_splits(splits, LINE_BYTES_MAX))


def test_a_grown_file(tmp_path: Path) -> None:
    """Goal: lines after the last import are new, and keep their own line numbers; a line without an end waits for its
    end."""
    path = log(tmp_path / "server.log", *map(entry, range(5)), "[2026-02-10 09:45:01,000] INFO ha")
    before = scanned(path)
    assert (before.line_count, before.waiting_count) == (5, 1)
    log(path, *map(entry, range(9)))
    after = scanned(path, SERVER_LOG, known(before))
    assert match(after, [known(before)]) == known(before)
    assert lines(after, before.line_count) == [(number + 1, entry(number).rstrip()) for number in range(5, 9)]


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.data())
def test_from_where_the_last_scan_ended(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], data: st.DataObject
) -> None:
    """Goal: a file that is looked at while it grows, by entries, traces and halves of lines, gives at each look what it
    gives when it is read from its beginning, but for the splits of before."""
    path = tmp_path_factory.mktemp("log") / "server.log"
    before: list[ImportedFile] = []
    text, position = entry(0) + "".join(pieces), None
    for end in [*sorted(data.draw(st.sets(st.integers(len(entry(0)), len(text)), max_size=5))), len(text)]:
        with path.open("a") as grown:
            grown.write(text[path.stat().st_size : end])
        found = scanned(path, SERVER_LOG, *before, position=position)
        whole = scanned(path, SERVER_LOG, *before)
        from_line = before[0].line_count if before else 0
        assert replace(found, splits=(), position=None) == replace(whole, splits=(), position=None)
        assert lines(found, from_line) == lines(whole, from_line)
        before, position = [known(found)], found.position


def test_only_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a look at a grown file does not go over its past again, and one at a file that was written anew does."""
    path = log(tmp_path / "server.log", *map(entry, range(50)))
    position = scanned(path).position
    seen = []
    lines_there = groupledger.jobs.ingest.log_files.lines_of

    def noted(*arguments: Any) -> Iterator[Any]:
        for line, rest in lines_there(*arguments):
            seen.append(line)
            yield line, rest

    monkeypatch.setattr(groupledger.jobs.ingest.log_files, "lines_of", noted)
    log(path, *map(entry, range(53)))
    assert (scanned(path, position=position).line_count, len(seen)) == (53, 3)
    log(path, *(entry(number, "another") for number in range(60)))
    assert (scanned(path, position=position).line_count, len(seen)) == (60, 3 + 60)


def second_pass(*minutes: int) -> list[str]:
    return [f"[2026-10-25 02:{minute:02d}:00,000] INFO x (a.Logger)\n" for minute in minutes]


def test_an_hour_that_comes_twice_in_pieces(tmp_path: Path) -> None:
    """Goal: each look knows in which pass of a repeated hour the new lines are, from where the last look ended, and
    anew, as after a restart; so does a look at the file that continues this one."""
    vienna = replace(LIMITS, time_zone="Europe/Vienna")
    path = log(tmp_path / "server.log", *second_pass(10, 50, 5))
    first = scan(path, SERVER_LOG, {}, vienna)
    assert first is not None
    assert [tuple(each) for each in first.passes] == [(1, 2, 0), (3, None, 1)]
    log(path, *second_pass(10, 50, 5, 20, 55))
    for position in (first.position, None):
        later = scan(path, SERVER_LOG, {"x": []}, vienna, position)
        assert later is not None
        assert (later.line_count, later.passes) == (5, first.passes)
    following = scan(log(tmp_path / "next.log", *second_pass(56, 57)), SERVER_LOG, {}, vienna, hours=first.hours)
    alone = scan(tmp_path / "next.log", SERVER_LOG, {}, vienna)
    assert following is not None
    assert alone is not None
    assert ([tuple(each) for each in following.passes], alone.passes) == ([(1, None, 1)], ())
    assert scanned(path).passes == ()


def test_a_request_log_over_the_hour(tmp_path: Path) -> None:
    """Goal: lines that need no look get none, and the step back is seen all the same."""
    times = [f"[2026-10-25 {hour:02d}:{minute:02d}:00,000]" for hour in (1, 2, 2, 3) for minute in range(0, 60, 5)]
    lines = [f'{time} DEBUG Completed request:{{"x":1}} (kafka.request.logger)\n' for time in times]
    found = scan(log(tmp_path / "r.log", *lines), REQUEST_LOG, {}, replace(LIMITS, time_zone="Europe/Vienna"))
    assert found is not None
    assert [tuple(each) for each in found.passes] == [(13, 24, 0), (25, 36, 1)]


def test_a_line_that_a_container_has_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no split begins within a line that is cut, and one whose end is not there yet waits, in both logs."""
    monkeypatch.setattr(groupledger.jobs.ingest.log_files, "SPLIT_BYTES", 100)
    prefix = "2026-02-10T09:45:00.000000000Z stdout"
    parts = [f"{prefix} P {entry(0)[:40]}\n", f"{prefix} P {'x' * 30}\n", f"{prefix} F {entry(0)[40:]}"]
    for kind in (SERVER_LOG, REQUEST_LOG):
        path = log(tmp_path / kind, *parts * 10, *parts[:2])
        found = scanned(path, kind)
        assert (found.line_count, found.waiting_count) == (30, 2)
        assert len(found.splits) == 10
        assert {split.first_line % 3 for split in found.splits} == {1}
        log(path, *parts * 11)
        for position in (found.position, None):
            assert scanned(path, kind, known(found), position=position).line_count == 33


@pytest.mark.parametrize(
    "compress", [gzip.compress, bz2.compress, lambda data: pa.Codec("zstd").compress(data, asbytes=True)]
)
def test_every_compression(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """Goal: a file is recognized whatever it is compressed with, and also if it is read from its middle; a file that
    was cut short is refused with the place, and one that unpacks to too much is read in part."""
    before = scanned(log(tmp_path / "server.log", *map(entry, range(50))))
    packed = tmp_path / "server.log.1"
    packed.write_bytes(compress("".join(map(entry, range(60))).encode()))
    after = scanned(packed, SERVER_LOG, known(before))
    assert match(after, [known(before)]) == known(before)
    assert [number for number, _ in lines(after, before.line_count)] == list(range(51, 61))
    packed.write_bytes(packed.read_bytes()[:-5])
    with pytest.raises(InputError, match="can't be read"):
        scan(packed, SERVER_LOG, {}, LIMITS)
    packed.write_bytes(compress("".join(map(entry, range(5_000))).encode()))
    assert not scanned(packed).is_whole


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
        # The bytes are in the id of the test.
        (gzip.compress(entry(1).encode() * 100, mtime=0)[:-9], "can.t be read .*: give the whole"),
        (gzip.compress(entry(1).encode(), mtime=0)[:12] + b"\xff" * 40, "can't be read"),
    ],
)
def test_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    """Goal: a file that is no such log is refused as a whole, with the remedy."""
    path = tmp_path / "kafka-request.log"
    path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        scan(path, REQUEST_LOG, {}, LIMITS)


def test_nothing_yet(tmp_path: Path) -> None:
    """Goal: an empty file, or one whose first line is being written, is no error."""
    assert scan(log(tmp_path / "a"), REQUEST_LOG, {}, LIMITS) is None
    assert scan(log(tmp_path / "b", "[2026-02-10 09:45"), SERVER_LOG, {}, LIMITS) is None


def test_found_files(tmp_path: Path) -> None:
    """Goal: the names find the files of that log in a directory, and any file that is given itself; a missing file is
    named."""
    for name in ("server.log", "server.log.1", "controller.log", "kafkaServer-gc.log"):
        log(tmp_path / name)
    (tmp_path / "server.d").mkdir()
    said: list[str] = []
    found = list_log_files([tmp_path], "server*", said.append)
    assert {path.name for path in found} == {"server.log", "server.log.1"}
    named = list_log_files([tmp_path / "controller.log"], "server*", said.append)
    assert [path.name for path in named] == ["controller.log"]
    assert said == []
    with pytest.raises(InputError, match="no log file or directory"):
        list_log_files([tmp_path / "gone"], "server*", said.append)


def test_a_link_that_leaves_the_directory(tmp_path: Path) -> None:
    """Attack: who may write into the log directory links to a file that he may not read; it is not followed."""
    outside, logs = tmp_path / "outside", tmp_path / "logs"
    for directory in (outside, logs, logs / "old"):
        directory.mkdir()
    secret = log(outside / "server.secret", entry(1))
    log(logs / "server.log", entry(2))
    log(logs / "old" / "server.log.1", entry(3))
    (logs / "server.stolen.log").symlink_to(secret)
    (logs / "server.up.log").symlink_to("../outside/server.secret")
    (logs / "server.1.log").symlink_to("old/server.log.1")
    (tmp_path / "linked").symlink_to(logs)
    said: list[str] = []
    for directory in (logs, tmp_path / "linked"):
        found = list_log_files([directory], "server*", said.append)
        assert {path.relative_to(logs).as_posix() for path in found} == {"server.log", "old/server.log.1"}
    assert [sentence.split(" is passed over")[0].rsplit("/", 1)[1] for sentence in said] == [
        "server.stolen.log",
        "server.up.log",
    ] * 2
    assert list_log_files([logs / "server.stolen.log"], "server*", said.append) == [secret]


def test_a_link_that_was_put_there_since(tmp_path: Path) -> None:
    """Attack: a file is replaced by a link between the listing and the reading; the file that the link leads to is not
    read."""
    secret, path = log(tmp_path / "secret", entry(1)), log(tmp_path / "server.log", entry(2))
    (listed,) = list_log_files([path], "server*", print)
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(InputError, match="can't be read"):
        scan(listed, SERVER_LOG, {}, LIMITS)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("size", [999, 1_000, 1_001, 5_000, 70_000])
def test_a_long_line(tmp_path: Path, size: int, *, is_packed: bool) -> None:
    """Attack: a client makes the broker log a line as long as a disk: its beginning is read, and its length is
    reported."""
    texts = [entry(1), "x" * (size - 1) + "\n", entry(2)]
    path = log(tmp_path / "server.log", *texts)
    if is_packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    found = scanned(path)
    reported = [(line.line_number, line.text, line.byte_count, line.is_whole) for line in read(found)]
    is_whole = size <= LINE_BYTES_MAX
    middle = texts[1][:LINE_BYTES_MAX].rstrip("\n")
    assert reported == [
        (1, texts[0].rstrip(), len(texts[0]), True),
        (2, middle, size, is_whole),
        (3, texts[2].rstrip(), len(texts[2]), True),
    ]


def test_a_long_line_that_has_no_end_yet(tmp_path: Path) -> None:
    """Goal: a long line is imported when it is whole, once, and the file is the same one before and after; also if it
    is the first, or the limit was another one."""
    path = log(tmp_path / "server.log", entry(1), "x" * 5_000)
    before = scanned(path)
    assert (before.line_count, before.waiting_count) == (1, 1)
    log(path, path.read_text(), "x\n", entry(2))
    after = scanned(path, SERVER_LOG, known(before))
    assert match(after, [known(before)]) == known(before)
    assert [line.byte_count for line in read(after, 1)] == [5_002, len(entry(2))]
    first = entry(1, "x" * 5_000)
    log(path, first[:-1])
    assert scan(path, SERVER_LOG, {}, LIMITS) is None
    log(path, first)
    named = scanned(path)
    wider = scan(path, SERVER_LOG, {}, LineLimits(10_000, 100_000))
    assert wider is not None
    assert wider.name == named.name


def test_an_entry_that_does_not_end(tmp_path: Path) -> None:
    """Attack: a name with line breaks and no end is not waited for beyond the limit of a line."""
    begin = "[2026-02-10 09:45:01,000] INFO a name with\n"
    path = log(tmp_path / "server.log", entry(1), begin, *("line\n" for _ in range(150)))
    assert (scanned(path).line_count, scanned(path).waiting_count) == (1, 151)
    log(path, path.read_text(), *("line\n" for _ in range(100)))
    assert (scanned(path).line_count, scanned(path).waiting_count) == (252, 0)


@pytest.mark.parametrize(("partitions", "metadata_bytes"), [(2_000, 0), (55_000, 0), (1_900, 4_096)])
def test_what_a_broker_prints_is_short_enough(partitions: int, metadata_bytes: int) -> None:
    """Goal: the shipped limit takes the line of a commit of many partitions, or of the longest metadata: in the form
    that a 4.2 broker prints."""
    metadata = "x" * metadata_bytes
    offsets = tuple(
        OffsetToCommit(topic="orders", partition=number, offset=123_456_789, leader_epoch=7, metadata=metadata)
        for number in range(partitions)
    )
    results = tuple(PartitionResult("orders", number, Error.NONE) for number in range(partitions))
    line = render_line(
        Exchange(
            request=OffsetCommitRequest(42, "g", offsets=offsets, generation_id=4, member_id="m"),
            response=OffsetCommitResponse(42, results),
            broker_id=2,
            connection_id=17,
            client_id="consumer-g1-1",
            client_host="/10.0.0.1",
            received_at_ms=1_767_571_200_120,
            sent_at_ms=1_767_571_200_123,
            planted=None,
        )
    )
    per_partition = (len(line) - metadata_bytes * partitions) / partitions
    assert 130 < per_partition < 150
    assert len(line) < load_settings().logs.line_bytes_max


def bomb(path: Path, *texts: str) -> Path:
    path.write_bytes(gzip.compress("".join(texts).encode(), mtime=0))
    return path


def test_a_gzip_that_unpacks_to_too_much(tmp_path: Path) -> None:
    """Attack: some kilobytes unpack to more than the disk holds: the part within the limit is imported, and the rest is
    reported."""
    whole = scanned(bomb(tmp_path / "whole.gz", *map(entry, range(1_000))))
    assert (whole.line_count, whole.is_whole) == (1_000, True)
    found = scanned(bomb(tmp_path / "server.log.gz", *map(entry, range(5_000))))
    assert not found.is_whole
    assert sum(len(entry(number)) for number in range(found.line_count)) <= LIMITS.unpacked_bytes
    assert lines(found) == [(number + 1, entry(number).rstrip()) for number in range(found.line_count)]
    raised = scan(found.path, SERVER_LOG, {found.name.split("-")[1]: [known(found)]}, LineLimits(1_000, 1_000_000))
    assert raised is not None
    assert (raised.line_count, raised.is_whole) == (5_000, True)
    assert match(raised, [known(found)]) == known(found)
    assert lines(raised, found.line_count)[0] == (found.line_count + 1, entry(found.line_count).rstrip())


def test_a_gzip_whose_limit_lies_in_a_line(tmp_path: Path) -> None:
    """Attack: a line that unpacks beyond the limit is not begun, and a file that is nothing else is refused; an entry
    is not cut by it."""
    found = scanned(bomb(tmp_path / "a.gz", entry(1), entry(2), "x" * 1_000_000))
    assert (found.line_count, found.is_whole) == (2, False)
    begin = "[2026-02-10 09:45:01,000] INFO a name with\n"
    many = [entry(number) for number in range(3_000)]
    count = next(at for at in range(3_000) if sum(map(len, many[: at + 1])) > LIMITS.unpacked_bytes)
    found = scanned(bomb(tmp_path / "b.gz", *many[: count - 1], begin, "line\n" * 20, entry(1)))
    assert (found.line_count, found.is_whole) == (count - 1, False)
    with pytest.raises(InputError, match="its first 0 lines was not imported"):
        scan(bomb(tmp_path / "c.gz", "x" * 1_000_000), SERVER_LOG, {}, LIMITS)
