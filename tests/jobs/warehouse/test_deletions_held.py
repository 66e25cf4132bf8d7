"""Goal: a process that deletes files may be held in any call that changes one: what a successor has written meanwhile
stays, also where it is delta-rs that deletes."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from groupledger.jobs.process.errors import OutsideError
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from lab.faults.shim import COUNT, Shim, Twist, build_shim
from tests.jobs.warehouse.test_commits import lease, names, topics, writer
from tests.jobs.warehouse.test_deletions import Successor, age, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from groupledger.jobs.warehouse.commits import Commits

PROCESS = """
import sys
from tests.jobs.warehouse.test_deletions_held import delete_as_told
delete_as_told(sys.argv[1])
"""
HELD_AT = 9  # so many of its calls, from the first to the last
ANSWER_S_MAX = 300


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


def delete_as_told(root: str) -> None:
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


class Deleter:
    """The process, and the shim that holds it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "warehouses"
        self._shim = Shim(build_shim(folder), self.root, folder, COUNT)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(self.root)],
            env=os.environ | self._shim.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def prepare(self, name: str, deleter: str) -> Path:
        self._say(f"{name} {deleter}")
        assert self._answer() == "ready"
        return self.root / name

    def delete(self, twist: Twist, meanwhile: Callable[[], None]) -> int:
        """Lets it delete, with something that happens while it is held; returns how many calls it made."""
        self._shim.begin(twist)
        self._say("go")
        while not self._has_answered(0.01):
            if self._shim.mark.exists() and not self._shim.until.exists():
                meanwhile()
                self._shim.until.touch()
        assert self._answer() == "done"
        return self._shim.counts()["all"]

    def _say(self, text: str) -> None:
        print(text, file=self.process.stdin, flush=True)

    def _has_answered(self, seconds: float) -> bool:
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def _answer(self) -> str:
        assert self._has_answered(ANSWER_S_MAX)
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deleter]:
    found = Deleter(tmp_path_factory.mktemp("deleter"))
    with found.process:
        yield found
        found.process.kill()


@pytest.mark.parametrize("deleter", DELETERS)
def test_a_deleter_that_is_held(process: Deleter, deleter: str) -> None:
    """Goal: what the successor has committed, is about to commit, and has removed while somebody reads it, is there."""
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
