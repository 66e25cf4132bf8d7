"""Goal: a process that deletes files may sleep anywhere: the files that a successor has written meanwhile stay."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.warehouse import commits as commits_module
from groupledger.jobs.warehouse.deletions import delete_files
from groupledger.jobs.warehouse.forget import Forgetting
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from tests.jobs.warehouse.test_commits import lease, names, taken, topics, writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.jobs.warehouse.commits import Commits

LONG_AGO_S = 60 * 86_400
# Every call after which a deleter may sleep, in the order in which they come; a call may come more than once.
POINTS = (
    *("open", "unnamed_files", "removed_files", "add_files", "deletable_files", "delete_files", "_delete"),
    *("delete_half_written", "delete_old_checkpoints", "create_checkpoint", "delete_log_before"),
)
ONLY_OF = {
    "delete_log_before": "forget",
    "delete_half_written": "vacuum",
    "delete_old_checkpoints": "vacuum",
}
HOUR_S = 3_600


class Successor:
    """Takes the lease over, and leaves what a writer has at any time: rows that it has committed, rows that it has
    removed while a reader may be about them, and a file that it has written and not committed yet."""

    def __init__(self, warehouse: Path) -> None:
        self._warehouse = warehouse
        self._folder = warehouse / TOPIC_NAMES.name
        self.has_come = False

    def come(self) -> None:
        self.has_come = True
        end_lease(self._warehouse)
        self._commits = writer(self._warehouse, taken(self._warehouse))
        self._commits.append(TOPIC_NAMES, names("read"))
        self.read_version = self._commits.open(TOPIC_NAMES).version()
        self._commits.delete(TOPIC_NAMES, "topic = 'read'")
        self._commits.append(TOPIC_NAMES, names("new"))
        path = next(iter(self._commits.open(TOPIC_NAMES).get_add_actions()["path"].to_pylist()))
        size = (self._folder / path).stat().st_size
        # A copy of a file's bytes under a new name is a file that a task has written.
        self._pending = AddAction(f"{path}.pending.parquet", size, {"cluster": "c"}, 0, True, "{}")
        shutil.copyfile(self._folder / path, self._folder / self._pending.path)

    def commit(self) -> None:
        delta = self._commits.open(TOPIC_NAMES)
        delta.create_write_transaction([self._pending], "append", delta.schema(), ["cluster"])


def end_lease(warehouse: Path) -> None:
    """Lets the holder's lease run out, as it does while a machine sleeps."""
    storage = LocalStorage(warehouse)
    (last,) = (name for name in storage.names("_groupledger/c/lease") if name[0].isdigit())
    storage.delete(f"_groupledger/c/lease/{last}")
    ended = '{"holder": {"host": "x", "process": 1, "command": "x"}, "expires_at_ms": 0, "is_released": true}'
    storage.create(f"_groupledger/c/lease/{last}", ended)


def age(folder: Path) -> None:
    then = time.time() - LONG_AGO_S
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def prepare(warehouse: Path, commits: Commits) -> None:
    """Makes old files of each sort: named, removed long ago and just now, and never named."""
    folder = warehouse / TOPIC_NAMES.name
    for name in ("a", "b", "c"):
        commits.append(TOPIC_NAMES, names(name))
    commits.delete(TOPIC_NAMES, "topic = 'a'")
    (folder / "cluster=c").mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": [1]}), folder / "cluster=c" / "never-named.parquet")
    age(folder)
    commits.delete(TOPIC_NAMES, "topic = 'b'")


DELETERS: dict[str, Callable[[Commits], Any]] = {
    "forget": lambda commits: commits.forget_past(TOPIC_NAMES),
    "vacuum": lambda commits: commits.vacuum(TOPIC_NAMES, 48),
}


@pytest.mark.parametrize("deleter", DELETERS)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_deleter_that_sleeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleter: str, point: str, *, is_before: bool
) -> None:
    """Goal: at no point does a deleter that sleeps while a successor takes over remove a file that the successor has
    committed or will commit."""
    with suppress(OutsideError), lease(tmp_path) as held:
        commits = writer(tmp_path, held)
        prepare(tmp_path, commits)
        successor = Successor(tmp_path)

        def sleep_around(act: Callable[..., Any]) -> Callable[..., Any]:
            def called(*arguments: Any, **options: Any) -> Any:
                is_own = not (point in ("open", "add_files") and arguments[0] is not commits)
                if is_own and is_before and not successor.has_come:
                    successor.come()
                found = act(*arguments, **options)
                if is_own and not is_before and not successor.has_come:
                    successor.come()
                return found

            return called

        where, name = _where(point)
        monkeypatch.setattr(where, name, sleep_around(getattr(where, name)))
        DELETERS[deleter](commits)
    assert successor.has_come == (ONLY_OF.get(point, deleter) == deleter)
    if successor.has_come:
        monkeypatch.undo()
        successor.commit()
        assert {"c", "new"} <= set(topics(tmp_path))
        read = DeltaTable(str(tmp_path / TOPIC_NAMES.name), version=successor.read_version).to_pyarrow_table()
        assert {"c", "read"} <= set(read["topic"].to_pylist())


