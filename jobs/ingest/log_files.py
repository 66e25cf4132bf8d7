"""Recognizes log files on disk, whatever their names, and reads their numbered lines.

A file is scanned once on the driver: its digests show whether it was imported before, and how many of its lines are new
(`schemas.tables.log_files` has the rules and their limits); the same pass cuts it into splits. If a file has grown, the
next scan continues where the last one ended, provided that it is still the same file with the same bytes before that
place. Tasks then read the splits, and compare a digest of what they read with that of the scan: a file that was renamed
or rewritten in between is noticed, and none of its lines is imported. The scan also follows the times of the lines
through hours that a clock change repeats, since only the order of all lines shows whether a line is from the first or
the second time.

Only lines with a line end are read; a compressed file is taken as complete. In a server log, an entry that has several
lines is read once its last line is there. In both logs the same holds for a line that a container has cut into pieces.
Files must lie under the same path for every executor.

A line may be as long as its file, and a few megabytes of gzip may unpack to the size of a disk: only the beginning of a
line is kept in memory, and unpacking has a limit. Links in a directory to files elsewhere are not read.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain, islice
from pathlib import Path
from sys import maxsize
from typing import TYPE_CHECKING, Any, BinaryIO

from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from groupledger.jobs.ingest.log_compression import DAMAGED, PART_BYTES, open_log, skip
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.kafka.log4j_line import ends_message, head_of
from groupledger.schemas.kafka.log_time import has_changes
from groupledger.schemas.words import LogKind, words_of
from groupledger.transforms.logs.imported_lines import Line
from groupledger.transforms.logs.rules.repeated_hours import RepeatedHours
from groupledger.transforms.logs.rules.wrapped_lines import Taken, WrappedLines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from groupledger.transforms.logs.rules.repeated_hours import Pass

REQUEST_LOG, SERVER_LOG = words_of(LogKind)
SPLITS = StructType(
    [
        StructField("path", StringType()),
        StructField("source_file", StringType()),
        StructField("offset", LongType()),
        StructField("first_line", LongType()),
        StructField("line_count", LongType()),
        StructField("digest", StringType()),
        StructField("passes", ArrayType(ArrayType(LongType()))),
    ]
)
SPLIT_BYTES = 16 * 1024 * 1024
TAIL_BYTES = 4 * 1024
ENTRY_LINES_MAX = 1_000
NAME_DIGEST_CHARACTERS = 16
_COMPLETED = b"Completed request:"
# Also where the line is a text in JSON, and its quotes are escaped.
_IS_JSON = re.compile(rb'\s*\{\s*\\{0,7}"')
_HOUR_CHARACTERS = len("[2026-02-10 09")
_SHOWN_CHARACTERS = 60
CHANGED = "the log file was renamed or written anew while it was read"


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file in the table `log_files`. `prefix_digests` has digests of its beginning, by the number of lines that they
    cover."""

    source_file: str
    line_count: int
    prefix_digests: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class FileSplit:
    offset: int
    first_line: int
    line_count: int
    digest: str


@dataclass(frozen=True, slots=True)
class LineLimits:
    """How lines are read: `line_bytes` is how many bytes of a line are read into memory, `unpacked_bytes` is how many
    bytes one file may unpack to, and `time_zone` is that of times without a zone."""

    line_bytes: int
    unpacked_bytes: int
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """The result of scanning a file. `name` is the name that the file gets in the table if it is new. `waiting_count`
    is the number of lines at its end that are not complete yet. `is_whole` is false if the file unpacks to more than
    the limit. `position` is where the next scan continues; None for a compressed file. `passes` are those of repeated
    hours, and `hours` is the state with which the next file of a rotation begins."""

    path: Path
    name: str
    line_count: int
    waiting_count: int
    is_whole: bool
    prefix_digests: dict[int, str]
    splits: tuple[FileSplit, ...]
    position: ScanPosition | None
    passes: tuple[Pass, ...] = ()
    hours: RepeatedHours | None = None

    def rows(self, source_file: str, from_line: int = 0) -> list[tuple[Any, ...]]:
        """Returns rows of `SPLITS` for the part of the file after the line `from_line`."""
        passes = [list(each) for each in self.passes]
        return [
            (str(self.path), source_file, each.offset, each.first_line, each.line_count, each.digest, passes)
            for each in self.splits
            if each.first_line > from_line
        ]


