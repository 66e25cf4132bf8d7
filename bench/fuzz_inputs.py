"""Feeds hostile inputs to every reader of outside data: `python -m bench.fuzz_inputs --inputs N --seed S [TARGET]...`.

    request_log, server_log   lines, through the parsers into the batches that leave a task
    log_file                  files, plain and gzip, scanned on the driver and read as tasks do
    capture                   rows of a capture, through the decoder
    manifest, state           what lies beside a capture, and in a warehouse: source, lease, checkpoint
    settings                  the user's file
    metrics                   HTTP requests to the monitor

Only the errors that a reader declares may escape, and each input must be accounted for. A seed always gives the same
inputs, and a failure prints its input. The time per byte of long inputs is printed, too. It is a failure if that time
is out of all proportion (`bench.fuzz_cost`).
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import select
import socket
import struct
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from bench import fuzz_codec, fuzz_texts
from bench.fuzz_cost import GROWTH, SHAPE_BYTES, Shape, cost
from groupledger.jobs.ingest.capture import MANIFEST, read_manifest
from groupledger.jobs.ingest.log_files import REQUEST_LOG, SERVER_LOG, SPLITS, LineLimits, read_splits, scan
from groupledger.jobs.monitor.exposition import Exposition
from groupledger.jobs.monitor.http import serve
from groupledger.jobs.process.errors import JobError
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.checkpoint import kafka_positions, read_checkpoint, source_offset
from groupledger.jobs.warehouse.lease_files import LeaseFile
from groupledger.jobs.warehouse.source import read_source, source_name
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.codec.records import encode_record
from groupledger.schemas.wire.model import Primitive
from groupledger.transforms.by_group import batch_of
from groupledger.transforms.logs.coordinator_events import PARSED_EVENTS, parse_events
from groupledger.transforms.logs.imported_lines import QUARANTINED, ROW, Line
from groupledger.transforms.logs.requests import PARSED_REQUESTS, parse_requests
from groupledger.transforms.logs.unwrapped_lines import unwrapped
from groupledger.transforms.privacy import DROP, HASH, Privacy
from groupledger.transforms.records.decode import decode_batches
from lab.scenarios.extremes import poisoned, record_cases, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from groupledger.transforms.logs.imported_lines import Parsed

LINES_IN_CASE = 50
SHAPES_MIN, SHAPES_MAX = 10, 300
LIMITS = LineLimits(line_bytes=2_000, unpacked_bytes=200_000)
PRIVACIES = (Privacy(), Privacy(HASH, HASH, b"key"), Privacy(DROP, DROP))
ANSWER_SECONDS_MAX = 60
GRACE_S = 0.05
# Errors of readers for a damaged file of the warehouse.
UNREADABLE = (JobError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
Outcomes = Counter[str]


class Case(NamedTuple):
    """The inputs that are read at once, and their number."""

    content: Any
    inputs: int = 1


@dataclass(frozen=True, kw_only=True)
class Target:
    """A reader. `check` reads the inputs and returns their outcomes; it raises on a violation. The reader gets one in
    `one_in` of all `INPUTS`. `shape` returns an input that can have any size."""

    make: Callable[[Random], Case]
    check: Callable[[Any], Outcomes]
    shape: Callable[[Random], Shape]
    one_in: int = 1


def shape_of(random: Random, text: str, unit: str, content: Callable[[str], Any]) -> Shape:
    """Returns an input that can have any size: a text in which a unit is repeated at one place. `content` converts the
    text to the reader's input."""
    place = random.randrange(len(text) + 1)

    def make(size: int) -> tuple[Any, int]:
        long = text[:place] + unit * (size // len(unit) + 1) + text[place:]
        return content(long), len(long.encode(errors="replace"))

    return Shape(make, f"{unit!r} repeated in {text!r}")


def outcome_of(row: Parsed) -> str:
    return next(name if name != QUARANTINED else str(fields["reason"])[:40] for name, fields in row.items() if fields)


def parsed_lines(log: str, texts: list[str], privacy: Privacy) -> Outcomes:
    numbered = (Line("f", number, text, len(text), is_whole=True) for number, text in enumerate(texts, 1))
    lines = unwrapped(numbered, [[1, None, 1]], SHAPE_BYTES * GROWTH * 2)
    if log == REQUEST_LOG:
        rows, schema = list(parse_requests(lines, "UTC", privacy)), PARSED_REQUESTS
    else:
        rows, schema = list(parse_events(lines, "UTC", privacy, SHAPE_BYTES * GROWTH * 2)), PARSED_EVENTS
    if rows:
        assert len(batch_of(rows, arrow_schema(schema)).to_pylist()) == len(rows)
    taken = sum((row[ROW] or {}).get("line_count", 1) for row in rows if row[ROW] or row[QUARANTINED])
    assert taken <= len(texts), "a line gave two rows"
    return Counter(map(outcome_of, rows)) + Counter(nothing=len(texts) - len(rows))


def log_lines(log: str) -> Target:
    text = fuzz_texts.request_text if log == REQUEST_LOG else fuzz_texts.server_text

    def make(random: Random) -> Case:
        lines = fuzz_texts.log_text(random, text, LINES_IN_CASE)
        return Case((lines, random.choice(PRIVACIES)), len(lines))

    def shape(random: Random) -> Shape:
        # Without line breaks: an empty line is a byte, and costs its two microseconds.
        whole, unit = text(random).replace("\n", " "), fuzz_texts.a_unit(random).replace("\n", " ")
        return shape_of(random, whole, unit, lambda line: ([line], PRIVACIES[0]))

    return Target(make=make, check=lambda content: parsed_lines(log, *content), shape=shape)


def log_files(folder: Path) -> Target:
    def make(random: Random) -> Case:
        log = random.choice((REQUEST_LOG, SERVER_LOG))
        text = fuzz_texts.request_text if log == REQUEST_LOG else fuzz_texts.server_text
        data = "\n".join(fuzz_texts.log_text(random, text, 5)).encode(errors="replace")
        if fuzz_texts.chance(random, 0.2):
            data = fuzz_codec.damaged(random, data) * 20 + b"\n" * random.randrange(2)
        if fuzz_texts.chance(random, 0.5):
            data = gzip.compress(data, compresslevel=1, mtime=0)
            data = fuzz_codec.damaged(random, data) if fuzz_texts.chance(random, 0.5) else data
        return Case((log, data))

    def check(content: tuple[str, bytes]) -> Outcomes:
        log, data = content
        path = folder / "log"
        path.write_bytes(data)
        try:
            found = scan(path, log, {}, LIMITS)
        except JobError as error:
            return Counter({str(error).replace(str(path), "FILE")[:40]: 1})
        if found is None:
            return Counter({"nothing yet": 1})
        rows = found.rows("f")
        lines = list(read_splits((dict(zip(SPLITS.names, row, strict=True)) for row in rows), LIMITS.line_bytes))
        assert [line.line_number for line in lines] == list(range(1, found.line_count + 1))
        assert all(len(line.text) <= LIMITS.line_bytes for line in lines)
        return Counter({"read" if found.is_whole else "read in part": 1})

    def shape(random: Random) -> Shape:
        text = fuzz_texts.server_text(random)
        return shape_of(
            random,
            text,
            fuzz_texts.a_unit(random).replace("\n", " "),
            lambda long: (SERVER_LOG, long.encode(errors="replace")),
        )

    return Target(make=make, check=check, shape=shape, one_in=10)


CAPTURE_ROW = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32()), ("offset", pa.int64())]
).append(pa.field("timestamp", pa.timestamp("us", "UTC")))
# Values of a record in a capture: any number that its columns can hold.
SMALL_NUMBERS, LARGE_NUMBERS = ([None, *values_of(each).values()] for each in (Primitive.INT32, Primitive.INT64))
PLACES = (SMALL_NUMBERS, LARGE_NUMBERS, LARGE_NUMBERS)
EXTREME_CASES = list(record_cases())


