"""Goal: every fault of the outside is one sentence with a remedy; an unknown error counts as our own fault."""

from __future__ import annotations

import errno
import os
import resource
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, TableNotFoundError
from py4j.protocol import Py4JError, Py4JNetworkError

from groupledger.jobs.process.errors import InputError, JobError, OutsideError
from groupledger.jobs.process.outside import COMPUTED, explain, of_the_table
from groupledger.schemas.definitions import written_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPARKS = "Job aborted due to stage failure: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "


def raised(by: Callable[[], object]) -> BaseException:
    try:
        by()
    except BaseException as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("nothing was raised")


def panic(text: str) -> BaseException:
    """Returns what a library of Rust's raises when it panics."""
    error: BaseException = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})(text)
    return error


def sentence(error: BaseException) -> str:
    """Returns the sentence of an error from outside."""
    found = explain(error)
    assert isinstance(found, OutsideError), found
    assert "\n" not in str(found)
    return str(found)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/w/x"), "The disk is full (/w/x): make room"),
        (OSError(errno.EROFS, "Read-only file system", "/w"), "The file system is read-only (/w)"),
        (PermissionError(errno.EACCES, "Permission denied", "/w"), "Access was denied (/w)"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many files are open: raise"),
        (MemoryError(), "Memory was short: give"),
        (ImportError("libarrow.so.2600: failed to map segment from shared object"), "Memory was short: give"),
        (ImportError("x.so: cannot allocate memory in static TLS block"), "Memory was short: give"),
        (RuntimeError("can't start new thread"), "No thread could be started: raise the limits"),
        (panic("OS can't spawn worker thread: Resource temporarily unavailable (os error 11)"), "No thread could be"),
        (panic("called `Result::unwrap()`: Cannot allocate memory (os error 12)"), "Memory was short: give"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", b"/w/\x1b[2Jx"), "/w/\\x1b[2Jx can't be used"),
        (OSError("Generic LocalFileSystem error: No space left on device (os error 28)"), "The disk is full"),
        (DeltaError("Failed to parse parquet: Unable to copy (os error 27)"), "A file may not become as large"),
        (Py4JError("java.io.IOException: No space left on device"), "The disk is full"),
        (Py4JError("java.io.FileNotFoundException: /w/x (Read-only file system)"), "The file system is read-only"),
        (Py4JError("java.nio.file.AccessDeniedException: /w/x"), "Access was denied"),
        (Py4JError("Mkdirs failed to create file:/w/x"), "Access was denied"),
        (Py4JError("java.lang.OutOfMemoryError: Java heap space"), "Memory was short"),
        (Py4JError("[INVALID_DRIVER_MEMORY] System memory 80740352 must be at least 471859200."), "so little memory"),
        (Py4JError('File "worker.py"\nOSError: [Errno 28] No space left on device'), "The disk is full"),
        (Py4JNetworkError("Answer from Java side is empty"), "Spark's own Java process, broke the connection"),
        (MemoryError(), "Memory was short"),
        (CommitFailedError("conflict"), "Another writer changed a table"),
        (TableNotFoundError("no log"), "A table was removed"),
        (DeltaProtocolError("reader version 9"), "may be healthy"),
        (DeltaError("Kernel error: Json error: Encountered unexpected 'g'"), "A file of a table is damaged"),
        (DeltaError("Kernel error: No table metadata or protocol found in delta log."), "A file of a table is damaged"),
        (DeltaError("Kernel error: Expected contiguous commit files, but found gap"), "A file of a table is damaged"),
        (
            Py4JError(f"{SPARKS}file:/w/coordinator_records/ingest_date=2026-01-01/p%20.parquet. SQLSTATE: KD001"),
            "from a backup, or move the folder /w/coordinator_records out of the warehouse and run `groupledger ingest",
        ),
        (
            Py4JError(f"{SPARKS}file:///w/members/cluster=a/is_open=1/p.parquet."),
            "move the folder /w/members out of the warehouse and run `groupledger history --rebuild`, which",
        ),
        (
            Py4JError(f"{SPARKS}s3a://bucket/w/lag/_delta_log/00000000000000000001.json."),
            "The file s3a://bucket/w/lag/_delta_log/00000000000000000001.json of the table lag is damaged",
        ),
        (
            Py4JError("[FAILED_READ_FILE.FILE_NOT_EXIST] file:/w/lag/sample_date=1/p.parquet. File does not exist."),
            "of the table lag is missing",
        ),
    ],
)
def test_what_the_outside_does(error: BaseException, message: str) -> None:
    """Goal: full, read-only and forbidden disks and damaged files are reported, whatever library finds them."""
    assert message in sentence(error)


def test_a_local_path_is_whole(tmp_path: Path) -> None:
    """Goal: the folder that the remedy names is the one to remove, though delta-rs names local paths without their
    first slash."""
    folder = tmp_path / "members" / "cluster=a"
    folder.mkdir(parents=True)
    path = f"{folder}/p.parquet"
    for shown in (path, path.removeprefix("/")):
        message = sentence(DeltaError(f"Parquet error: Could not open Parquet file {shown}: EOF"))
        assert f"The file {path} of the table members" in message
        assert f"move the folder {tmp_path}/members out of the warehouse and" in message


def test_what_was_raised_on_purpose_stays() -> None:
    """Goal: a sentence of a job is its own."""
    error = InputError("Give another.")
    assert explain(error) is error


def test_a_table_of_which_only_the_folder_is_known() -> None:
    """Goal: a log that delta-rs can't read, and whose path delta-rs does not name, has the remedy of its table, whoever
    reads it."""
    for name, remedy in (
        ("lag", "or move the folder /w/lag out of the warehouse and run `groupledger pipeline`, which"),
        ("groups", "or move the folder /w/groups out of the warehouse and run `groupledger history --rebuild`, which"),
        ("watermarks", "or read its source again into another --warehouse."),
    ):
        with pytest.raises(DeltaError) as raised, of_the_table(f"/w/{name}"):
            raise DeltaError("Kernel error: Json error: Encountered unexpected 'g'")
        assert sentence(raised.value).startswith(
            f"A file of the table at /w/{name} is damaged: restore the table from a backup, {remedy}"
        )


def test_computed_tables_exist() -> None:
    """Goal: the list of tables that are computed again has only tables, and only those of a pass."""
    assert {written_by(name) for name in COMPUTED} == {"pipeline"}


def test_a_damaged_capture_is_bad_input() -> None:
    """Goal: a Parquet file that is no table's was given to us, which is exit code 2 and not 3."""
    found = explain(Py4JError(f"{SPARKS}file:/x/capture/part-0.parquet. Could not read footer"))
    assert isinstance(found, InputError)
    assert str(found) == "The file /x/capture/part-0.parquet is damaged: copy it anew and run the command again."


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError("Generic S3 error: 404 Not Found <Code>NoSuchBucket</Code>"), "There is no such bucket"),
        (Py4JError("org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://b/w'"), "There is no such bucket"),
        (OSError("Generic S3 error: builder error: URL scheme is not allowed"), "set AWS_ALLOW_HTTP=true"),
        (Py4JError("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"), "run `groupledger setup --with-s3`"),
    ],
)
def test_a_store_that_was_named_wrongly(error: BaseException, message: str) -> None:
    """Goal: a bucket that is not there, an endpoint without TLS and a client that lacks are faults that the user can
    repair."""
    found = explain(error)
    assert isinstance(found, InputError)
    assert message in str(found)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("No space left on device"),
        KeyError("Permission denied"),
        DeltaError("Generic error: no column x"),
        pa.ArrowInvalid("tried to convert to double"),
        Py4JError("[UNRESOLVED_COLUMN] no column x"),
    ],
)
def test_what_nobody_foresaw_is_ours(error: BaseException) -> None:
    """Goal: an error of the program is not taken for the outside's because of words in it."""
    assert explain(error) is None


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_deltalake(tmp_path / "lag", pa.table({"part": ["a"], "n": [1]}), partition_by=["part"])
    return tmp_path / "lag"


