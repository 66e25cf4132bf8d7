"""Defines faults of files at rest: a file is truncated, emptied, removed, or overwritten in one place; or a whole
table, or a folder beside the tables, is removed."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from lab.faults.trials import Trial

FILES = {
    "checkpoint-offsets": "_checkpoints/*/*/offsets/[0-9]*",
    "checkpoint-commits": "_checkpoints/*/*/commits/[0-9]*",
    "checkpoint-metadata": "_checkpoints/*/*/metadata",
    "checkpoint-sources": "_checkpoints/*/*/sources/0/[0-9]*",
    "source": "_groupledger/*/source.json",
    "state": "_groupledger/*/*.json",
    "lease": "_groupledger/*/lease/*.json",
    "delta-log": "*/_delta_log/*.json",
    "parquet": "*/**/*.parquet",
}


def damage(trial: Trial, pattern: str) -> None:
    """Removes, empties, cuts or overwrites one random file of the warehouse that matches `pattern`, a glob.

    The trial saves the former bytes of the file, because there is damage that no remedy repairs.
    """
    found = sorted(path for path in trial.warehouse.glob(pattern) if path.is_file())
    if not found:
        trial.note("no such file")
        return
    path = trial.random.choice(found)
    # Nothing in a Parquet file shows that some of its bytes changed.
    way = trial.random.choice(sorted(WAYS.keys() - {"overwritten"} if path.suffix == ".parquet" else WAYS))
    trial.note(f"{path.relative_to(trial.warehouse)} {way}")
    trial.save(path)
    content = WAYS[way](path.read_bytes(), trial)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    # Hadoop keeps checksums beside files, and would notice for us.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    trial.is_touched = True


def overwritten(content: bytes, trial: Trial) -> bytes:
    at = trial.random.randrange(len(content) or 1)
    return content[:at] + bytes(8) + content[at + 8 :]


WAYS: dict[str, Callable[[bytes, Trial], bytes | None]] = {
    "removed": lambda _content, _trial: None,
    "emptied": lambda _content, _trial: b"",
    "cut": lambda content, trial: content[: trial.random.randrange(len(content) or 1)],
    "overwritten": overwritten,
}


def removed_table(trial: Trial) -> None:
    """Removes a random table. Each table can be made again from other tables, or from the sources of the ledger, which
    stay."""
    remove_one(trial, (path.parent for path in trial.warehouse.glob("*/_delta_log")))


def removed_folder(trial: Trial) -> None:
    """Removes a random folder beside the tables (`_checkpoints`, `_groupledger` or one below), as if somebody had
    copied only the tables."""
    remove_one(trial, (path for path in trial.warehouse.glob("_*/**") if path.is_dir()))


def remove_one(trial: Trial, folders: Iterable[Path]) -> None:
    """Removes a random one of `folders`, and notes in the trial which JSON files were in it."""
    folder = trial.random.choice(sorted(folders))
    small_files = [path.name for path in folder.rglob("[a-z]*.json")]
    trial.note(f"{folder.relative_to(trial.warehouse)}{f' with {small_files}' if small_files else ''}")
    shutil.rmtree(folder)
    trial.is_touched = True


FAULTS: dict[str, Callable[[Trial], None]] = {
    f"damaged-{name}": partial(damage, pattern=pattern) for name, pattern in FILES.items()
} | {"removed-table": removed_table, "removed-folder": removed_folder}