def capture_rows() -> Target:
    def make(random: Random) -> Case:
        inputs = [each[:2] for each in fuzz_codec.fuzz_inputs(random.randrange(2**32), LINES_IN_CASE)]
        inputs += [encode_record(record) for record in poisoned(random.choice(EXTREME_CASES), "orders")]
        rows = [(*each, *(random.choice(numbers) for numbers in PLACES)) for each in inputs]
        return Case(rows, len(rows))

    def check(rows: list[tuple[Any, ...]]) -> Outcomes:
        columns = [
            pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), CAPTURE_ROW, strict=True)
        ]
        batches = list(decode_batches([pa.RecordBatch.from_arrays(columns, schema=CAPTURE_ROW)]))
        errors = [error for batch in batches for error in batch.column("decode_error").to_pylist()]
        assert len(errors) == len(rows)
        return Counter("decoded" if error is None else str(error)[:40] for error in errors)

    def shape(random: Random) -> Shape:
        ((key, value, _),) = fuzz_codec.fuzz_inputs(random.randrange(2**32), 1)
        value = value or b"\0"
        at, unit = random.randrange(len(value) + 1), random.choice((*fuzz_codec.EDGES, value[:40]))

        def make(size: int) -> tuple[Any, int]:
            long = value[:at] + unit * (size // len(unit) + 1) + value[at:]
            return [(key, long, 0, 0, 0)], len(long)

        return Shape(make, f"{unit!r} at {at} of {value!r} of {key!r}")

    return Target(make=make, check=check, shape=shape)


def json_text(random: Random, good: Any) -> str:
    """Returns the JSON of a file as it should be, with values and characters changed."""
    if isinstance(good, dict) and fuzz_texts.chance(random, 0.5):
        good = {**good, random.choice(list(good)): random.choice((fuzz_texts.a_node(random), *fuzz_texts.SCALARS))}
    text = json.dumps(good)
    return fuzz_texts.damaged(random, text) if fuzz_texts.chance(random, 0.7) else "[" * random.choice((1, 200_000))


IDENTITY = {"cluster_id": "c", "topic_id": "t", "partition_count": 50}
READING = {"started_at_ms": 1, "from_offset": 0, "end_offset": 9, "resumed_from": None}
GOOD_MANIFEST = {
    "identity": IDENTITY,
    "from_offsets": {"0": 0},
    "to_offsets": {"0": 9},
    "captured_at_ms": 1,
    "completeness": "compacted",
    "began_at_ms": 0,
}
GOOD_STATE = {
    source_name("c"): {"kind": "kafka", "identity": IDENTITY, "readings": {"0": [READING]}},
    "lease": {"holder": {"host": "h", "process": 1, "command": "c"}, "expires_at_ms": 1, "is_released": False},
    "checkpoint/metadata": {"id": "0b6e3f5e"},
    "checkpoint/offsets/0": {"topic": {"0": 5}},
}


def small_files(storage: LocalStorage, good: dict[str, Any], read: Callable[[str], Any], escapes: Any) -> Target:
    def make(random: Random) -> Case:
        name = random.choice(list(good))
        return Case((name, json_text(random, good[name])))

    def check(content: tuple[str, str]) -> Outcomes:
        name, text = content
        path = storage.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"v1\n{{}}\n{text}\n" if "offsets/" in name else text, errors="replace")
        try:
            read(name)
        except escapes as error:
            return Counter({f"{name}: {type(error).__name__}": 1})
        return Counter({f"{name}: read": 1})

    def shape(random: Random) -> Shape:
        name = random.choice(list(good))
        return shape_of(random, json.dumps(good[name]), fuzz_texts.a_unit(random), lambda long: (name, long))

    return Target(make=make, check=check, shape=shape, one_in=10)


