"""Goal: a process that deletes files may be held in any call that changes one: the files that a successor has written
meanwhile stay, also if delta-rs deletes."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from groupledger.jobs.process.errors import OutsideError
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from lab.faults.shim import COUNT, Twist
from tests.jobs.warehouse.shimmed import Shimmed
from tests.jobs.warehouse.test_commits import lease, names, topics, writer
from tests.jobs.warehouse.test_deletions import Successor, age, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from groupledger.jobs.warehouse.commits import Commits

PROCESS = """
import sys
from tests.jobs.warehouse.test_deletions_held import delete_as_given
delete_as_given(sys.argv[1])
"""
HELD_AT = 9  # so many of its calls, from the first to the last


def prepare_old_log(warehouse: Path, commits: Commits) -> None:
    """Makes a log that is older than the table keeps it, up to where the next commit makes a checkpoint."""
    prepare(warehouse, commits)
    while commits.open(TOPIC_NAMES).version() < 9:
        commits.append(TOPIC_NAMES, names("c"))
    age(warehouse / TOPIC_NAMES.name)


DELETERS: dict[str, tuple[Callable[[Path, Commits], None], Callable[[Commits], object]]] = {
    "forget": (prepare, lambda commits: commits.forget_past(TOPIC_NAMES)),
    "vacuum": (prepare, lambda commits: commits.vacuum(TOPIC_NAMES, 48)),
    "delta-rs's cleaning of the log": (prepare_old_log, lambda commits: commits.append(TOPIC_NAMES, names("old"))),
}


def delete_as_given(root: str) -> None:
    """The process that is held: for each line it prepares a warehouse, and deletes what it may after the next one."""
    for line in sys.stdin:
        name, deleter = line.strip().split(" ", 1)
        prepare_it, delete = DELETERS[deleter]
        with lease(warehouse := Path(root) / name) as held:
            commits = writer(warehouse, held)
            prepare_it(warehouse, commits)
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            sys.stdin.readline()
            with suppress(OutsideError):
                delete(commits)
        sys.stdout.write("done\n")
        sys.stdout.flush()


class Deleter(Shimmed):
    """The process, and the shim that holds it."""

    def prepare(self, name: str, deleter: str) -> Path:
        assert self.ask(f"{name} {deleter}") == "ready"
        return self.root / name

    def delete(self, twist: Twist, meanwhile: Callable[[], None]) -> int:
        """Lets it delete, with something that happens while it is held; returns how many calls it made."""
        self.shim.begin(twist)
        self.say("go")
        while not self.has_answered(0.01):
            if self.shim.mark.exists() and not self.shim.until.exists():
                meanwhile()
                self.shim.until.touch()
        assert self.answer() == "done"
        return self.shim.counts()["all"]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deleter]:
    found = Deleter(tmp_path_factory.mktemp("deleter"), PROCESS)
    with found.process:
        yield found
        found.process.kill()


@pytest.mark.parametrize("deleter", DELETERS)
def test_a_deleter_that_is_held(process: Deleter, deleter: str) -> None:
    """Goal: the files that the successor has committed, is about to commit, or has removed while a reader has them
    open, are still there."""
    number = list(DELETERS).index(deleter)
    process.prepare(f"{number}-counted", deleter)
    count = process.delete(COUNT, lambda: None)
    assert count >= HELD_AT
    for at in sorted({1 + round(share * (count - 1) / (HELD_AT - 1)) for share in range(HELD_AT)}):
        warehouse = process.prepare(f"{number}-{at}", deleter)
        successor = Successor(warehouse)
        process.delete(Twist(act="hold", at=at), successor.come)
        assert successor.has_come
        successor.commit()
        assert {"c", "new"} <= set(topics(warehouse))
        read = DeltaTable(str(warehouse / TOPIC_NAMES.name), version=successor.read_version).to_pyarrow_table()
        assert {"c", "read"} <= set(read["topic"].to_pylist())