def _where(point: str) -> tuple[Any, str]:
    from groupledger.jobs.warehouse import deletions
    from groupledger.jobs.warehouse.commits import Commits

    if point in ("open", "add_files"):
        return Commits, point
    if point == "_delete":
        return deletions, point
    return (DeltaTable, point) if point == "create_checkpoint" else (commits_module, point)


def _age_of_unnamed(path: Path, age_s: float) -> None:
    path.write_bytes(b"of a writer that has not committed it")
    os.utime(path, (time.time() - age_s,) * 2)


def _files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.parquet") if path.parent.name != "_delta_log"}


def test_what_is_deleted(tmp_path: Path) -> None:
    """Goal: a forgetter leaves only the files that the newest version names, and those that a writer may be writing;
    VACUUM leaves recently removed files, too."""
    folder = tmp_path / TOPIC_NAMES.name
    with lease(tmp_path) as held:
        commits = writer(tmp_path, held)
        prepare(tmp_path, commits)
        named = {Path(uri).name for uri in DeltaTable(str(folder)).file_uris()}
        removed = _files(folder) - named - {"never-named.parquet"}
        assert len(removed) == 2
        young = folder / "cluster=c" / "young.parquet"
        _age_of_unnamed(young, HOUR_S / 2)
        commits.vacuum(TOPIC_NAMES, 48)
        assert _files(folder) == named | removed | {young.name}
        commits.forget_past(TOPIC_NAMES)
        assert _files(folder) == named | {young.name}
        _age_of_unnamed(young, HOUR_S * 2)
        commits.forget_past(TOPIC_NAMES)
        assert _files(folder) == named
    logged = [path.name for path in (folder / "_delta_log").iterdir() if path.suffix != ".parquet"]
    assert sorted(logged) == [f"{DeltaTable(str(folder)).version():020}.json", "_last_checkpoint"]
    assert topics(tmp_path) == ["c"]


def test_the_bound_is_not_shorter_than_the_lease(tmp_path: Path) -> None:
    """Goal: a file younger than the lease is left, however long that is."""
    young = tmp_path / TOPIC_NAMES.name / "cluster=c" / "young.parquet"
    with lease(tmp_path, duration_s=3 * HOUR_S) as held:
        commits = writer(tmp_path, held)
        prepare(tmp_path, commits)
        _age_of_unnamed(young, 2 * HOUR_S)
        commits.forget_past(TOPIC_NAMES)
    assert young.exists()


def test_files_that_were_removed_by_a_clock_that_was_ahead(tmp_path: Path) -> None:
    """Goal: forgotten rows are gone from all files, also if a clock dates their removal years ahead."""
    folder = tmp_path / TOPIC_NAMES.name
    with lease(tmp_path) as held:
        commits = writer(tmp_path, held)
        for name in ("a", "b"):
            commits.append(TOPIC_NAMES, names(name))
        commits.delete(TOPIC_NAMES, "topic = 'a'")
        last = max((folder / "_delta_log").glob("*.json"))
        ahead = re.sub(r'"deletionTimestamp":[0-9]+', f'"deletionTimestamp":{2**42}', text := last.read_text())
        assert ahead != text
        last.write_text(ahead)
        commits.forget_past(TOPIC_NAMES)
    assert _files(folder) == {Path(uri).name for uri in DeltaTable(str(folder)).file_uris()}


def test_a_cluster_that_comes_meanwhile(tmp_path: Path) -> None:
    """Goal: a forgetter deletes no file of a writer whose lease it does not have, however old the file is."""
    with lease(tmp_path) as held:
        commits = writer(tmp_path, held)
        prepare(tmp_path, commits)
        forgetting = Forgetting(
            tables=cast("Any", None),
            storage=LocalStorage(tmp_path),
            commits=commits,
            cluster="c",
            forgotten=cast("Any", None),
            is_dry_run=False,
        )
        newcomer = lease(tmp_path, "new")
        with newcomer:
            later = writer(tmp_path, newcomer)
            path = tmp_path / TOPIC_NAMES.name / "cluster=new" / "long.parquet"
            path.parent.mkdir()
            _age_of_unnamed(path, HOUR_S * 2)
            with pytest.raises(OutsideError, match="new began to be written"):
                forgetting.forget_past(TOPIC_NAMES)
            added = AddAction("cluster=new/long.parquet", path.stat().st_size, {"cluster": "new"}, 0, True, "{}")
            later.open(TOPIC_NAMES).create_write_transaction(
                [added], "append", later.open(TOPIC_NAMES).schema(), ["cluster"]
            )
        assert path.exists()
        LocalStorage(tmp_path).write("_groupledger/doctor-1", "doctor")  # no cluster
        with pytest.raises(OutsideError, match="new began"):
            forgetting.forget_past(TOPIC_NAMES)


