"""Protects the directory of a demo: the next demo may replace its files, but no others."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MARK = ".groupledger-demo"
"""The name of a file that marks a directory as one that a demo has created."""


def new_directory(directory: Path) -> None:
    """Creates the directory, after removing one that an earlier demo has created. Raises InputError if it exists and
    was not created by a demo."""
    if directory.exists() and not (directory / MARK).is_file():
        raise InputError(f"{directory} exists and is no demo's directory: give another one with --directory.")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / MARK).touch()