def read_state(storage: LocalStorage, name: str) -> None:
    if name == "lease":
        LeaseFile.parse(storage.read(name) or "")
    elif name.startswith("checkpoint"):
        checkpoint = read_checkpoint(storage, "checkpoint")
        kafka_positions(source_offset(storage, "checkpoint", checkpoint.planned_batch if checkpoint else 0), "topic")
    else:
        read_source(storage, "c")


def settings_files(folder: Path) -> Target:
    path = folder / "settings.yaml"

    def check(text: str) -> Outcomes:
        path.write_bytes(text.encode(errors="surrogatepass"))
        try:
            load_settings(path)
        except JobError as error:
            return Counter({"not YAML" if "YAML" in str(error) else "refused": 1})
        return Counter({"taken": 1})

    def shape(random: Random) -> Shape:
        unit = random.choice((*fuzz_texts.BROKEN, *fuzz_texts.YAML_VALUES)) + random.choice(("", "\n", "\n- ", ", "))
        return shape_of(random, fuzz_texts.settings_text(random), unit or "a", str)

    return Target(make=lambda random: Case(fuzz_texts.settings_text(random)), check=check, shape=shape, one_in=1_000)


class Listener(logging.Handler):
    """Notes what the server logs about faults."""

    def __init__(self, found: list[object]) -> None:
        super().__init__(logging.ERROR)
        self._records = found

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record.getMessage())


