"""Turns unexpected errors of Python, Java, Delta and Arrow that have an outside cause into one sentence with the
remedy.

This module uses only the type of an error, its number and known phrases of its text, since each library wraps the
others. A full disk comes as an OSError, as a DeltaError, as an exception of Spark's around one of Java's, and as the
traceback of a Python worker inside of that. Phrases count only in errors of libraries that do input and output. An
error that is not recognized here counts as a fault of groupledger.

No sentence advises to delete or overwrite anything in a warehouse. It advises to move a damaged folder out of it, so
that it is still available if it was not damaged after all. It does so only if the text proves that bytes are wrong, or
that a file is missing; tables that may be healthy but have unsupported features are recognized first
(`jobs.process.not_understood`).

A sentence shows no text of an error but the path of a file, since the text may hold data or secrets.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from groupledger.jobs.process.errors import InputError, JobError, OutsideError
from groupledger.jobs.process.not_understood import (
    ITS_LOG,
    NO_BEGINNING,
    checkpoint_of_another_form,
    may_be_healthy,
    what_is_needed,
)
from groupledger.jobs.process.places import local_path
from groupledger.jobs.process.terminal import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator

AGAIN = "and run the command again"
STAYS = "rows that were written before stay"

OF_THE_SYSTEM = {
    errno.ENOSPC: ("The disk is full", f"make room {AGAIN}; {STAYS}"),
    errno.EDQUOT: ("The disk quota is used up", f"make room {AGAIN}; {STAYS}"),
    errno.EFBIG: ("A file may not become as large as it must", f"raise the limit (`ulimit -f`) {AGAIN}; {STAYS}"),
    errno.EROFS: ("The file system is read-only", f"make it writable, or use another place, {AGAIN}"),
    errno.EACCES: ("Access was denied", f"give this user the right to read and write there {AGAIN}"),
    errno.EPERM: ("Access was denied", f"give this user the right to read and write there {AGAIN}"),
    errno.EIO: ("The disk or its network failed", f"check it {AGAIN}"),
    errno.ESTALE: ("The disk or its network failed", f"check it {AGAIN}"),
    errno.EMFILE: ("Too many files are open", f"raise the limit (`ulimit -n`) {AGAIN}"),
    errno.ENFILE: ("Too many files are open", f"raise the limit of the machine {AGAIN}"),
    errno.ENOMEM: ("Memory was short", f"give the machine or the process more {AGAIN}"),
    errno.EAGAIN: ("No thread could be started", f"raise the limits (`ulimit -u`, `ulimit -v`) {AGAIN}"),
    errno.ECONNREFUSED: ("A server, or Spark's own Java process, is not there", f"see why it ended {AGAIN}"),
    errno.ECONNRESET: ("A server, or Spark's own Java process, broke the connection", f"see why it ended {AGAIN}"),
    errno.ETIMEDOUT: ("A server did not answer in time", f"check the network {AGAIN}"),
    errno.EHOSTUNREACH: ("A server can't be reached", f"check the network {AGAIN}"),
    errno.ENETUNREACH: ("A server can't be reached", f"check the network {AGAIN}"),
}

# Texts of Java and object stores for failures that a system call would report by number.
NUMBERS = {
    **{os.strerror(number): number for number in OF_THE_SYSTEM},
    "AccessDenied": errno.EACCES,
    "AccessControlException": errno.EACCES,
    "Mkdirs failed to create": errno.EACCES,
    "OutOfMemoryError": errno.ENOMEM,
    "std::bad_alloc": errno.ENOMEM,
    "UnknownHostException": errno.EHOSTUNREACH,
    "SocketTimeoutException": errno.ETIMEDOUT,
    "error sending request": errno.EHOSTUNREACH,
    "503 Service Unavailable": errno.ETIMEDOUT,
    "403 Forbidden": errno.EACCES,
}
NUMBER = re.compile(rf"\(os error (\d+)\)|\[Errno (\d+)\]|({'|'.join(map(re.escape, NUMBERS))})")

# Texts about a file that a reader could not parse, and about one that does not exist.
DAMAGED = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|is not a Parquet file|Could not read footer|Parquet magic bytes"
    r"|Parquet file size is|Could not open Parquet|Failed to parse parquet|Parquet error|Json error|Invalid JSON"
    r"|DELTA_STATE_RECOVER_ERROR|ChecksumException|Invalid table version|Expected contiguous commit"
    r"|Arrow error|Malformed JSON|at line [0-9]+ column [0-9]"
    r"|No table metadata or protocol|No protocol found|No metadata found|Invalid Checkpoint"
)
# Texts of the library loader for lack of memory, and of Python for lack of threads.
NO_ROOM = re.compile(r"failed to map segment|[Cc]annot allocate memory")
NO_THREAD = "can't start new thread"
MISSING = re.compile(r"FILE_NOT_EXIST|File does not exist|Object at location|DELTA_LOG_FILE_NOT_FOUND|No such file")
# Texts of Kafka's client in Spark, and of Spark's own consumer, when brokers don't answer.
NO_BROKERS = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:BrokerNotAvailable|Disconnect|LeaderNotAvailable|Network|Timeout)Exception"
    r"|Cannot fetch record for offset \d+ in \d+ milliseconds"
)
RECORDS_LOST = "DATA_LOSS"  # which the job explains
# Errors of libraries that do input and output.
LIBRARIES = (
    ("deltalake.exceptions", "DeltaError"),
    ("kafka.errors", "KafkaError"),
    ("py4j.protocol", "Py4JError"),
    ("pyarrow", "ArrowException"),
    ("pyspark.errors", "PySparkException"),
)
# The prefix of the note that `of_the_table` adds to an error, before the folder of the table.
OF_THE_TABLE = "groupledger read the table at "
OF_DELTA_LAKE = re.compile(r'table "(file:/[^"\n]+)" requires')
# Characters that may surround a path in a text.
AROUND = re.compile(r"[\s'\"(),;]")

NO_TEMPORARY = OutsideError(
    f"Java could not unpack its libraries into the temporary folder: make room or let programs run there {AGAIN}."
)
LITTLE_MEMORY = OutsideError(
    "Spark refuses to start with so little memory: give `spark.driver.memory` and `spark.executor.memory` 512m or more,"
    " and see that no `_JAVA_OPTIONS` says less."
)
BROKERS_AWAY = OutsideError(
    "The brokers stopped answering while Spark read from them: check that they run and can be reached from here,"
    f" {AGAIN}, which continues where this one ended; {STAYS}."
)
SENTENCES: dict[str, JobError] = {
    "CommitFailedError": OutsideError(f"Another writer changed a table in the same moment: wait for it {AGAIN}."),
    "TableNotFoundError": OutsideError(f"A table was removed while it was in use: restore it {AGAIN}."),
    "DeltaProtocolError": may_be_healthy(None, "a rule or a version of Delta's protocol"),
    "INVALID_DRIVER_MEMORY": LITTLE_MEMORY,
    "INVALID_EXECUTOR_MEMORY": LITTLE_MEMORY,
    "FAILED_TO_LOAD_NATIVE_LIBRARY": NO_TEMPORARY,
    "Could not initialize class org.xerial": NO_TEMPORARY,
    # Of dbfs:/, which overwrites where others refuse.
    "allow_unsafe_rename": InputError(
        "This file system does not keep two writers apart: name the warehouse by the object store below it (s3a://,"
        " abfss://, gs://)."
    ),
    **dict.fromkeys(
        ("NoSuchBucket", "UnknownStoreException"),
        InputError("There is no such bucket: check the name in --warehouse, and AWS_ENDPOINT_URL if it is set."),
    ),
    "URL scheme is not allowed": InputError(
        "The endpoint of the store has no TLS: give one with https://, or set AWS_ALLOW_HTTP=true in your own network."
    ),
    "S3AFileSystem not found": InputError("Spark has no client for S3: run `groupledger setup --with-s3`."),
    "No FileSystem for scheme": InputError(
        "Spark has no client for such a URI: name an S3 bucket by s3a://, or add the JAR of another client."
    ),
}
OF_KERNEL = "Kernel error:"
# Tables that a pass computes from other tables, from the beginning if they are missing.
COMPUTED = ("commit_steps", "committed_offsets", "incidents", "lag", "lag_seeds", "offset_events")
# How a table is made again, by its name or by the command that writes it.
AGAIN_BY = {
    "coordinator_records": "ingest --recover",
    "coverage": "ingest",
    "history": "history --rebuild",
    "validate": "validate",
    **dict.fromkeys(COMPUTED, "pipeline"),
}
# Parts that an installation may lack, by the module that is not found.
_WITH_SPARK = ("Spark, which this command needs,", "run `pip install 'groupledger[spark]'`, then `groupledger setup`")
EXTRAS = {
    **dict.fromkeys(("pyspark", "delta", "py4j", "kafka", "numpy", "pandas", "prometheus_client"), _WITH_SPARK),
    "mcp": ("The Model Context Protocol's SDK, which this command needs,", "run `pip install 'groupledger[mcp]'`"),
    "great_expectations": ("Great Expectations, which this command needs,", "run `pip install 'groupledger[quality]'`"),
}


@contextmanager
def of_the_table(folder: str) -> Iterator[None]:
    """Adds the folder of a table to errors of libraries that read it: most name neither the folder nor the file."""
    try:
        yield
    except Exception as error:  # whatever it is, it goes on
        if _does_input_and_output(error):
            vars(error).setdefault("__notes__", []).append(f"{OF_THE_TABLE}{folder}")  # add_note, which 3.10 lacks
        raise


def explain(error: BaseException) -> JobError | None:
    """Returns the sentence and the exit code for an error with an outside cause; None for any other error."""
    if isinstance(error, JobError):
        return _of_a_query(error) or error
    short = _of_what_was_short(error)
    if short is not None:
        return _of_the_system(short)
    if isinstance(error, OSError) and error.errno in OF_THE_SYSTEM:
        return _of_the_system(error.errno, error.filename)
    if isinstance(error, ModuleNotFoundError):
        extra = EXTRAS.get((error.name or "").split(".")[0])
        return None if extra is None else InputError(f"{extra[0]} is not installed: {extra[1]}.")
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return OutsideError(f"{_shown(error.filename)} can't be used: {error.strerror}. Check the path {AGAIN}.")
    return _of_libraries(error) if _does_input_and_output(error) else None


def _of_what_was_short(error: BaseException) -> int | None:
    """Returns the number of the system's error where Python has a class of its own for it, or none."""
    has_no_room = isinstance(error, ImportError) and NO_ROOM.search("\n".join(_texts(error)))
    if isinstance(error, MemoryError) or has_no_room:
        return errno.ENOMEM
    return errno.EAGAIN if isinstance(error, RuntimeError) and str(error) == NO_THREAD else None