def list_log_files(paths: Sequence[Path], pattern: str, say: Callable[[str], None]) -> list[Path]:
    """Returns the files at `paths`, and those in directories at `paths` whose names match `pattern`, the oldest first,
    so that rows come in order. In a directory a link to a file elsewhere is skipped, and reported by `say`: a user who
    may write the directory could otherwise have any file read. Raises InputError for a path that does not exist."""
    found: set[Path] = set()
    for path in paths:
        if path.is_dir():
            home = path.resolve()
            inside = [each for each in path.iterdir() if each.is_file() and fnmatchcase(each.name, pattern)]
            for each in sorted(inside):
                target = each.resolve()
                if target.is_relative_to(home):
                    found.add(target)
                else:
                    say(f"{each} is passed over: it is a link that leaves the directory; name the file itself.")
        elif path.is_file():
            found.add(path.resolve())
        else:
            raise InputError(f"There is no log file or directory {path}: check the path.")
    return sorted(found, key=lambda path: (_modified_at(path), path.name))


def _modified_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # renamed since it was listed: the next look finds it
        return 0


def lines_of(file: BinaryIO, bytes_max: int) -> Iterator[tuple[bytes, Iterator[bytes]]]:
    """Yields each line with its end, up to `bytes_max`, and an iterator over the rest of a longer line. The rest is
    read from the file, so the caller has to consume it before the next line."""
    while line := file.readline(bytes_max):
        yield line, iter(()) if line.endswith(b"\n") else _rest(file)


def _rest(file: BinaryIO) -> Iterator[bytes]:
    while part := file.readline(PART_BYTES):
        yield part
        if part.endswith(b"\n"):
            return


def _has_end(file: BinaryIO) -> bool:
    """Returns whether the line that is being read has an end. The position in the file stays the same."""
    here = file.tell()
    found = any(part.endswith(b"\n") for part in _rest(file))
    file.seek(here)
    return found


@dataclass(slots=True)
class _Scan:
    """The state of a scan after `lines` lines. `name` is the name that the file gets in the table if it is new."""

    marks: frozenset[int]
    is_cut: bool
    wrapped: WrappedLines
    hours: RepeatedHours | None
    plain_hour: bytes = b""
    begins_with: str = ""
    name: str = ""
    has_entry: bool = False
    has_request: bool = False
    lines: int = 0
    offset: int = 0
    whole: Any = field(default_factory=hashlib.sha256)
    digests: dict[int, str] = field(default_factory=dict)
    splits: list[FileSplit] = field(default_factory=list)
    split: Any = field(default_factory=hashlib.sha256)
    split_line: int = 0
    split_offset: int = 0

    def add(self, line: bytes, rest: Iterator[bytes], offset_max: int) -> bool:
        """Adds a line. Returns False if the line goes beyond the limit; then this state has part of the line and can't
        be used."""
        for part in chain((line,), rest):
            if self.offset + len(part) > offset_max:
                return False
            self.whole.update(part)
            self.split.update(part)
            self.offset += len(part)
        self.lines += 1
        if _has_digest(self.lines) or self.lines in self.marks:
            self.digests[self.lines] = self.whole.hexdigest()
        return True

    def cut_before(self, *, begins: bool) -> None:
        """Cuts where an earlier import ended and where a split is large enough, and never inside an entry."""
        is_big = self.is_cut and self.offset - self.split_offset >= SPLIT_BYTES
        if self.lines in self.marks or (begins and is_big):
            self.cut()

    def cut(self) -> None:
        if self.lines > self.split_line:
            count = self.lines - self.split_line
            self.splits.append(FileSplit(self.split_offset, self.split_line + 1, count, self.split.hexdigest()))
        self.split, self.split_line, self.split_offset = hashlib.sha256(), self.lines, self.offset

    def is_plain(self, line: bytes) -> bool:
        """Returns whether a line of a request log needs no closer look: it is in Kafka's own frame, and in an hour that
        is not repeated."""
        return self.plain_hour == line[:_HOUR_CHARACTERS] and not self.wrapped.is_open

    def look(self, line: bytes, log: str, *, is_long: bool) -> tuple[bool, bool]:
        """Looks at the next line; returns whether an entry begins with it, and whether an entry ends with it."""
        if log == REQUEST_LOG and self.is_plain(line):
            return True, True
        text, was_open = line.decode(errors="replace").rstrip("\r\n"), self.wrapped.is_open
        if self.lines == 0:
            self.begins_with = text
        taken = Taken(text, self.lines + 1) if is_long else self.wrapped.take(self.lines + 1, text)
        head = None if taken.is_of_another else head_of(taken.text)
        if head is not None:
            self.has_entry = True
            if not self.is_plain(line):
                self._follow(line, head, taken)
        if log == REQUEST_LOG:
            return not was_open, not taken.goes_on
        ends = is_long or (not taken.goes_on and ends_message(taken.text))
        return head is not None and not was_open, ends

    def _follow(self, line: bytes, head: re.Match[str], taken: Taken) -> None:
        """Follows the times of lines that have no zone."""
        self.plain_hour = b""
        if taken.outer_us is None and head["second"] is not None and head["zone"] is None:
            is_repeated = self.hours is not None and self.hours.see(taken.first_line, head["second"])
            if not is_repeated and line.startswith(b"[2"):
                self.plain_hour = line[:_HOUR_CHARACTERS]

    def copy(self) -> _Scan:
        return replace(
            self,
            whole=self.whole.copy(),
            digests=dict(self.digests),
            splits=list(self.splits),
            split=self.split.copy(),
            wrapped=self.wrapped.copy(),
            hours=None if self.hours is None else self.hours.copy(),
        )