@pytest.mark.parametrize("length", [1, 2])
def test_causes_that_lead_back(length: int) -> None:
    """Goal: a chain of causes without an end is walked once, and ends as a fault of ours."""
    chain = [Py4JError(f"cause {number}") for number in range(length)]
    for number, error in enumerate(chain):
        error.__cause__ = chain[(number + 1) % length]
    assert explain(chain[0]) is None


def test_real_errors_of_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the errors that Python and Arrow really raise on a full disk are explained; a limit of the process takes
    the place of a full disk."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python 3.11 would leave half a file of it
    rows = pa.table({"bytes": [os.urandom(8) for _ in range(10_000)]})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        found = [
            raised(lambda: (tmp_path / "x").write_bytes(b"x" * 2_000)),
            raised(lambda: pq.write_table(rows, tmp_path / "x.parquet")),
        ]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for error in found:
        assert "A file may not become as large" in sentence(error)


def test_real_errors_of_damaged_and_missing_files(table: Path) -> None:
    """Goal: the errors that delta-rs and Arrow really raise over damaged and missing files are explained."""

    def read() -> object:
        return DeltaTable(table).to_pyarrow_table()

    (file,) = table.rglob("*.parquet")
    file.write_bytes(b"no Parquet")
    assert "is damaged" in sentence(raised(read))
    assert "is damaged" in sentence(raised(lambda: DeltaTable(table).delete("n > 0")))
    file.unlink()
    assert "is missing" in sentence(raised(read))
    (table / "_delta_log" / f"{0:020}.json").write_text("{garbage")
    assert "is damaged" in sentence(raised(read))