def _of_a_query(error: JobError) -> JobError | None:
    """Returns the cause that made a streaming query fail, where the job could only report that it did. Errors that a
    batch raised on purpose stay."""
    query = error.__context__
    is_hidden = type(query).__name__ == "StreamingQueryException" and JobError.__module__ not in str(query)
    return _of_libraries(query) if query is not None and is_hidden else None


def _does_input_and_output(error: BaseException) -> bool:
    is_of_rust = type(error).__module__ == "pyo3_runtime"  # not a module; panics of delta-rs have it
    return isinstance(error, OSError) or is_of_rust or any(_is(error, *kind) for kind in LIBRARIES)


def _is(error: BaseException, module: str, name: str) -> bool:
    """Returns whether an error is of a kind. A library that was not imported has raised nothing, and need not be."""
    imported = sys.modules.get(module)
    return imported is not None and isinstance(error, getattr(imported, name))


def _of_libraries(error: BaseException) -> JobError | None:
    if _is(error, "py4j.protocol", "Py4JNetworkError"):
        return _of_the_system(errno.ECONNRESET)
    text = "\n".join(_texts(error))
    is_of_kafka = _is(error, "kafka.errors", "KafkaError")
    if is_of_kafka or (NO_BROKERS.search(text) and RECORDS_LOST not in text):
        failed = f"The brokers failed ({type(error).__name__}): run `groupledger doctor`, {AGAIN}."
        return OutsideError(failed) if is_of_kafka else BROKERS_AWAY
    number = NUMBER.search(text)
    if number is not None:
        found = NUMBERS[number[3]] if number[3] else int(number[1] or number[2])
        if found in OF_THE_SYSTEM:
            return _of_the_system(found)
    strange = not_understood(error, _noted_folder(error))
    if strange is not None:
        return strange
    for phrase, sentence in SENTENCES.items():
        if phrase == type(error).__name__ or phrase in text:
            return sentence
    return _of_a_file(text, _noted_folder(error)) if DAMAGED.search(text) or MISSING.search(text) else None