@dataclass(frozen=True, slots=True)
class ScanPosition:
    """The position at which a scan of a file ended. The file is recognized again by its `inode`, and by `tail`, the
    bytes before the position."""

    state: _Scan
    inode: int
    tail: bytes

    @classmethod
    def of(cls, state: _Scan, file: BinaryIO) -> ScanPosition:
        file.seek(max(state.offset - TAIL_BYTES, 0))
        return cls(state, os.fstat(file.fileno()).st_ino, file.read(min(state.offset, TAIL_BYTES)))

    def resumed(self, file: BinaryIO) -> _Scan | None:
        """Returns the state from which to continue, and moves the file to its position. Returns None if it is another
        file, and moves that to its beginning."""
        file.seek(self.state.offset - len(self.tail))
        if os.fstat(file.fileno()).st_ino != self.inode or file.read(len(self.tail)) != self.tail:
            file.seek(0)
            return None
        state = self.state.copy()
        state.splits.clear()
        # Of the ends of earlier scans only the last can be that of a file of the table.
        state.digests = {
            count: each for count, each in state.digests.items() if _has_digest(count) or count == state.lines
        }
        return state


def _has_digest(line_count: int) -> bool:
    return line_count & (line_count - 1) == 0


def scan(
    path: Path,
    log: str,
    known: Mapping[str, Sequence[ImportedFile]],
    limits: LineLimits,
    position: ScanPosition | None = None,
    hours: RepeatedHours | None = None,
) -> Scanned | None:
    """Scans a file, from where its last scan ended (`position`) if possible. Returns None if the file has no complete
    line yet. `known` are the files of this log in the table, by the digest of their first line; `hours` is the state at
    the end of the previous file of a rotation.

    Raises InputError if the file is not a log of this kind, or can't be read.
    """
    state: _Scan | None = None
    try:
        with open_log(path) as (file, is_compressed):
            state = None if position is None or is_compressed else position.resumed(file)
            state = state or _new_scan(limits, hours, is_cut=not is_compressed)
            return _scan(path, file, log, known, limits, state, is_compressed=is_compressed)
    except DAMAGED as error:
        why = str(getattr(error, "strerror", None) or error).rstrip(".")
        place = "" if state is None or state.lines == 0 else f" after line {state.lines:,}"
        raise InputError(
            f"The log {path} can't be read{place} ({why}): give the whole file, or leave it out, and run the command"
            " again."
        ) from error


def _new_scan(limits: LineLimits, hours: RepeatedHours | None, *, is_cut: bool) -> _Scan:
    if has_changes(limits.time_zone):
        hours = RepeatedHours(limits.time_zone) if hours is None else hours.continued()
    else:
        hours = None
    return _Scan(frozenset(), is_cut=is_cut, wrapped=WrappedLines(limits.line_bytes), hours=hours)


