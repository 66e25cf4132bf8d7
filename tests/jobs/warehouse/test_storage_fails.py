"""Goal: whichever call of a commit fails, for good or once, the table is as before or as after the commit, and the next
try completes it: a disk that is full, one without inodes, one that fails, one that is gone."""

from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.outside import explain
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from lab.faults.shim import COUNT, Twist
from tests.jobs.warehouse.shimmed import Shimmed
from tests.jobs.warehouse.test_commits import WAYS, lease, names, topics, writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROCESS = """
import sys
from tests.jobs.warehouse.test_storage_fails import commit_as_given
commit_as_given(sys.argv[1])
"""
DONE = "done"
# What each leaves of the rows "first" and "second". Those that are not distinguished are left out.
AFTER = {
    "batch": ["first", "late", "second"],
    "merge": ["first", "late", "second"],
    "delete": ["second"],
    "replace": [],
    "compact": ["first", "second"],
    "write again": ["first", "second"],
    "alter properties": ["first", "second"],
    "fence": ["first", "second"],
}
BEFORE = ["first", "second"]
FAULTS = [("once", errno.EIO), ("stay", errno.ENOSPC), ("gone", errno.EIO)]


def commit_as_given(root: str) -> None:
    """The process whose calls fail: for each line it prepares a warehouse, commits in one way, and commits again."""
    from pathlib import Path

    for line in sys.stdin:
        name, way = line.strip().split(" ", 1)
        with lease(warehouse := Path(root) / name) as held:
            commits = writer(warehouse, held)
            for topic in BEFORE:
                commits.append(TOPIC_NAMES, names(topic))
            say("ready")
            for _ in range(2):
                sys.stdin.readline()
                say(ended(lambda: WAYS[way](commits)))  # noqa: B023 - called at once


def ended(act: object) -> str:
    try:
        act()  # type: ignore[operator]
    except Exception as error:  # noqa: BLE001 - as the command line does
        known = explain(error)
        return repr(error) if known is None else f"{known.exit_code} {known}"
    return DONE


def say(text: str) -> None:
    sys.stdout.write(" ".join(text.split()) + "\n")
    sys.stdout.flush()


class Writer(Shimmed):
    """The process, and the shim that lets its calls fail."""

    def prepare(self, name: str, way: str) -> Path:
        self.shim.begin(COUNT)
        assert self.ask(f"{name} {way}") == "ready"
        return self.root / name

    def commit(self, twist: Twist) -> tuple[str, int]:
        """Returns how it ended, and how many calls it made."""
        self.shim.begin(twist)
        answer = self.ask("go")
        count = self.shim.counts()["all"]
        self.shim.begin(COUNT)
        return answer, count


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    found = Writer(tmp_path_factory.mktemp("writer"), PROCESS)
    with found.process:
        yield found
        found.process.kill()


@pytest.mark.parametrize("way", AFTER)
def test_every_call_that_may_fail(process: Writer, way: str) -> None:
    """Goal: a failure is exit code 3 with a sentence or does not matter, no half of a commit can be seen, and the same
    process goes on."""
    process.prepare(f"{way.replace(' ', '-')}-counted", way)
    answer, count = process.commit(COUNT)
    assert answer == DONE
    assert count > 1
    assert process.commit(COUNT)[0] == DONE
    for act, error in FAULTS:
        for at in range(1, count + 1):
            name = f"{way.replace(' ', '-')}-{act}-{at}"
            warehouse = process.prepare(name, way)
            answer, _ = process.commit(Twist(act=act, at=at, errno=error))
            assert answer == DONE or answer.startswith("3 "), (name, answer)
            found = topics(warehouse)
            assert found in (BEFORE, AFTER[way]), (name, found)
            assert answer != DONE or found == AFTER[way], (name, found)
            assert process.commit(COUNT)[0] == DONE, name
            assert topics(warehouse) == AFTER[way], name
