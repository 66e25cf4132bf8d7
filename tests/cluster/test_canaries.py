"""Goal: a warehouse in an S3 bucket shows and holds no secret either, and not the keys by which it is opened."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, LocalFileSystem, S3FileSystem, copy_files

from tests.cluster.s3 import BUCKET, S3Server
from tests.fault.canaries import look_at_a_life, set_places
from tests.fault.conftest import broker_with_login

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def test_no_secret_and_no_address_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a monitor that writes into the bucket by keys from the environment; then all objects of the bucket, of
    Spark, delta-rs and small files alike, are read as files of a disk are."""
    store, password = {name: secrets.token_hex(16) for name in SECRETS}, secrets.token_hex(16)
    with S3Server() as server, broker_with_login(tmp_path / "kafka", password) as broker:
        set_places(tmp_path, monkeypatch, **{**server.environment, **store})
        canaries = look_at_a_life(tmp_path, f"s3a://{BUCKET}/canaries", broker.bootstrap_servers, password, store)
        objects, copies = S3FileSystem(endpoint_override=server.address), tmp_path / "objects"
        copy_files(BUCKET, str(copies), objects, LocalFileSystem())
        names = [each.path for each in objects.get_file_info(FileSelector(BUCKET, recursive=True)) if each.is_file]
    canaries.look("names", " ".join(names))
    canaries.look_into(copies)
    assert len([each for each in copies.rglob("*") if each.is_file()]) == len(names) > 0
    assert canaries.found == []
