"""Goal: the digest of the codec changes with a format or a reader, and with nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import groupledger
from groupledger.schemas.codec import digest

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = Path(groupledger.__file__).parent


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Another installation: a folder for each package."""
    for package in digest.PACKAGES:
        shutil.copytree(PACKAGE.joinpath(*package.split(".")[1:]), tmp_path / package)
    monkeypatch.setattr(digest, "files", lambda package: tmp_path / package)
    return lambda package: tmp_path / package


def test_the_same_release_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Goal: another installation of the same release, with files that Python made beside it, has the same digest."""
    here = digest.codec_digest()
    for package in digest.PACKAGES:
        shutil.copytree(PACKAGE.joinpath(*package.split(".")[1:]), tmp_path / package)
        (tmp_path / package / "__pycache__").mkdir(exist_ok=True)
        (tmp_path / package / "notes.txt").write_text("not read")
    monkeypatch.setattr(digest, "files", lambda package: tmp_path / package)
    assert digest.codec_digest() == here


@pytest.mark.parametrize(
    ("package", "name"),
    [("groupledger.schemas.wire", "group_metadata.py"), ("groupledger.schemas.codec", "engine.py")],
)
def test_a_change(installed: Callable[[str], Path], package: str, name: str) -> None:
    """Goal: a format with one more version, or a reader that was repaired, is another codec."""
    before = digest.codec_digest()
    path = installed(package) / name
    path.write_text(path.read_text() + "\n")
    assert digest.codec_digest() != before