def not_understood(error: BaseException, folder: str | None) -> OutsideError | None:
    """Returns the error to show if `error` is due to a table that has an unsupported feature and may be healthy, else
    None. The kernel of delta-rs has many errors about a log. One that says neither that the log is damaged nor that a
    file is missing proves no damage, so it counts as an unsupported feature, too. `folder` is that of the table, if
    known."""
    text = "\n".join(_texts(error))
    what = what_is_needed(text) or checkpoint_of_another_form(text, _log_names(text, folder))
    if what is None and OF_KERNEL in text and not DAMAGED.search(text) and not MISSING.search(text):
        what = ITS_LOG
    return None if what is None else may_be_healthy(_shown(folder) if folder else _table_in(text), what)


def _log_names(text: str, folder: str | None) -> list[str]:
    """Returns the names of the files in a table's log if an error says that the log has no beginning."""
    if folder is None or NO_BEGINNING.search(text) is None:
        return []
    from deltalake.exceptions import DeltaError
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import FileSelector, PyFileSystem

    try:
        found = PyFileSystem(DeltaStorageHandler(folder)).get_file_info(FileSelector("_delta_log"))
    except (DeltaError, OSError):
        return []
    return [info.base_name for info in found]


def _table_in(text: str) -> str | None:
    """Returns the folder of the table that Delta Lake puts between quotes."""
    found = OF_DELTA_LAKE.search(text)
    return None if found is None else _shown(found[1])


