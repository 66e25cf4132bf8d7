"""Implements `groupledger import-logs`: imports the brokers' request logs into `requests`, and their server logs into
`coordinator_events`.

An import can be repeated: `log_files` notes how far each file was read, even if it was renamed, and only later lines
are new. That table is written last. Rows are only ever added, by their key: if an import was killed, the next one adds
the rows that are missing. With `--continuous`, directories are scanned at intervals, in the same way. Spark's own file
source would not do, since it reads each file once and as a whole, and log files grow.

The import has a lease of its own (`lease.logs_of`): no other command writes its tables, and it may run beside `ingest`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import chain
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import functions as F

from groupledger.jobs.ingest.log_files import (
    CHANGED,
    REQUEST_LOG,
    SERVER_LOG,
    SPLITS,
    ImportedFile,
    LineLimits,
    ScanPosition,
    first_line_digest,
    list_log_files,
    match,
    read_splits,
    scan,
    too_large,
)
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.shard import WHOLE
from groupledger.jobs.warehouse.ledger import begin_again_if_lost
from groupledger.jobs.warehouse.source import own_groups
from groupledger.jobs.warehouse.topic_names import known_names, learn
from groupledger.jobs.warehouse.upsert import insert, of_rows, upsert_arrow
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import instant_of_us
from groupledger.schemas.tables.all_tables import date_column
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.log_files import LOG_FILES
from groupledger.schemas.tables.log_quarantine import LOG_QUARANTINE
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.by_group import batch_of
from groupledger.transforms.logs.coordinator_events import PARSED_EVENTS, parse_events
from groupledger.transforms.logs.imported_lines import QUARANTINED, ROW, TOPIC_NAME, pieces
from groupledger.transforms.logs.requests import (
    PARSED_REQUESTS,
    parse_requests,
    unnamed_topic_ids,
    with_topic_names,
)
from groupledger.transforms.logs.unwrapped_lines import unwrapped

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from groupledger.jobs.ingest.log_files import FileSplit, Scanned
    from groupledger.jobs.process.settings import LogSettings
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.logs.imported_lines import Line, Parsed
    from groupledger.transforms.logs.rules.repeated_hours import RepeatedHours
    from groupledger.transforms.privacy import Privacy

ROWS_OF = {REQUEST_LOG: REQUESTS, SERVER_LOG: COORDINATOR_EVENTS}
TABLES = (*ROWS_OF.values(), LOG_QUARANTINE, TOPIC_NAMES, LOG_FILES)
# Rows of about so many lines are written in one commit, which bounds the work that a killed import repeats.
LINES_PER_BATCH = 1_000_000
TIMES = ("first_logged_at", "last_logged_at")
# How far a broker's clock may be ahead of ours.
AHEAD_MAX = timedelta(hours=1)
# The suffixes that rotation adds to a name: a number or a date, and the name of a compression.
_ROTATED = re.compile(r"[\d._T-]*(?:gz|zst|bz2)?")
FileState = tuple[int, int, int]  # inode, size, when it was written last


@dataclass(frozen=True, slots=True)
class LogSources:
    """The files and directories with request logs, and those with server logs."""

    request_logs: Sequence[Path]
    server_logs: Sequence[Path]


@dataclass(slots=True)
class ImportTotals:
    """Counts of what this run has read: `files` with new lines, these `lines`, `rows` by kind of log, and the lines
    that were `quarantined` or `skipped` because they are about something else. The true time of `ambiguous` rows may be
    an hour later."""

    files: int = 0
    lines: int = 0
    rows: dict[str, int] = field(default_factory=lambda: {REQUEST_LOG: 0, SERVER_LOG: 0})
    quarantined: int = 0
    skipped: int = 0
    ambiguous: int = 0


@dataclass(frozen=True, slots=True)
class NewLines:
    """The new lines of one file, as `splits` of it; `source_file` is the file's name in the table."""

    source_file: str
    scanned: Scanned
    splits: tuple[FileSplit, ...]

    @property
    def line_count(self) -> int:
        return sum(split.line_count for split in self.splits)


