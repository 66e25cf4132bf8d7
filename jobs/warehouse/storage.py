"""Reads and writes the small files beside the tables: the lease, the source's identity, Spark's checkpoints.

The warehouse is a local directory or any URI that Hadoop knows (`hdfs://`, `s3a://`, ...). `create` must be atomic: if
two processes create the same name at once, one of them gets False.
- Local: a hard link to a finished temporary file, which fails if the name is taken and never shows half a file.
- S3: a conditional write (`s3_create`).
- Elsewhere in Hadoop: create without overwrite, whose atomicity is the file system's (HDFS, ABFS and GCS have it).

`write` replaces a file in one step: a kill leaves the old text or the new one, and nobody reads half of it.
- Local and HDFS: a finished temporary file is renamed over the old file. Hadoop's other file systems can only delete
  the old file first and rename then. That is not done: a name that is missing for a moment is worse than half a text,
  since another process would take the lease for free.
- Object stores (S3, GCS): a file exists once it is closed, and not before.
- Elsewhere (ABFS) a writer that is killed may leave half a text: `read_parsed` reports it with the remedy, and nobody
  takes a lease that can't be read before it has run out.

A temporary file is removed when its write fails. A killed writer leaves its temporary file; the next write into the
same folder removes it, once it is a day old and, on a local disk, no living process holds its lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.places import local_path
from groupledger.jobs.warehouse.s3_create import SCHEMES, S3Create

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

T = TypeVar("T")

STATE_FOLDER = "_groupledger"
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")
TEMPORARY_S_MAX = 86_400
# The schemes of file systems that rename over a file in one step.
ONE_STEP_RENAME = frozenset({"hdfs", "viewfs", "webhdfs", "swebhdfs"})


class Readable(Protocol):
    """A folder of small files to read. Names are relative to the warehouse, with `/` between parts."""

    def read(self, name: str) -> str | None:
        """Returns the text of a file; None if the file does not exist."""
        ...


class Listable(Readable, Protocol):
    """A folder of small files to read and list."""

    def names(self, folder: str) -> list[str]:
        """Returns the names in a folder, sorted; an empty list if the folder does not exist."""
        ...


class Storage(Listable, Protocol):
    """A folder of small files to read and write."""

    def write(self, name: str, text: str) -> None:
        """Replaces a file in one step."""
        ...

    def create(self, name: str, text: str) -> bool:
        """Makes a new file. Returns False if the name is taken, even if another process was just faster."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Moves a file or folder to a free name."""
        ...

    def delete(self, name: str) -> None:
        """Removes a file; it is no error if the file is gone already."""
        ...

    def delete_folder(self, name: str) -> None:
        """Removes a folder with all that is in it; it is no error if it is gone already."""
        ...


def read_parsed(storage: Readable, name: str, parse: Callable[[str], T], remedy: str) -> T | None:
    """Returns the parsed content of a small file; None if the file does not exist. Raises OutsideError with the remedy
    if the file is damaged. If the file is complete JSON but `parse` fails, a newer release may have written it, and the
    error says so."""
    text = None
    try:
        text = storage.read(name)
        return None if text is None else parse(text)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        if text is not None and is_whole(text):
            raise OutsideError(
                f"The file {name} of the warehouse has content that this release does not understand: a newer release"
                " may have written it; use that one, or restore the file from a copy."
            ) from error
        raise OutsideError(f"The file {name} of the warehouse is damaged: {remedy}.") from error


def is_whole(text: str) -> bool:
    """Returns whether the text of a small file is complete JSON."""
    try:
        json.loads(text)
    except (RecursionError, ValueError):
        return False
    return True


def open_storage(spark: SparkSession, warehouse: str) -> Storage:
    path = local_path(warehouse)
    return HadoopStorage(spark, warehouse) if path is None else LocalStorage(Path(path))