def test_what_was_deleted_while_it_was_read(table: Path) -> None:
    """Goal: if a newer version of the table does without the missing file, the error does not advise to remove the
    table."""
    opened = DeltaTable(table)
    write_deltalake(table, pa.table({"part": ["b"], "n": [2]}), mode="overwrite")
    DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    error = raised(opened.to_pyarrow_table)
    assert sentence(error) == (
        "The table lag was changed while it was read, and what was read is gone: run the command again."
    )
    next(iter(table.rglob("part=b/*.parquet"))).unlink()
    assert "is missing" in sentence(raised(DeltaTable(table).to_pyarrow_table))


def failed(text: str) -> JobError:
    """Returns the error of a job whose streaming query failed with a text."""
    hidden = type("StreamingQueryException", (Py4JError,), {})
    try:
        try:
            raise hidden(text)
        except Py4JError as error:
            raise OutsideError("The streaming query failed.") from error
    except OutsideError as error:
        return error


OF_KAFKA = "org.apache.kafka.common.errors.TimeoutException"


@pytest.mark.parametrize(
    "text",
    [
        f"{OF_KAFKA}: no node assignment.\nCaused by: java.net.ConnectException: Connection refused",
        f"Job aborted: Task 0 failed: {OF_KAFKA}: Timeout of 60000ms expired before the position could be determined",
        "java.util.concurrent.TimeoutException: Cannot fetch record for offset 42 in 120000 milliseconds",
    ],
)
def test_brokers_that_go_away(text: str) -> None:
    """Goal: a query that ends since the brokers are gone says so in one whole sentence, whatever part of Spark noticed;
    records that were lost are another thing."""
    said = sentence(failed(f"[STREAM_FAILED] Query terminated with exception: {text}"))
    assert said == (
        "The brokers stopped answering while Spark read from them: check that they run and can be reached from here,"
        " and run the command again, which continues where this one ended; rows that were written before stay."
    )
    assert "The brokers" not in sentence(failed(f"[KAFKA_DATA_LOSS.START_OFFSET_RESET] {text}"))


def test_a_query_that_failed_says_why() -> None:
    """Goal: the error that a streaming query hides is reported, and an error that a batch raised on purpose is not
    hidden by the query's."""
    full = "OSError: [Errno 28] No space left on device"
    assert "The disk is full" in sentence(failed(full))
    assert sentence(failed("something else")) == "The streaming query failed."
    assert sentence(failed(f"groupledger.jobs.process.errors.OutsideError: {full}")) == "The streaming query failed."