@dataclass(frozen=True, slots=True)
class Counted:
    """Counts of the new lines of one file. `rows` were made of `lines`, since one event may take several lines.
    `first_us` and `last_us` are the times of the first and the last row."""

    rows: int = 0
    lines: int = 0
    quarantined: int = 0
    ambiguous: int = 0
    first_us: int | None = None
    last_us: int | None = None


@dataclass(slots=True)
class Rotation:
    """The ends of the files of a rotation, by inode: when each file was written last, and the state of repeated hours
    at its end."""

    _ends: dict[int, tuple[int, RepeatedHours]] = field(default_factory=dict)

    def before(self, file: FileState) -> RepeatedHours | None:
        """Returns the state at the end of the last file that was written before `file`; None if there is no such
        file."""
        earlier = [end for inode, end in self._ends.items() if inode != file[0] and end[0] <= file[2]]
        return max(earlier, key=lambda end: end[0])[1] if earlier else None

    def ended(self, file: FileState, hours: RepeatedHours | None) -> None:
        if hours is not None:
            self._ends[file[0]] = (file[2], hours)


def family_of(name: str) -> str:
    """Returns what the names of a rotation's files have in common: the part before `.log`. A name of another form is
    returned as it is."""
    stem, dot, rest = name.partition(".log")
    return stem if dot and _ROTATED.fullmatch(rest) else name


def import_logs(
    ledger: Ledger, settings: LogSettings, sources: LogSources, stop: threading.Event, *, is_continuous: bool = False
) -> ImportTotals:
    """Imports all new lines, once or, with `is_continuous`, until `stop` is set.

    Raises InputError, after all other files are imported, if a file is not a log of its kind or is too large when
    unpacked, and OutsideError if a file changed during the import. A continuous run only reports these errors and tries
    again.
    """
    importer = LogImport(ledger, settings)
    while True:
        importer.look(sources, stop, is_patient=is_continuous)
        if importer.unread and not is_continuous:
            raise InputError(" ".join(importer.unread))
        for sentence in importer.unread:
            importer.say_once(sentence)
        if not is_continuous or stop.wait(settings.poll_interval_s):
            return importer.totals