def _noted_folder(error: BaseException) -> str | None:
    notes = getattr(error, "__notes__", ())
    return next((note.removeprefix(OF_THE_TABLE) for note in notes if note.startswith(OF_THE_TABLE)), None)


def _of_the_system(number: int, path: object = None) -> OutsideError:
    what, remedy = OF_THE_SYSTEM[number]
    return OutsideError(f"{what}{'' if path is None else f' ({_shown(path)})'}: {remedy}.")


def _of_a_file(text: str, folder: str | None) -> JobError:
    is_what = "is missing" if MISSING.search(text) else "is damaged"
    path = _path_in(text)
    if path is None and folder is None:
        return OutsideError(f"A file of a table {is_what}: restore the table from a backup {AGAIN}.")
    if path is None:
        place = _shown(folder)
        remedy = f"restore the table from a backup, or {made_again(place.rsplit('/', 1)[-1], place)}"
        return OutsideError(f"A file of the table at {place} {is_what}: {remedy}.")
    if folder is not None and not path.startswith("/") and local_path(path) is not None:
        path = f"{_shown(folder)}/{path}"  # delta-rs gives it relative to the folder
    # All tables have partitions, so that no file of rows lies in a table's own folder; those of a capture do.
    parts = path.split("/")
    inner = next((index for index, part in enumerate(parts) if part == "_delta_log" or "=" in part), None)
    if inner is None and folder is not None and path.startswith(f"{_shown(folder)}/"):
        inner = _shown(folder).count("/") + 1  # a table that another engine has given no partitions
    if inner is None:
        return InputError(f"The file {path} {is_what}: copy it anew {AGAIN}.")
    table, folder = parts[inner - 1], "/".join(parts[:inner])
    if MISSING.search(text) and parts[inner] != "_delta_log" and _is_of_the_past(folder, parts[-1]):
        gone = "was changed while it was read, and what was read is gone"
        return OutsideError(f"The table {table} {gone}: run the command again.")
    return OutsideError(
        f"The file {path} of the table {table} {is_what}: restore it from a backup, or {made_again(table, folder)}."
    )


def _is_of_the_past(folder: str, file: str) -> bool:
    """Returns whether the table, as it is now, names a file of rows no more: `forget` has deleted it, or a VACUUM."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        named = DeltaTable(folder).file_uris()
    except (DeltaError, OSError):
        return False
    return file not in {unquote(uri).rsplit("/", 1)[-1] for uri in named}


def _path_in(text: str) -> str | None:
    """Returns the first path of a Parquet file, or of one in a Delta log."""
    for word in AROUND.split(text):
        path = word.rstrip(".:")
        if "/" in path and (path.endswith(".parquet") or "/_delta_log/" in path):
            return _shown(_absolute(path))
    return None


def _absolute(path: str) -> str:
    """Returns the path as others know it: delta-rs leaves the first slash of a local one out."""
    if path.startswith("/"):
        return path
    whole = f"/{path}"
    return whole if Path(unquote(whole)).parent.is_dir() else path


def made_again(name: str, folder: str) -> str:
    """Returns a clause that says how to make the table `name` again from its sources if there is no backup. The sources
    may have less than the table had: the topic is compacted, and the history continues from rows whose records are
    gone. So the clause advises to move `folder` away, not to delete it."""
    from groupledger.schemas.definitions import table_names, written_by

    command = AGAIN_BY.get(name) or (AGAIN_BY.get(written_by(name)) if name in table_names() else None)
    if command is None:
        return "read its source again into another --warehouse"
    return f"{moved_out(folder)} and run `groupledger {command}`, which makes of it what its sources still have"


def moved_out(folder: str) -> str:
    """Returns a clause that advises to move a folder out of the warehouse, so that nothing in it is lost."""
    return f"move the folder {folder} out of the warehouse"


def _texts(error: BaseException) -> Iterator[str]:
    """Yields the texts of an error and of those that it came from. A chain of causes may lead back to itself."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield f"{cause}\n{getattr(cause, '_stackTrace', '')}"  # pyspark has the causes there only
        cause = cause.__cause__


def _shown(path: object) -> str:
    shown = os.fsdecode(path) if isinstance(path, (str, bytes)) else str(path)
    return escaped(unquote(re.sub("^file:/*", "/", shown)))
