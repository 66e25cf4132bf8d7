"""Goal: with a commit a minute, a checkpoint now and then and a maintenance, a table's log and dead files stop growing.

Nothing of the past is kept here, so that the test waits for no clock: the versions, checkpoints and files that a
maintenance leaves are those since the last checkpoint, however many there were before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltalake import DeltaTable

from groupledger.jobs.warehouse import deletions
from groupledger.jobs.warehouse.commits import Commits, as_new
from groupledger.jobs.warehouse.deletions import superfluous_checkpoints
from groupledger.schemas.tables.table import CHECKPOINT_INTERVAL, LOG_RETENTION
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from lab.warehouses.ledgers import make_tables
from tests.jobs.warehouse.test_commits import names

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

INTERVAL = 5


class Size(NamedTuple):
    """What lies in the folder of a table."""

    versions: int
    checkpoints: int
    files: int
    bytes: int


def size(folder: Path) -> Size:
    log = [path for path in (folder / "_delta_log").iterdir() if path.is_file()]
    files = [path for path in folder.rglob("*.parquet") if path.parent.name != "_delta_log"]
    return Size(
        sum(path.suffix == ".json" for path in log),
        sum(path.suffix == ".parquet" for path in log),
        len(files),
        sum(path.stat().st_size for path in (*log, *files)),
    )


def test_the_plateau(tmp_path: Path) -> None:
    """Goal: ten times as many commits leave as many versions, checkpoints and files, and hardly more bytes."""
    make_tables(tmp_path, TOPIC_NAMES)
    commits = Commits(str(tmp_path), ())
    commits.set_properties(
        TOPIC_NAMES, lambda _: {CHECKPOINT_INTERVAL: str(INTERVAL), LOG_RETENTION: "interval 0 hours"}
    )
    found = []
    for rounds in (1, 9):
        for _ in range(rounds * INTERVAL):
            commits.merge(TOPIC_NAMES, names("a", "b"), "old.cluster = 'c'", updates=as_new(["topic"]))
        commits.vacuum(TOPIC_NAMES, 0)
        while commits.open(TOPIC_NAMES).version() % INTERVAL:  # up to the next checkpoint
            commits.fence(TOPIC_NAMES)
        found.append(size(tmp_path / TOPIC_NAMES.name))
    first, last = found
    assert last[:3] == first[:3]
    assert last.versions <= INTERVAL + 1
    assert last.checkpoints <= 2
    assert last.files == 1
    assert last.bytes < 1.5 * first.bytes


def log_of(commits: range, checkpoints: range) -> list[str]:
    return [*(f"{each:020}.json" for each in commits), *(f"{each:020}.checkpoint.parquet" for each in checkpoints)]


def test_which_checkpoints_are_needed() -> None:
    """Goal: of the old ones the first of each thousand versions is kept, and of all others the newest five. A cleaned
    log can still be read from its first commit on, and what is not ours is left alone."""
    names = [
        *log_of(range(3_451), range(100, 3_401, 100)),
        "_last_checkpoint",
        "_sidecars",
        ".x.checkpoint.parquet.crc",
    ]
    gone = {int(name[:20]) for name in superfluous_checkpoints(names)}
    assert {*range(100, 3_401, 100)} - gone == {100, 1_000, 2_000, 3_000, *range(3_000, 3_401, 100)}
    cleaned = {int(name[:20]) for name in superfluous_checkpoints(log_of(range(1_201, 3_451), range(100, 3_401, 100)))}
    assert gone - cleaned == {1_200}
    assert not superfluous_checkpoints(log_of(range(500), range(100, 500, 100)))
    assert not superfluous_checkpoints([])


def test_old_versions_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a maintenance leaves few checkpoints, and every version of the table can be read as before."""
    monkeypatch.setattr(deletions, "COMMITS_PER_OLD_CHECKPOINT", 20)
    make_tables(tmp_path, TOPIC_NAMES)
    commits, folder = Commits(str(tmp_path), ()), tmp_path / TOPIC_NAMES.name
    commits.set_properties(TOPIC_NAMES, lambda _: {CHECKPOINT_INTERVAL: "2"})
    for number in range(50):
        commits.append(TOPIC_NAMES, names(str(number)))
    newest = commits.open(TOPIC_NAMES).version()
    before = [sorted(DeltaTable(folder, version).file_uris()) for version in range(newest + 1)]
    commits.vacuum(TOPIC_NAMES, 48)
    assert [sorted(DeltaTable(folder, version).file_uris()) for version in range(newest + 1)] == before
    assert size(folder).checkpoints <= 50 // 20 + 2 + deletions.NEWEST_CHECKPOINTS