class LogImport:
    """One run of the import. It remembers the files that it has scanned, so that unchanged files are not scanned again.
    `unread` has a sentence for each file that was not imported, or only in part."""

    def __init__(self, ledger: Ledger, settings: LogSettings) -> None:
        self.totals = ImportTotals()
        self.unread: list[str] = []
        self._ledger = ledger
        self._settings = settings
        self._privacy = ledger.settings.privacy.resolve()
        for log, table in ROWS_OF.items():
            if begin_again_if_lost(ledger, table, LOG_FILES, log=log):
                ledger.say(f"the table {table.name} is gone: its logs that are still there are imported again")
        ledger.create(*TABLES)
        self._seen: dict[tuple[str, Path], FileState] = {}
        self._positions: dict[tuple[str, Path], ScanPosition] = {}
        self._known: dict[str, dict[str, list[ImportedFile]]] = {}
        self._asked: set[str] = set()
        self._limits = LineLimits(settings.line_bytes_max, settings.unpacked_bytes_max, settings.time_zone)
        self._rotations: dict[tuple[str, Path, str], Rotation] = {}
        self._told: set[str] = set()

    def look(self, sources: LogSources, stop: threading.Event, *, is_patient: bool) -> None:
        """Imports the present new lines. A bad file does not stop the others: with `is_patient` it is reported at once;
        otherwise its sentence is added to `unread`."""
        settings = self._settings
        try:
            self._is_own = own_groups(self._ledger.storage, self._ledger.cluster, self._ledger.settings.kafka.own)
        except InputError as error:
            self._refuse(str(error), is_patient=is_patient)
            return
        logs = (
            (REQUEST_LOG, sources.request_logs, settings.request_log_names),
            (SERVER_LOG, sources.server_logs, settings.server_log_names),
        )
        for log, paths, pattern in logs:
            waiting: list[NewLines] = []
            if log not in self._known:
                self._known[log] = self._known_files(log)
            known = self._known[log]
            there = paths if is_patient else [path for path in paths if not self._is_missing(path)]
            for path in list_log_files(there, pattern, self.say_once):
                if stop.is_set():
                    return
                try:
                    waiting += self._new_lines(log, path, known)
                except InputError as error:
                    self._refuse(str(error), is_patient=is_patient)
                if sum(each.line_count for each in waiting) >= LINES_PER_BATCH:
                    if not self._apply(log, waiting, is_patient=is_patient):
                        return
                    waiting = []
            if not self._apply(log, waiting, is_patient=is_patient):
                return

    def _is_missing(self, path: Path) -> bool:
        try:
            list_log_files([path], "", lambda _: None)
        except InputError as error:
            self._refuse(str(error), is_patient=False)
            return True
        return False

    def _refuse(self, sentence: str, *, is_patient: bool) -> None:
        if is_patient:
            self._ledger.say(sentence)
        else:
            self.unread.append(sentence)

    def say_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._ledger.say(sentence)

    def _known_files(self, log: str) -> dict[str, list[ImportedFile]]:
        """Returns the files that the table has for a log, by the digest of their first line."""
        known: dict[str, list[ImportedFile]] = {}
        rows = self._ledger.rows(LOG_FILES).where(F.col("log") == log)
        for row in rows.select("source_file", "line_count", "prefix_digests").collect():
            known.setdefault(first_line_digest(row[0]), []).append(ImportedFile(*row))
        return known

    def _new_lines(self, log: str, path: Path, known: dict[str, list[ImportedFile]]) -> list[NewLines]:
        """Returns the new lines of a file as a list of one item; an empty list if there are none. Adds the file to
        `known`."""
        now = _state_of(path)
        if now is None or self._seen.get((log, path)) == now:
            return []
        self._seen[log, path] = now
        rotation = self._rotations.setdefault((log, path.parent, family_of(path.name)), Rotation())
        scanned = scan(path, log, known, self._limits, self._positions.get((log, path)), rotation.before(now))
        if scanned is None:
            return []
        rotation.ended(now, scanned.hours)
        if scanned.position is not None:
            self._positions[log, path] = scanned.position
        if not scanned.is_whole:
            self.unread.append(too_large(path, scanned.line_count, self._limits))
        namesakes = known.setdefault(first_line_digest(scanned.name), [])
        before = match(scanned, namesakes)
        if before is None:
            source_file = f"{scanned.name}-{len(namesakes) + 1}" if namesakes else scanned.name
        else:
            source_file = before.source_file
        from_line = 0 if before is None else before.line_count
        splits = tuple(split for split in scanned.splits if split.first_line > from_line)
        if not splits:
            return []
        if before is not None:
            namesakes.remove(before)
        namesakes.append(ImportedFile(source_file, scanned.line_count, scanned.prefix_digests))
        return [NewLines(source_file, scanned, splits)]

    def _apply(self, log: str, files: Sequence[NewLines], *, is_patient: bool) -> bool:
        """Imports the lines. Returns False if a file changed meanwhile, so that all files have to be scanned again."""
        if not files:
            return True
        self._ledger.lease.check()
        count = sum(each.line_count for each in files)
        self._ledger.say(f"reading {count:,} new lines of {len(files):,} files ({log.replace('_', ' ')})")
        try:
            self._write(log, files)
        except (PythonException, Py4JJavaError) as error:
            if CHANGED not in str(error):
                raise
            sentence = f"While the import read them, {CHANGED}: nothing of it was imported, run the command again."
            if not is_patient:
                raise OutsideError(sentence) from error
            self._ledger.say("a log file was renamed while it was read: looking again")
            self._known.pop(log)
            self._seen.clear()
            self._positions.clear()
            self._rotations.clear()
            return False
        return True

    def _write(self, log: str, files: Sequence[NewLines]) -> None:
        """Writes the tables of rows first and `log_files` last: lines not noted there are read again, and not added
        twice."""
        ledger, table = self._ledger, ROWS_OF[log]
        parsed = _parsed(log, _splits(ledger, files), self._settings, self._privacy).persist()
        try:
            now = datetime.now(timezone.utc)
            found = _count(log, parsed, now)
            names = sorted({each.source_file for each in files})
            rows = self._own(parsed.where(F.col(ROW).isNotNull()).select(f"{ROW}.*"))
            if log == REQUEST_LOG:
                rows = self._named(rows, parsed)
            if any(each.quarantined for each in found.values()):
                quarantined = parsed.where(F.col(QUARANTINED).isNotNull()).select(f"{QUARANTINED}.*")
                stamps = {"log": F.lit(log), "imported_at": F.lit(now)}
                self._insert(LOG_QUARANTINE, quarantined.withColumns(stamps), names)
            if any(each.rows for each in found.values()):
                date = str(date_column(table))
                self._insert(table, rows.withColumn(date, F.to_date(date.replace("date", "at"))), names)
        finally:
            parsed.unpersist()
        self._note(log, files, found, now)

    def _own(self, rows: DataFrame) -> DataFrame:
        """Returns the rows about groups of the ledger's shard, and those about several groups or none."""
        is_whole = self._ledger.settings.kafka.own == WHOLE
        return rows if is_whole else rows.where(F.udf(self._is_own, "boolean")("group_id"))

    def _named(self, rows: DataFrame, parsed: DataFrame) -> DataFrame:
        """Returns the requests with names for topic ids, from the log itself and from other tables of the warehouse."""
        ledger = self._ledger
        known, _ = known_names(ledger)
        self._learn(parsed.where(F.col(TOPIC_NAME).isNotNull()).select(f"{TOPIC_NAME}.*"), known)
        unnamed = {row[0] for row in unnamed_topic_ids(rows).collect()} - known.keys()
        asked = sorted(unnamed - self._asked)
        self._asked.update(asked)
        if asked:
            for table, struct in ((WATERMARKS, ""), (COORDINATOR_RECORDS, "offset_commit.")):
                if ledger.exists(table):
                    found = ledger.rows(table).select(f"{struct}topic_id", f"{struct}topic")
                    self._learn(found.where(F.col("topic_id").isin(asked)), known)
        return with_topic_names(rows, ledger.rows(TOPIC_NAMES))

    def _learn(self, rows: DataFrame, known: dict[str, str]) -> None:
        """Writes the names that are new, and adds them to `known`."""
        new = {
            topic_id: topic
            for topic_id, topic in rows.select("topic_id", "topic").distinct().collect()
            if topic_id not in known
        }
        learn(self._ledger, new)
        known |= new

    def _insert(self, table: Table, rows: DataFrame, source_files: Sequence[str] = ()) -> None:
        """Adds rows whose key is not in the table yet. Rows of a file lie together, so with the names of their files
        most of the table is not read."""
        rows = rows.withColumn("cluster", F.lit(self._ledger.cluster))
        insert(self._ledger, table, rows, F.col("source_file").isin(*source_files) if source_files else F.lit(True))

    def _note(self, log: str, files: Sequence[NewLines], found: Mapping[str, Counted], now: datetime) -> None:
        """Writes how far each file was read, with the counts of its lines. If there are several copies of a file, the
        lines are counted for the first."""
        ledger = self._ledger
        known = ledger.rows(LOG_FILES).where((F.col("log") == log) & F.col("source_file").isin([*found]))
        for name in TIMES:
            known = known.withColumn(name, F.unix_micros(name))
        noted = {row["source_file"]: row.asDict() for row in known.collect()}
        here = {"cluster": ledger.cluster, "log": log, "imported_at": now}
        uncounted = dict(found)
        for each in files:
            counted = uncounted.pop(each.source_file, Counted())
            noted[each.source_file] = {**_noted(noted.get(each.source_file), each, counted), **here}
            self._report(log, each, counted)
        new = [noted[name] for name in sorted({each.source_file for each in files})]
        for row in new:
            row.update({name: _instant(row[name]) for name in TIMES})
        columns = LOG_FILES.schema.names
        rows = [tuple(row[name] for name in columns) for row in new]
        upsert_arrow(ledger, LOG_FILES, of_rows(rows, LOG_FILES))

    def _report(self, log: str, file: NewLines, found: Counted) -> None:
        totals = self.totals
        totals.files += 1
        totals.lines += file.line_count
        totals.rows[log] += found.rows
        totals.quarantined += found.quarantined
        totals.ambiguous += found.ambiguous
        totals.skipped += max(0, file.line_count - found.lines - found.quarantined)
        waiting = file.scanned.waiting_count
        self._ledger.say(
            f"{file.scanned.path.name}: {file.line_count:,} new lines, {found.rows:,} rows, {found.quarantined:,}"
            f" quarantined"
            + (f"; {waiting:,} lines wait for their end" if waiting else "")
            + (f"; of {found.ambiguous:,} rows the hour is unknown (is_time_ambiguous)" if found.ambiguous else "")
        )