class LocalStorage:
    """A directory of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, name: str) -> str | None:
        try:
            return (self.root / name).read_text()
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        with self._temporary(name, text) as temporary:
            temporary.replace(self.root / name)

    def create(self, name: str, text: str) -> bool:
        with self._temporary(name, text) as temporary:
            try:
                os.link(temporary, self.root / name)
            except FileExistsError:
                return False
        return True

    def names(self, folder: str) -> list[str]:
        path = self.root / folder
        return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []

    def rename(self, source: str, target: str) -> None:
        (self.root / source).rename(self.root / target)

    def delete(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def delete_folder(self, name: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self.root / name)

    @contextmanager
    def _temporary(self, name: str, text: str) -> Iterator[Path]:
        """Yields a finished temporary file in the same folder, forced to the disk. At the end of the block it is
        removed, unless it was renamed."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_left_over(path.parent)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with temporary.open("w") as file:
                with suppress(OSError):  # some file systems have no locks, and then nothing of theirs is removed
                    fcntl.flock(file, fcntl.LOCK_EX)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                yield temporary
        finally:
            temporary.unlink(missing_ok=True)


def remove_left_over(folder: Path) -> None:
    """Removes temporary files that are older than a day and whose writer is gone."""
    for path in folder.glob(".*"):
        # Another process may be doing the same; files that can't be removed stay.
        with suppress(OSError):
            if TEMPORARY.fullmatch(path.name) and time.time() - path.stat().st_mtime > TEMPORARY_S_MAX:
                with path.open() as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()


class HadoopStorage:
    """A folder of any file system that Hadoop's client knows, through Spark's JVM."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - pyspark has no public way to Hadoop's client
        self._path_of = jvm.org.apache.hadoop.fs.Path
        context: Any = spark.sparkContext._jsc  # noqa: SLF001 - as above
        configuration = context.hadoopConfiguration()
        self._files = self._path_of(root).getFileSystem(configuration)
        self._root = self._files.makeQualified(self._path_of(root))
        self._rename_over: Callable[[Any, Any], None] | None = None
        scheme = self._root.toUri().getScheme().lower()
        if scheme in ONE_STEP_RENAME:
            self._rename_over = renaming(spark, self._root, configuration)
        self._s3 = S3Create(spark, self._files) if scheme in SCHEMES else None

    def read(self, name: str) -> str | None:
        path = self._path(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        if self._rename_over is None:
            self._put(name, text, overwrite=True)
            return
        folder, slash, own = name.rpartition("/")
        self._remove_left_over(folder)
        temporary = f"{folder}{slash}.{own}.{uuid.uuid4().hex}"
        try:
            self._put(temporary, text, overwrite=False)
            self._rename_over(self._path(temporary), self._path(name))
        finally:
            self.delete(temporary)

    def create(self, name: str, text: str) -> bool:
        from py4j.protocol import Py4JJavaError

        if self._s3 is not None:
            return self._s3.create(self._path(name), text)
        try:
            self._put(name, text, overwrite=False)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() == "FileAlreadyExistsException":
                return False
            raise
        return True

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._files.listStatus(path))

    def rename(self, source: str, target: str) -> None:
        if not self._files.rename(self._path(source), self._path(target)):
            raise FileExistsError(target)

    def delete(self, name: str) -> None:
        self._files.delete(self._path(name), False)

    def delete_folder(self, name: str) -> None:
        self._files.delete(self._path(name), True)

    def _put(self, name: str, text: str, *, overwrite: bool) -> None:
        stream = self._files.create(self._path(name), overwrite)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _remove_left_over(self, folder: str) -> None:
        """Removes temporary files that are older than a day. Their writers have long lost their leases."""
        place = self._path(folder) if folder else self._root
        for status in self._files.listStatus(place) if self._files.exists(place) else ():
            age_s = time.time() - status.getModificationTime() / 1_000
            if TEMPORARY.fullmatch(str(status.getPath().getName())) and age_s > TEMPORARY_S_MAX:
                self._files.delete(status.getPath(), False)

    def _path(self, name: str) -> Any:
        return self._path_of(self._root, name)


def renaming(spark: SparkSession, root: Any, configuration: Any) -> Callable[[Any, Any], None]:
    """Returns a function that renames a file over another. Only Hadoop's newer interface, `FileContext`, can do
    that."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - pyspark has no public way to Hadoop's client
    hadoop = gateway.jvm.org.apache.hadoop.fs
    files = hadoop.FileContext.getFileContext(root.toUri(), configuration)
    kind = getattr(hadoop, "Options$Rename")
    options = gateway.new_array(kind, 1)
    options[0] = kind.OVERWRITE
    return lambda source, target: files.rename(source, target, options)