def _scan(
    path: Path,
    file: BinaryIO,
    log: str,
    known: Mapping[str, Sequence[ImportedFile]],
    limits: LineLimits,
    state: _Scan,
    *,
    is_compressed: bool,
) -> Scanned | None:
    held: _Scan | None = None  # before an entry whose message is not over yet
    waiting, is_whole = 0, True
    offset_max = limits.unpacked_bytes if is_compressed else maxsize
    written_us = path.stat().st_mtime_ns // 1_000
    for line, rest in lines_of(file, limits.line_bytes):
        has_end = line.endswith(b"\n")
        if not has_end and not is_compressed and not _has_end(file):
            waiting = 1
            break
        begins, ends = state.look(line, log, is_long=not has_end and len(line) >= limits.line_bytes)
        state.cut_before(begins=begins)
        state.has_request = state.has_request or (log == REQUEST_LOG and _is_request(path, line, state.lines + 1))
        held = _held(held, state, limits, begins=begins, ends=ends) if has_end else None
        before = state if has_end else state.copy()
        if not state.add(line, rest, offset_max):
            state, is_whole = before, False
            break
        if state.lines == 1:
            state.name = _name(state.begins_with, state.digests[1])
            state.marks = frozenset(each.line_count for each in known.get(first_line_digest(state.name), ()))
            state.begins_with = state.begins_with[:_SHOWN_CHARACTERS]
    if held is not None and not (is_compressed and is_whole):
        waiting += state.lines - held.lines
        state = held
    if state.lines == 0 and not is_whole:
        raise InputError(too_large(path, 0, limits))
    if state.lines == 0:
        return None
    if not state.has_entry:
        raise InputError(
            f"The log {path} has no line that begins with a time and a level: it is no log of a broker. Its line 1 of"
            f' {state.lines:,} begins "{printable(state.begins_with)}".'
        )
    state.cut()
    state.digests[state.lines] = state.whole.hexdigest()
    return Scanned(
        path=path,
        name=state.name,
        line_count=state.lines,
        waiting_count=waiting,
        is_whole=is_whole,
        prefix_digests=state.digests,
        splits=tuple(state.splits),
        position=None if is_compressed else ScanPosition.of(state, file),
        passes=() if state.hours is None else state.hours.passes(written_us),
        hours=state.hours,
    )


def too_large(path: Path, line_count: int, limits: LineLimits) -> str:
    return (
        f"The log {path} unpacks to more than {limits.unpacked_bytes:,} bytes: the part after its first"
        f" {line_count:,} lines was not imported; raise logs.unpacked_bytes_max, or unpack it and split it."
    )


def _held(held: _Scan | None, state: _Scan, limits: LineLimits, *, begins: bool, ends: bool) -> _Scan | None:
    """Returns the state to go back to if the file ended after this line; None if there is none. The end of an entry
    that is too long is not waited for."""
    if ends:
        return None
    if begins:
        before = state.copy()
        before.wrapped = WrappedLines(limits.line_bytes)  # where an entry begins nothing is under way
        return before
    if held is None or state.lines - held.lines > ENTRY_LINES_MAX or state.offset - held.offset > limits.line_bytes:
        return None
    return held


def _name(text: str, digest: str) -> str:
    """Returns the time of the first line, so that rows of one file lie together, and the digest of the line."""
    head = head_of(text)
    is_dated = head is not None and head["second"] is not None and head["fraction"] is not None
    digits = re.sub(r"\D", "", f"{head['second']}{head['fraction'][:3]}") if head and is_dated else "undated"
    return f"{digits}-{digest[:NAME_DIGEST_CHARACTERS]}"


def first_line_digest(name: str) -> str:
    """Returns the digest of a file's first line, which is part of `name`, the file's name in the table."""
    return name.split("-")[1]


def _is_request(path: Path, line: bytes, line_number: int) -> bool:
    """Returns whether a line is about a completed request. Raises InputError if its body is text instead of JSON."""
    at = line.find(_COMPLETED)
    if at >= 0 and not _IS_JSON.match(line, at + len(_COMPLETED)):
        raise InputError(
            f"The request log {path} is text from line {line_number:,} on, as brokers before 2.8 write it (and before"
            " 1.1 without the answers): only the JSON lines of 2.8 and later can be imported."
        )
    return at >= 0


def match(scanned: Scanned, known: Sequence[ImportedFile]) -> ImportedFile | None:
    """Returns the known file that the scanned file equals or continues; None if it is new."""
    same = [each for each in known if _is_same(scanned, each)]
    return max(same, key=lambda each: each.line_count, default=None)


def _is_same(scanned: Scanned, known: ImportedFile) -> bool:
    common = scanned.prefix_digests.keys() & known.prefix_digests.keys()
    return bool(common) and all(scanned.prefix_digests[count] == known.prefix_digests[count] for count in common)


def read_splits(splits: Iterable[dict[str, Any]], line_bytes_max: int) -> Iterator[Line]:
    """Yields the lines of rows of `SPLITS`. Raises RuntimeError if a file is no longer as it was scanned."""
    for split in splits:
        digest = hashlib.sha256()
        try:
            with open_log(Path(split["path"])) as (file, _):
                skip(file, split["offset"])
                lines = islice(lines_of(file, line_bytes_max), split["line_count"])
                for number, (line, rest) in enumerate(lines, split["first_line"]):
                    digest.update(line)
                    byte_count = len(line)
                    for part in rest:
                        digest.update(part)
                        byte_count += len(part)
                    text = line.decode(errors="replace").rstrip("\r\n")
                    yield Line(split["source_file"], number, text, byte_count, byte_count == len(line))
        except DAMAGED as error:
            raise RuntimeError(CHANGED) from error
        if digest.hexdigest() != split["digest"]:
            raise RuntimeError(CHANGED)
