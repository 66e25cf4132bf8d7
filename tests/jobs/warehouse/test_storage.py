"""Goal: both kinds of storage keep the same promises; `create` lets one of two succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.warehouse.storage import HadoopStorage, LocalStorage, open_storage

if TYPE_CHECKING:
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


def test_local(tmp_path: Path) -> None:
    """Goal: a directory of this machine, with nothing left over."""
    keeps_its_promises(LocalStorage(tmp_path))
    assert [path.name for path in tmp_path.rglob("*")] == ["d", "c"]


def test_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: any file system of Hadoop's, here its local one."""
    keeps_its_promises(HadoopStorage(spark, f"file://{tmp_path}"))


def test_the_kind_follows_from_the_address(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: a path, also as `file:`, is local; a URI goes through Hadoop."""
    assert isinstance(open_storage(spark, str(tmp_path)), LocalStorage)
    assert isinstance(open_storage(spark, f"file:{tmp_path}"), LocalStorage)
    with pytest.raises(Exception, match="No FileSystem for scheme"):
        open_storage(spark, "nowhere://x/y")
