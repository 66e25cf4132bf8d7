"""Goal: a place on a disk of this machine and a URI of elsewhere are distinguished, the same for everybody."""

from __future__ import annotations

import pytest

from groupledger.jobs.process.outside import explain
from groupledger.jobs.process.places import local_path, warehouse_uri
from groupledger.jobs.warehouse.local_files import local_files
from groupledger.jobs.warehouse.register import location
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS


@pytest.mark.parametrize(
    "place",
    [
        "hdfs:/x",
        "hdfs:///x",
        "hdfs://h:8020/x",
        "dbfs:/x",
        "s3a:/x",
        "s3a://bucket/x",
        "ABFSS://a@b/x",
        "a+b-c.d1:/x",
        "file://other/x",
    ],
)
def test_of_elsewhere(place: str) -> None:
    """Goal: a URI is one with one slash, too, and nobody takes it for a folder; of `file:` another host's is one."""
    assert local_path(place) is None
    assert local_files(place) is None
    assert warehouse_uri(place) == location(place) == place


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("/x", "/x"),
        ("x", "x"),
        (".", "."),
        ("file:/x", "/x"),
        ("file:///x", "/x"),
        ("file://localhost/x", "/x"),
        ("FILE:/x", "/x"),
        ("file:x", "x"),
        ("12:/30", "12:/30"),
        ("a:b", "a:b"),
        ("./a:/b", "./a:/b"),
        ("/x/hdfs:/y", "/x/hdfs:/y"),
        ("größe:/x", "größe:/x"),
        ("://x", "://x"),
    ],
)
def test_local(place: str, path: str) -> None:
    """Goal: a place without a scheme, or with that of files, is local; a colon in a name makes no URI of it."""
    assert local_path(place) == path
    assert local_files(place) is not None
    assert warehouse_uri(place) == path
    assert location(place).startswith("file:/")


def test_a_file_system_without_locks() -> None:
    """Goal: the error for a warehouse on dbfs:/ says where else to put it."""
    from deltalake import DeltaTable

    with pytest.raises(Exception, match="allow_unsafe_rename") as raised:
        DeltaTable(f"dbfs:/x/{COORDINATOR_RECORDS.name}")
    message = explain(raised.value)
    assert message is not None
    assert "s3a://" in str(message)