def _count(log: str, parsed: DataFrame, now: datetime) -> dict[str, Counted]:
    """Returns the counts of each file's lines. Times in the future come from wrong clocks, and are left out of the
    file's time range."""
    at = F.col(f"{ROW}.logged_at")
    times = [F.unix_micros(which(F.when(at <= F.lit(now + AHEAD_MAX), at))) for which in (F.min, F.max)]
    lines = F.count(ROW) if log == REQUEST_LOG else F.coalesce(F.sum(f"{ROW}.line_count"), F.lit(0))
    ambiguous = F.count(F.when(F.col(f"{ROW}.is_time_ambiguous"), 1))
    source_file = F.coalesce(f"{ROW}.source_file", f"{QUARANTINED}.source_file")
    counts = parsed.where(F.col(TOPIC_NAME).isNull()).groupBy(source_file)
    found = counts.agg(F.count(ROW), lines, F.count(QUARANTINED), ambiguous, *times).collect()
    return {row[0]: Counted(*row[1:]) for row in found}


def _noted(before: dict[str, Any] | None, file: NewLines, found: Counted) -> dict[str, Any]:
    """Returns the file's row of `log_files`, without the columns that all files share; times are in microseconds."""
    old = before or {}
    times = [time for time in (old.get("first_logged_at"), found.first_us) if time is not None]
    skipped = max(0, file.line_count - found.lines - found.quarantined)
    return {
        "source_file": file.source_file,
        "path": str(file.scanned.path),
        "line_count": file.scanned.line_count,
        "row_count": old.get("row_count", 0) + found.rows,
        "quarantined_count": old.get("quarantined_count", 0) + found.quarantined,
        "skipped_count": old.get("skipped_count", 0) + skipped,
        "prefix_digests": file.scanned.prefix_digests,
        "first_logged_at": min(times, default=None),
        "last_logged_at": max((each for each in (old.get("last_logged_at"), found.last_us) if each), default=None),
    }