def test_links_out_of_the_warehouse(tmp_path: Path) -> None:
    """Goal: files to which a link in a table's folder leads are not the ledger's, and stay."""
    warehouse, outside = tmp_path / "warehouse", tmp_path / "outside"
    outside.mkdir()
    pq.write_table(pa.table({"x": [1]}), outside / "precious.parquet")
    (outside / "half.parquet#1").touch()
    age(outside)
    with lease(warehouse) as held:
        commits = writer(warehouse, held)
        prepare(warehouse, commits)
        (warehouse / TOPIC_NAMES.name / "cluster=c" / "link").symlink_to(outside, target_is_directory=True)
        commits.vacuum(TOPIC_NAMES, 48)
        commits.forget_past(TOPIC_NAMES)
    assert sorted(path.name for path in outside.iterdir()) == ["half.parquet#1", "precious.parquet"]
    assert topics(warehouse) == ["c"]


def test_links_within_a_table(tmp_path: Path) -> None:
    """Goal: a file that the table names is not deleted under another name that a link gives it, and a link to a file is
    deleted itself."""
    warehouse = tmp_path / "warehouse"
    with lease(warehouse) as held:
        commits = writer(warehouse, held)
        prepare(warehouse, commits)
        folder = warehouse / TOPIC_NAMES.name
        (folder / "cluster=d").symlink_to(folder / "cluster=c", target_is_directory=True)
        (named,) = (Path(uri) for uri in DeltaTable(str(folder)).file_uris())
        (folder / "cluster=c" / "again.parquet").symlink_to(named)
        age(folder / "cluster=c")
        commits.vacuum(TOPIC_NAMES, 48)
        with suppress(InputError):
            commits.forget_past(TOPIC_NAMES)
        assert named.is_file()
        assert not (folder / "cluster=c" / "again.parquet").is_symlink()
    assert topics(warehouse) == ["c"]


def test_what_lies_above_the_table(tmp_path: Path) -> None:
    """Goal: a path that a log names, and that leads out of the table's folder, is not deleted."""
    warehouse = tmp_path / "warehouse"
    (tmp_path / "precious.parquet").touch()
    with lease(warehouse) as held:
        writer(warehouse, held)
    uri = str(warehouse.resolve() / TOPIC_NAMES.name)
    paths = ["../../precious.parquet", str(tmp_path / "precious.parquet"), "cluster=c/../../../precious.parquet"]
    assert delete_files(uri, paths, lambda: None) == paths
    assert (tmp_path / "precious.parquet").exists()


def test_a_log_that_is_a_link(tmp_path: Path) -> None:
    """Goal: no writer goes on with a log to which a link leads, since delta-rs would clean that log up with its next
    checkpoint."""
    warehouse, outside = tmp_path / "warehouse", tmp_path / "outside"
    with lease(warehouse) as held:
        commits = writer(warehouse, held)
        commits.append(TOPIC_NAMES, names("a"))
        log = warehouse / TOPIC_NAMES.name / "_delta_log"
        log.rename(outside)
        log.symlink_to(outside, target_is_directory=True)
        before = sorted(path.name for path in outside.iterdir())
        for write in (
            commits.fence,
            lambda table: commits.vacuum(table, 48),
            lambda table: commits.append(table, names("b")),
        ):
            with pytest.raises(InputError, match="_delta_log is a link"):
                write(TOPIC_NAMES)
    assert sorted(path.name for path in outside.iterdir()) == before
    assert topics(warehouse) == ["a"]


@pytest.mark.parametrize("linked", ["_delta_log", "cluster=c"])
def test_a_past_behind_a_link(tmp_path: Path, linked: str) -> None:
    """Goal: `forget` deletes nothing of a table to which a link leads, and does not claim that it has."""
    warehouse, outside = tmp_path / "warehouse", tmp_path / "outside"
    with lease(warehouse) as held:
        commits = writer(warehouse, held)
        prepare(warehouse, commits)
        inside = warehouse / TOPIC_NAMES.name / linked
        for path in (warehouse / TOPIC_NAMES.name / "_delta_log").iterdir():
            path.touch()  # else delta-rs cleans its own log, which is old
        inside.rename(outside)
        inside.symlink_to(outside, target_is_directory=True)
        before = {path.name for path in outside.iterdir()}
        with pytest.raises(InputError, match=f"{linked}.* (is reached through|is) a link"):
            commits.forget_past(TOPIC_NAMES)
        assert before <= {path.name for path in outside.iterdir()}
        inside.unlink()
        outside.rename(inside)
        commits.forget_past(TOPIC_NAMES)
        assert _files(warehouse / TOPIC_NAMES.name) == {
            Path(uri).name for uri in DeltaTable(str(warehouse / TOPIC_NAMES.name)).file_uris()
        }
    assert topics(warehouse) == ["c"]
