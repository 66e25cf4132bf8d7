"""Goal: both kinds of storage keep the same promises; `create` lets one of two succeed."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.ingest.decode_again import read_state
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.warehouse.checkpoint import whole_checkpoint
from groupledger.jobs.warehouse.rebuilds import versions_before
from groupledger.jobs.warehouse.retention import read_floors, read_history_floor_ms
from groupledger.jobs.warehouse.source import read_source, source_name
from groupledger.jobs.warehouse.storage import TEMPORARY_S_MAX, HadoopStorage, LocalStorage, open_storage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.storage import Storage


def keeps_its_promises(storage: Storage) -> None:
    assert storage.read("a/b") is None
    assert storage.names("a") == []
    assert storage.create("a/b", "one")
    assert not storage.create("a/b", "two")
    assert storage.read("a/b") == "one"
    storage.write("a/b", "größer")
    storage.write("a/c", "")
    assert storage.read("a/b") == "größer"
    assert storage.names("a") == ["b", "c"]
    storage.rename("a", "d")
    assert (storage.names("a"), storage.names("d")) == ([], ["b", "c"])
    storage.delete("d/b")
    storage.delete("d/b")
    assert storage.names("d") == ["c"]
    storage.write("e/f/g", "")
    storage.delete_folder("e")
    storage.delete_folder("e")
    assert (storage.names("e"), storage.read("e/f/g")) == ([], None)


def test_local(tmp_path: Path) -> None:
    """Goal: a directory of this machine, with nothing left over."""
    keeps_its_promises(LocalStorage(tmp_path))
    assert [path.name for path in tmp_path.rglob("*")] == ["d", "c"]


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a disk that is full in the middle of a write leaves the file as it was, and no half of a new one."""
    storage = LocalStorage(tmp_path)
    storage.write("a", "before")

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for write in (storage.write, storage.create):
        with pytest.raises(OSError, match="No space left"):
            write("a" if write == storage.write else "b", "after")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "before")]


def test_what_killed_writers_have_left_goes(tmp_path: Path) -> None:
    """Goal: a temporary file goes once it is a day old and its writer is dead; a living writer's stays, also while it
    sleeps for days, and so does every other file."""
    storage = LocalStorage(tmp_path)
    names = {name: f".{name}.{number:032x}" for number, name in enumerate(("dead", "young", "asleep"))}
    kept = [names["young"], names["asleep"], ".a.crc", "a.json", f"a.{0:032x}"]
    for name in (names["dead"], *kept):
        (tmp_path / name).touch()
        old_s = time.time() - TEMPORARY_S_MAX - 60
        if name != names["young"]:
            os.utime(tmp_path / name, (old_s, old_s))
    with (tmp_path / names["asleep"]).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        storage.write("new", "")
    assert storage.names(".") == sorted([*kept, "new"])


@pytest.mark.parametrize(
    ("name", "text", "read", "remedy"),
    [
        (source_name("c"), "{garbage", lambda storage: read_source(storage, "c"), "ingest --recover"),
        ("_groupledger/c/floor.json", "[1", lambda storage: read_floors({}, storage, "c"), "restore it"),
        ("_groupledger/c/history_floor.json", "", lambda files: read_history_floor_ms([], files, "c"), "restore it"),
        ("_groupledger/c/codec.json", "{", lambda storage: read_state(storage, "c"), "history --rebuild"),
        ("_groupledger/c/rebuild.json", "[", lambda storage: versions_before(storage, "c"), "history --rebuild"),
        (
            "x/metadata",
            "",
            lambda storage: whole_checkpoint(storage, "x"),
            "move the folder x out of the warehouse and run",
        ),
        ("x/offsets/7", "", lambda storage: whole_checkpoint(storage, "x"), "ingest --recover"),
        ("x/offsets/7", "v1\n{}", lambda storage: whole_checkpoint(storage, "x"), "ingest --recover"),
        ("x/commits/7", "v1\n{", lambda storage: whole_checkpoint(storage, "x"), "ingest --recover"),
        ("x/history/commits/7", "", lambda storage: whole_checkpoint(storage, "x/history"), "history --rebuild"),
    ],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, name: str, text: str, read: Callable[[Storage], object], remedy: str
) -> None:
    """Goal: a state file that is cut off or overwritten stops the job with its name and the remedy."""
    storage = LocalStorage(tmp_path)
    for folder in ("x", "x/history"):
        storage.write(f"{folder}/metadata", '{"id": "0b6e3f5e"}')
    storage.write(name, text)
    with pytest.raises(OutsideError, match="is damaged") as found:
        read(storage)
    assert name in str(found.value)
    assert remedy in str(found.value)


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        (source_name("c"), '{"kind": "kafka"}', lambda storage: read_source(storage, "c")),
        ("_groupledger/c/floor.json", "[1]", lambda storage: read_floors({}, storage, "c")),
        ("_groupledger/c/history_floor.json", "{}", lambda files: read_history_floor_ms([], files, "c")),
        ("_groupledger/c/codec.json", '{"digests": []}', lambda storage: read_state(storage, "c")),
        ("_groupledger/c/rebuild.json", "[]", lambda storage: versions_before(storage, "c")),
        ("x/metadata", '{"name": 1}', lambda storage: whole_checkpoint(storage, "x")),
    ],
)
def test_a_whole_file_of_another_form(tmp_path: Path, name: str, text: str, read: Callable[[Storage], object]) -> None:
    """Goal: a state file that is whole, but of another form, may be a newer release's: no sentence advises to do
    without it."""
    storage = LocalStorage(tmp_path)
    storage.write(name, text)
    with pytest.raises(OutsideError, match="a newer release may have written it") as found:
        read(storage)
    assert str(found.value) == (
        f"The file {name} of the warehouse has content that this release does not understand: a newer release may have"
        " written it; use that one, or restore the file from a copy."
    )


