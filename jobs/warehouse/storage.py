"""Reads and writes the small files beside the tables: the lease, the source's identity, Spark's checkpoints.

The warehouse is a local directory or any URI that Hadoop knows (`hdfs://`, `s3a://`, ...). `create` must be atomic: if
two processes create the same name at once, one of them gets False.
- Local: a hard link to a finished temporary file, which fails if the name is taken and never shows half a file.
- Hadoop: create without overwrite, whose atomicity is the file system's (HDFS and object stores with conditional
  writes have it).

A local temporary file goes when its write fails. A writer that was killed leaves its own behind; the next write into
the same folder removes it, once it is a day old and no living process holds its lock.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.places import local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

T = TypeVar("T")

STATE_FOLDER = "_groupledger"
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")
TEMPORARY_S_MAX = 86_400


class Readable(Protocol):
    """A folder of small files to read. Names are relative to the warehouse, with `/` between parts."""

    def read(self, name: str) -> str | None:
        """Returns the text of a file, or None if there is none."""
        ...


class Storage(Readable, Protocol):
    """A folder of small files to read and write."""

    def write(self, name: str, text: str) -> None:
        """Replaces a file in one step."""
        ...

    def create(self, name: str, text: str) -> bool:
        """Makes a new file. Returns False if the name is taken, also by somebody who was faster."""
        ...

    def names(self, folder: str) -> list[str]:
        """Returns the names in a folder, sorted; none if it does not exist."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Moves a file or folder to a free name."""
        ...

    def delete(self, name: str) -> None:
        """Removes a file; it is no error if the file is gone already."""
        ...


def read_parsed(storage: Readable, name: str, parse: Callable[[str], T], remedy: str) -> T | None:
    """Returns what a small file says, or None if there is none. Raises OutsideError with the remedy if it is
    damaged."""
    try:
        text = storage.read(name)
        return None if text is None else parse(text)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise OutsideError(f"The file {name} of the warehouse is damaged: {remedy}.") from error


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

    @contextmanager
    def _temporary(self, name: str, text: str) -> Iterator[Path]:
        """Gives a finished file with a name of its own in the same folder, forced to the disk; it is gone behind the
        block, unless it was renamed."""
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
        # Another process may be about the same, and what can't be removed stays.
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
        self._root = self._path_of(root)
        self._files = self._root.getFileSystem(context.hadoopConfiguration())

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
        self._put(name, text, overwrite=True)

    def create(self, name: str, text: str) -> bool:
        from py4j.protocol import Py4JJavaError

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

    def _put(self, name: str, text: str, *, overwrite: bool) -> None:
        stream = self._files.create(self._path(name), overwrite)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _path(self, name: str) -> Any:
        return self._path_of(self._root, name)
