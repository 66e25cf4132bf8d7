"""Opens a log file that is plain, or compressed with gzip, zstd or bzip2. The first bytes of the file show which.

xz is not supported: the file itself sets the size of its dictionary, which may take gigabytes of memory.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GZIP_MAGIC, ZSTD_MAGIC, BZIP2_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh"
OTHERS = {
    b"PK\x03\x04": ("compressed with zip", "unpack it, or compress it with gzip"),
    b"\xfd7zXZ": ("compressed with xz", "unpack it, or compress it with gzip"),
    b"\xff\xfe": ("UTF-16", "convert it to UTF-8, as with iconv"),
    b"\xfe\xff": ("UTF-16", "convert it to UTF-8, as with iconv"),
}
DAMAGED = (OSError, EOFError, zlib.error)
PART_BYTES = 1024 * 1024


@contextmanager
def open_log(path: Path) -> Iterator[tuple[BinaryIO, bool]]:
    """Yields the open file, decompressed, and whether it was compressed. The path must be resolved: if it is a link all
    the same, the link was created later, and opening it is an error. Raises InputError for a format that is not
    supported."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as file:
        magic = file.read(8)
        file.seek(0)
        for other, (what, remedy) in OTHERS.items():
            if magic.startswith(other):
                raise InputError(f"The log {path} is {what}: {remedy}.")
        if magic.startswith(GZIP_MAGIC):
            yield cast("BinaryIO", gzip.GzipFile(fileobj=file)), True
        elif magic.startswith(BZIP2_MAGIC):
            yield cast("BinaryIO", bz2.BZ2File(file)), True
        elif magic.startswith(ZSTD_MAGIC):
            unpacked = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
            yield cast("BinaryIO", io.BufferedReader(unpacked)), True
        else:
            yield file, False


def skip(file: BinaryIO, offset: int) -> None:
    """Moves an opened file forward by `offset` bytes. A compressed file may be unable to seek, and is read instead."""
    if file.seekable():
        file.seek(offset)
        return
    while offset > 0:
        part = file.read(min(offset, PART_BYTES))
        if not part:
            return
        offset -= len(part)
