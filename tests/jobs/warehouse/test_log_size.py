"""Goal: with a commit a minute, a checkpoint now and then and a maintenance, a table's log and dead files stop growing.

Nothing of the past is kept here, so that the test waits for no clock: the versions, checkpoints and files that a
maintenance leaves are those since the last checkpoint, however many there were before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from groupledger.jobs.warehouse.commits import Commits, as_new
from groupledger.schemas.tables.table import CHECKPOINT_INTERVAL, LOG_RETENTION
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from lab.warehouses.ledgers import make_tables
from tests.jobs.warehouse.test_commits import names

if TYPE_CHECKING:
    from pathlib import Path

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