@contextmanager
def metrics_server() -> Iterator[Target]:
    """Yields the target; the server runs until the end of the block. An error that it does not catch fails the next
    request."""
    escaped: list[object] = []
    before, threading.excepthook = threading.excepthook, lambda found: escaped.append(found.exc_value)
    listener = Listener(escaped)
    logging.getLogger("uvicorn.error").addHandler(listener)

    def answer(port: int, data: bytes, *, waits: bool = True, ends: bool = True) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX) as connection:
            try:
                connection.sendall(data)
                if not waits:  # closes with a reset, whatever the server is about
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return b"gone"
                if ends:  # an incomplete request has no answer, and the server closes
                    select.select([connection], [], [], GRACE_S)
                    connection.shutdown(socket.SHUT_WR)
                return b"".join(iter(partial(connection.recv, 65_536), b""))
            except TimeoutError:
                raise
            except OSError:  # it has answered, and does not wait for the end of a request that is too long
                return b""

    def check(content: tuple[bytes, bool], port: int) -> Outcomes:
        data, waits = content
        found = answer(port, data, waits=waits)
        page = found.split(b"\r\n\r\n", 1)[-1]
        assert b"<b>" not in page, "what was asked for is in the page as it is"
        assert answer(port, b"GET /livez HTTP/1.0\r\n\r\n", ends=False).endswith(b"ok\n")
        assert not escaped, repr(escaped)
        return Counter({found[:12].decode() if found.startswith(b"HTTP/") else "no status" if waits else "gone": 1})

    def shape(random: Random) -> Shape:
        text, unit = fuzz_texts.http_bytes(random).decode("latin-1"), random.choice(fuzz_texts.HTTP_PIECES)
        return shape_of(random, text, unit, lambda long: (long.encode("latin-1"), True))

    try:
        with serve("127.0.0.1", 0, Exposition().answer, {"/livez": list}) as port:
            yield Target(
                make=lambda random: Case((fuzz_texts.http_bytes(random), fuzz_texts.chance(random, 0.9))),
                check=partial(check, port=port),
                shape=shape,
                one_in=100,
            )
    finally:
        threading.excepthook = before
        logging.getLogger("uvicorn.error").removeHandler(listener)


@contextmanager
def targets() -> Iterator[dict[str, Target]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        storage = LocalStorage(folder)
        yield {
            REQUEST_LOG: log_lines(REQUEST_LOG),
            SERVER_LOG: log_lines(SERVER_LOG),
            "log_file": log_files(folder),
            "capture": capture_rows(),
            "manifest": small_files(storage, {MANIFEST: GOOD_MANIFEST}, lambda _: read_manifest(storage), JobError),
            "state": small_files(storage, GOOD_STATE, partial(read_state, storage), UNREADABLE),
            "settings": settings_files(folder),
            "metrics": stack.enter_context(metrics_server()),
        }


def fuzz(name: str, target: Target, seed: int, count: int) -> Outcomes:
    """Returns the outcomes of at least `count` inputs."""
    random = Random(f"{name} {seed}")  # noqa: S311 - a seed must give the same inputs again
    outcomes: Outcomes = Counter()
    made = 0
    while made < count:
        case = target.make(random)
        try:
            found = target.check(case.content)
        except BaseException:
            print(f"{name}, seed {seed}, after {made:,} inputs: {case.content!r}"[:20_000])
            raise
        made += case.inputs
        outcomes += found
    return outcomes


def shapes_of(name: str, target: Target, seed: int, count: int) -> list[Shape]:
    random = Random(f"shapes of {name} {seed}")  # noqa: S311 - as above
    return [target.shape(random) for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Feed hostile inputs to whatever reads from outside.")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("target", nargs="*", help="all of them, if none is named")
    options = parser.parse_args()
    unbounded: list[str] = []
    with targets() as all_targets:
        for name in options.target or all_targets:
            target = all_targets[name]
            start = time.perf_counter()
            outcomes = fuzz(name, target, options.seed, max(1, options.inputs // target.one_in))
            elapsed_s = time.perf_counter() - start
            print(f"\n{name}, seed {options.seed}: {outcomes.total():,} inputs, {outcomes.total() / elapsed_s:,.0f}/s")
            for outcome, count in outcomes.most_common(12):
                print(f"{count:>12,}  {outcome!r}")
            shapes = min(SHAPES_MAX, max(SHAPES_MIN, outcomes.total() // 100))
            found = cost(target.check, shapes_of(name, target, options.seed, shapes))
            print(f"{shapes} shapes, {found}")
            unbounded += [name] * (not found.is_bounded)
    if unbounded:
        sys.exit(f"The time per byte is out of proportion: {', '.join(unbounded)}.")


if __name__ == "__main__":
    main()