@pytest.mark.parametrize("planned", [None, 6])
def test_a_plan_that_is_gone(tmp_path: Path, planned: int | None) -> None:
    """Goal: a checkpoint that has committed a batch, and has not its plan, is refused with the remedy: Spark would plan
    the batch again, find it committed, and fail for ever."""
    storage = LocalStorage(tmp_path)
    storage.write("x/history/metadata", '{"id": "0b6e3f5e"}')
    storage.write("x/history/commits/7", 'v1\n{"nextBatchWatermarkMs":0}')
    if planned is not None:
        storage.write(f"x/history/offsets/{planned}", "v1\n{}\n{}")
    with pytest.raises(
        OutsideError,
        match=r"damaged or gone: move the folder x/history out of the warehouse and run .groupledger history --rebuild",
    ):
        whole_checkpoint(storage, "x/history")


def test_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: any file system of Hadoop's, here its local one."""
    keeps_its_promises(HadoopStorage(spark, f"file://{tmp_path}"))


def test_hadoop_in_one_step(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: if Hadoop renames over a file in one step, as on HDFS, a write that breaks off in the middle leaves the old
    text and nothing beside it, and the remains of killed writers are removed after a day."""
    monkeypatch.setattr("groupledger.jobs.warehouse.storage.ONE_STEP_RENAME", {"file"})
    storage = HadoopStorage(spark, f"file:{tmp_path}")
    keeps_its_promises(storage)
    assert storage.names("d") == ["c"]
    storage.write("d/c", "before")
    put = storage._put

    def half(name: str, text: str, *, overwrite: bool) -> None:
        put(name, text[:3], overwrite=overwrite)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage, "_put", half)
    with pytest.raises(OSError, match="No space left"):
        storage.write("d/c", "after all")
    monkeypatch.undo()
    assert (storage.read("d/c"), storage.names("d")) == ("before", ["c"])
    names = {name: f".{name}.{number:032x}" for number, name in enumerate(("old", "young"))}
    for name in names.values():
        assert storage.create(f"d/{name}", "")
    old_s = time.time() - TEMPORARY_S_MAX - 60
    os.utime(tmp_path / "d" / names["old"], (old_s, old_s))
    storage.write("d/c", "after")
    assert (storage.read("d/c"), storage.names("d")) == ("after", [names["young"], "c"])


def test_the_kind_follows_from_the_address(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: a path, also as `file:`, is local; a URI goes through Hadoop, also with one slash."""
    assert isinstance(open_storage(spark, str(tmp_path)), LocalStorage)
    assert isinstance(open_storage(spark, f"file:{tmp_path}"), LocalStorage)
    assert isinstance(open_storage(spark, f"file://{tmp_path}"), LocalStorage)
    for place in ("nowhere://x/y", "nowhere:/y"):
        with pytest.raises(Exception, match="No FileSystem for scheme"):
            open_storage(spark, place)
