"""Protects the directory of a demo: the next demo may replace its files, but no others."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MARK = ".groupledger-demo"
"""A directory with this file in it is a demo's own."""


def new_directory(directory: Path) -> None:
    """Creates the directory. Raises InputError if it contains files that do not come from a demo."""
    if directory.exists() and not (directory / MARK).is_file():
        raise InputError(f"{directory} exists and is no demo's directory: give another one with --directory.")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / MARK).touch()
