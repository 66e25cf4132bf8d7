"""Goal: the archive for a cluster puts one name, `groupledger`, on the path, and holds the folders it links to."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from tools.build_archive import PACKAGE, ROOT, build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("archive") / "groupledger.zip")


def test_one_name(archive: Path) -> None:
    """Goal: nothing of ours collides with a `conf` or `jobs` of somebody else, and no file is left out."""
    folders = sorted(path.name for path in (ROOT / PACKAGE).iterdir() if path.is_symlink())
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    expected = {f"{PACKAGE}/{name}" for name in files.stdout.splitlines()}
    expected |= {f"{PACKAGE}/__init__.py", f"{PACKAGE}/py.typed"}
    assert folders == ["conf", "coordinator", "jobs", "schemas", "transforms"]
    assert {name for name in zipfile.ZipFile(archive).namelist() if not name.endswith(".pyc")} == expected


def test_same_bytes(archive: Path, tmp_path: Path) -> None:
    """Goal: the same tree gives the same archive."""
    assert build(tmp_path / "again.zip").read_bytes() == archive.read_bytes()


def test_runs_from_the_archive(archive: Path, tmp_path: Path) -> None:
    """Goal: the package is imported from the archive alone, its settings with it."""
    program = (
        "import groupledger.jobs.process.settings as settings\n"
        "assert settings.__file__.startswith(__import__('sys').argv[1]), settings.__file__\n"
        "print(settings.load_settings(cluster='east').cluster)"
    )
    environment = {"PYTHONPATH": str(archive)}
    command = [sys.executable, "-c", program, str(archive)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "east"