def _instant(time_us: int | None) -> datetime | None:
    return None if time_us is None else instant_of_us(time_us)


def _state_of(path: Path) -> FileState | None:
    """Returns values that change whenever the file does; None if it was renamed since it was found."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _splits(ledger: Ledger, files: Sequence[NewLines]) -> DataFrame:
    rows = [
        row for each in files for row in each.scanned.rows(each.source_file, from_line=each.splits[0].first_line - 1)
    ]
    return ledger.spark.createDataFrame(rows, SPLITS)


def _parsed(log: str, splits: DataFrame, settings: LogSettings, privacy: Privacy) -> DataFrame:
    """Returns the parsed lines of the splits, as `parsed_schema`; no entry lies in two splits."""
    time_zone, line_bytes_max = settings.time_zone, settings.line_bytes_max
    schema = PARSED_REQUESTS if log == REQUEST_LOG else PARSED_EVENTS

    def rows_of(lines: Iterable[Line]) -> Iterator[Parsed]:
        if log == REQUEST_LOG:
            return parse_requests(lines, time_zone, privacy)
        return parse_events(lines, time_zone, privacy, line_bytes_max)

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        splits = (split for batch in batches for split in batch.to_pylist())
        lines = chain.from_iterable(
            unwrapped(read_splits([split], line_bytes_max), split["passes"], line_bytes_max) for split in splits
        )
        return (batch_of(piece, arrow_schema(schema)) for piece in pieces(rows_of(lines)))

    return splits.mapInArrow(of_task, schema)


def summary(totals: ImportTotals) -> str:
    return (
        f"{totals.files:,} files with {totals.lines:,} new lines: {totals.rows[REQUEST_LOG]:,} requests,"
        f" {totals.rows[SERVER_LOG]:,} coordinator events, {totals.quarantined:,} lines quarantined (see"
        f" {LOG_QUARANTINE.name}), {totals.skipped:,} about something else"
        + (f"; {totals.ambiguous:,} rows could be an hour later (is_time_ambiguous)" if totals.ambiguous else "")
    )
