"""Goal: a writer that slept changes no table any more once another has taken over, wherever it was held."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.table import TableOptimizer

from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.warehouse.commits import Commits, NumberedBatch, application_id, as_new
from groupledger.jobs.warehouse.delta_log import dataset, properties_of, rows_where
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.local_files import local_files
from groupledger.jobs.warehouse.migrate import Plan
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from lab.faults.shim import Shim, Twist, build_shim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from groupledger.schemas.tables.table import Table

COMMITS = "groupledger.jobs.warehouse.commits"
SLEEPER = """
import sys
from tests.jobs.warehouse.test_commits import sleeper
sleeper(*sys.argv[1:])
"""


def names(*topics: str, cluster: str = "c") -> pa.Table:
    rows = [{"cluster": cluster, "topic_id": topic, "topic": topic} for topic in topics]
    return pa.Table.from_pylist(rows, arrow_schema(TOPIC_NAMES.schema))


def topics(warehouse: Path) -> list[str]:
    return sorted(DeltaTable(str(warehouse / TOPIC_NAMES.name)).to_pyarrow_table().column("topic").to_pylist())


def lease(warehouse: Path, cluster: str = "c", duration_s: float = 60) -> Lease:
    return Lease(LocalStorage(warehouse), cluster, "groupledger history", duration_s)


def taken(warehouse: Path) -> Lease:
    """Returns a lease that its holder neither renews nor releases; it lasts longer than a test."""
    held = lease(warehouse, duration_s=3_600)
    held.__enter__()
    held._stop.set()
    held._thread.join()
    return held


def writer(warehouse: Path | str, held: Lease) -> Commits:
    """A writer that has begun: its table is there and fenced."""
    commits = Commits(str(warehouse), (held,))
    commits.create(TOPIC_NAMES)
    commits.fence(TOPIC_NAMES)
    return commits


NO_CHANGE = Plan(is_new_schema=False, properties={}, is_new_comment=False, refused=[], is_repartitioned=False)
WAYS: dict[str, Callable[[Commits], object]] = {
    "append": lambda commits: commits.append(TOPIC_NAMES, names("late")),
    "batch": lambda commits: commits.append(TOPIC_NAMES, names("late"), NumberedBatch("query", 9)),
    "files": lambda commits: commits.add_files(TOPIC_NAMES, []),
    "merge": lambda commits: commits.merge(TOPIC_NAMES, names("late"), "old.cluster = 'c'", updates=as_new(["topic"])),
    "replace": lambda commits: commits.replace_with_files(TOPIC_NAMES, "c", []),
    "delete": lambda commits: commits.delete(TOPIC_NAMES, "topic = 'first'"),
    "compact": lambda commits: commits.compact(TOPIC_NAMES, [], 1 << 20),
    "write again": lambda commits: commits.write_again(TOPIC_NAMES),
    "alter schema": lambda commits: commits.alter(TOPIC_NAMES, replace(NO_CHANGE, is_new_schema=True)),
    "alter properties": lambda commits: commits.alter(TOPIC_NAMES, replace(NO_CHANGE, properties={"a": "b"})),
    "alter comment": lambda commits: commits.alter(TOPIC_NAMES, replace(NO_CHANGE, is_new_comment=True)),
    "fence": lambda commits: commits.fence(TOPIC_NAMES),
}


@pytest.fixture
def taken_over(tmp_path: Path) -> Iterator[tuple[Path, Commits, Lease]]:
    """A writer that wrote one row and then slept, while a second one took over and wrote another row."""
    sleeping = taken(tmp_path)
    old = writer(tmp_path, sleeping)
    old.append(TOPIC_NAMES, names("first"))
    LocalStorage(tmp_path).delete("_groupledger/c/lease/1.json")
    LocalStorage(tmp_path).create("_groupledger/c/lease/1.json", "taken by nobody")
    with lease(tmp_path, duration_s=1) as held:  # it waits so long, and a busy machine must renew it in time
        writer(tmp_path, held).append(TOPIC_NAMES, names("second"))
        yield tmp_path, old, sleeping


@pytest.mark.parametrize("way", WAYS)
def test_a_writer_that_wakes(taken_over: tuple[Path, Commits, Lease], way: str) -> None:
    """Goal: no way of committing gets past the token of the second writer, and the first one is refused."""
    warehouse, old, sleeping = taken_over
    version = DeltaTable(str(warehouse / TOPIC_NAMES.name)).version()
    with pytest.raises(OutsideError, match="took over"):
        WAYS[way](old)
    assert sleeping.lost.is_set()
    assert DeltaTable(str(warehouse / TOPIC_NAMES.name)).version() == version
    assert topics(warehouse) == ["first", "second"]


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("fence", "compact")])
def test_a_writer_that_is_overtaken_in_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Goal: the second writer comes after the first one has looked at the token, and before it commits."""
    with lease(tmp_path) as first:
        old = writer(tmp_path, first)
        old.append(TOPIC_NAMES, names("first"))
        look = Commits.open

        def look_and_sleep(self: Commits, table: Any) -> DeltaTable:
            found = look(self, table)
            if self is old:
                monkeypatch.setattr(Commits, "open", look)
                second = lease(tmp_path)
                second._number = first.token + 1
                second._ends_at_s = float("inf")
                writer(tmp_path, second).append(TOPIC_NAMES, names("second"))
            return found

        monkeypatch.setattr(Commits, "open", look_and_sleep)
        with pytest.raises(OutsideError, match="took over"):
            WAYS[way](old)
    assert topics(tmp_path) == ["first", "second"]


@pytest.mark.parametrize("way", ["append", "merge", "delete", "alter comment"])
def test_a_writer_whose_log_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Goal: a writer that slept while its successor deleted the log hears of the successor, not of damage."""
    with lease(tmp_path) as first:
        old = writer(tmp_path, first)
        old.append(TOPIC_NAMES, names("first"))
        look = Commits.open

        def look_and_sleep(self: Commits, table: Any) -> DeltaTable:
            found = look(self, table)
            if self is old:
                monkeypatch.setattr(Commits, "open", look)
                second = lease(tmp_path)
                second._number = first.token + 1
                second._ends_at_s = float("inf")
                later = writer(tmp_path, second)
                later.append(TOPIC_NAMES, names("second"))
                later.forget_past(TOPIC_NAMES)
            return found

        monkeypatch.setattr(Commits, "open", look_and_sleep)
        with pytest.raises(OutsideError, match="took over"):
            WAYS[way](old)
    assert topics(tmp_path) == ["first", "second"]


def sleeper(warehouse: str) -> None:
    """The process that is held: it writes one row, which reaches the log only when it is let go."""
    with lease(Path(warehouse)) as held:
        commits = writer(Path(warehouse), held)
        try:
            commits.append(TOPIC_NAMES, names("late"))
        except OutsideError as error:
            sys.stderr.write(str(error))
            sys.exit(error.exit_code)


def test_a_writer_that_is_held_while_it_makes_the_log_file(tmp_path: Path) -> None:
    """Goal: a process that is held inside of `linkat`, with its log file ready, does not replace the commit that a
    second writer makes meanwhile, and adds none of its own after it."""
    warehouse = tmp_path / "warehouse"
    behind_the_fence = warehouse / TOPIC_NAMES.name / "_delta_log" / f"{2:020}.json"
    shim = Shim(build_shim(tmp_path), behind_the_fence, tmp_path, Twist(act="hold", at=1))
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(warehouse)],
        env=os.environ | shim.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        await_file(shim.mark, process)
        # The process is alive, so that its lease is honoured: what its successor would be refused is left out.
        second = lease(warehouse)
        second._take(2)
        writer(warehouse, second).append(TOPIC_NAMES, names("second"))
        shim.until.touch()
        _, error = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, "took over" in error) == (3, True), error
    assert topics(warehouse) == ["second"]
    assert DeltaTable(str(warehouse / TOPIC_NAMES.name)).transaction_version("writer/c") == 2


def await_file(path: Path, process: subprocess.Popen[str]) -> None:
    for _ in range(3_000):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()
        threading.Event().wait(0.1)
    raise AssertionError(f"{path} did not come")


def test_two_clusters_at_once(tmp_path: Path) -> None:
    """Goal: merges and replacements of two clusters in the same table never hinder each other."""
    tried: list[str] = []
    failed: list[BaseException] = []

    def write(cluster: str) -> None:
        try:
            with lease(tmp_path, cluster) as held:
                commits = writer(tmp_path, held)
                for number in range(15):
                    rows = names(*(f"topic-{each}" for each in range(number + 1)), cluster=cluster)
                    commits.merge(TOPIC_NAMES, rows, f"old.cluster = '{cluster}'", updates=as_new(["topic"]))
                    tried.append(cluster)
        except BaseException as error:  # noqa: BLE001 - asserted below
            failed.append(error)

    Commits(str(tmp_path), ()).create(TOPIC_NAMES)
    threads = [threading.Thread(target=write, args=(cluster,)) for cluster in ("east", "west")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert topics(tmp_path) == sorted([f"topic-{each}" for each in range(15)] * 2)


@pytest.mark.parametrize("where", ["dataset", "write_deltalake"])
def test_another_cluster_while_all_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Goal: rows that another cluster adds to the older partitions just before the table is read, or written, are there
    once, and are still that cluster's."""
    older = replace(TOPIC_NAMES, partition_columns=())
    with lease(tmp_path) as held:
        commits = Commits(str(tmp_path), (held,))
        commits.create(older)
        commits.append(older, names("first"))
        act: Any = dataset if where == "dataset" else write_deltalake

        def add_and_act(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(f"{COMMITS}.{where}", act)
            write_deltalake(tmp_path / TOPIC_NAMES.name, names("late", cluster="d"), mode="append")
            return act(*arguments, **options)

        monkeypatch.setattr(f"{COMMITS}.{where}", add_and_act)
        commits.write_again(TOPIC_NAMES)
        found = commits.open(TOPIC_NAMES).to_pyarrow_table().select(["cluster", "topic"]).to_pylist()
    assert sorted(map(repr, found)) == [
        repr({"cluster": "c", "topic": "first"}),
        repr({"cluster": "d", "topic": "late"}),
    ]


@pytest.mark.parametrize("name", ["a[b]", "a^b", "a|b", "a\\b", "a%20b", "a\nb", "a\x7fb"])
def test_a_path_that_delta_rs_misreads(tmp_path: Path, name: str) -> None:
    """Goal: a warehouse that delta-rs would panic at, or not find again, is refused in a sentence."""
    with pytest.raises(InputError, match="rename the folder"):
        Commits(str(tmp_path / name), ()).create(TOPIC_NAMES)


@pytest.mark.parametrize("name", ["a b", "100%", "é日本", "#1", "a?b=c&d", "it's `here`", "{a}*", "a:b@c", '"<a>"'])
def test_a_path_that_is_unusual(tmp_path: Path, name: str) -> None:
    """Goal: rows that are written to a warehouse with an unusual path are found there again, by every way of
    reading."""
    warehouse = tmp_path / name
    with lease(warehouse) as held:
        commits = writer(warehouse, held)
        commits.append(TOPIC_NAMES, names("a"))
        commits.merge(TOPIC_NAMES, names("a", "b"), "old.cluster = 'c'", updates=as_new(["topic"]))
        commits.vacuum(TOPIC_NAMES, 48)
    assert topics(warehouse) == ["a", "b"]
    assert sorted(dataset(str(warehouse), TOPIC_NAMES).to_table().column("topic").to_pylist()) == ["a", "b"]
    assert (warehouse / TOPIC_NAMES.name / "_delta_log").is_dir()


def test_a_filter_behind_merges(tmp_path: Path) -> None:
    """Goal: rows that merges of delta-rs have written, whose texts it writes in another type, are found by a filter on
    a text beside those that tasks and appends have written."""
    with lease(tmp_path) as held:
        commits = writer(tmp_path, held)
        commits.append(TOPIC_NAMES, names("a", "b"))
        commits.merge(TOPIC_NAMES, names("a", "c"), "old.cluster = 'c'", updates=as_new(["topic"]))
        commits.append(TOPIC_NAMES, names("d"))
    found = dataset(str(tmp_path), TOPIC_NAMES)
    for wanted in (["a", "d"], ["c"], ["none"], []):
        rows = rows_where(found, pc.field("topic_id").isin(pa.array(wanted, pa.string())))
        assert sorted(rows.column("topic").to_pylist()) == [each for each in wanted if each != "none"]
    assert rows_where(found, pc.field("topic") >= "b").num_rows == 3


def no_answer(what: str = "operation timed out") -> OSError:
    """What delta-rs raises where a store does not answer: it has no kind of its own."""
    return OSError(f"Generic S3 error\nError performing PUT _delta_log/2.json\nHTTP error\n{what}")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commits]:
    """A writer to a folder that it takes for an object store, and `write_deltalake` for a test to replace."""
    monkeypatch.setattr(f"{COMMITS}.local_files", lambda _: None)
    with lease(tmp_path) as held:
        yield writer(tmp_path, held)


@pytest.mark.parametrize("error", [CommitFailedError("the answer was lost"), no_answer()], ids=["conflict", "none"])
def test_a_lost_answer(store: Commits, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Goal: a commit that was made, and whose answer the storage lost, is not made again."""
    name = f"{COMMITS}.write_deltalake"

    def lose_the_answer(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(name, write_deltalake)
        write_deltalake(*arguments, **options)
        raise error

    monkeypatch.setattr(name, lose_the_answer)
    assert store.append(TOPIC_NAMES, names("once"), NumberedBatch("query", 1))
    assert topics(Path(store.warehouse)) == ["once"]


@pytest.mark.parametrize("late", ["never", "before the next look", "after the next look", "after the next attempt"])
def test_a_commit_that_arrives_late(store: Commits, monkeypatch: pytest.MonkeyPatch, late: str) -> None:
    """Goal: a commit without an answer is tried again, and is there once, whenever the store carries the first attempt
    out, also when another writer has committed meanwhile."""
    first: list[Callable[[], None]] = []
    refused: list[CommitFailedError] = []

    def arrive() -> None:
        try:
            first.pop()()
        except CommitFailedError as error:
            refused.append(error)

    def write(*arguments: Any, **options: Any) -> None:
        if not tried:
            first.append(lambda: write_deltalake(*arguments, **options))
            tried.append("first")
            write_deltalake(Path(store.warehouse) / TOPIC_NAMES.name, names("other", cluster="d"), mode="append")
            raise no_answer()
        tried.append("next")
        if late == "after the next look":
            arrive()
        write_deltalake(*arguments, **options)

    def look(self: Commits, table: Any) -> DeltaTable:
        if tried and first and late == "before the next look":
            arrive()
        return opened(self, table)

    tried: list[str] = []
    opened = Commits.open
    monkeypatch.setattr(Commits, "open", look)
    monkeypatch.setattr(f"{COMMITS}.write_deltalake", write)
    assert store.append(TOPIC_NAMES, names("once"))
    if late == "after the next attempt":
        arrive()
        assert refused
    assert tried == ["first"] + ["next"] * (late != "before the next look")
    assert topics(Path(store.warehouse)) == ["once", "other"]


def test_a_store_that_never_answers(store: Commits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a writer gives up after some attempts, with the message of the store's client; an error of a disk counts at
    once."""
    tried: list[object] = []

    def never_answer(*arguments: Any, **_: Any) -> None:
        tried.append(arguments)
        raise no_answer()

    monkeypatch.setattr(f"{COMMITS}.write_deltalake", never_answer)
    for attempts in (3, 1):
        tried.clear()
        with pytest.raises(OSError, match="timed out"):
            store.append(TOPIC_NAMES, names("none"))
        assert len(tried) == attempts
        monkeypatch.setattr(f"{COMMITS}.local_files", local_files)


def test_a_compaction_whose_answer_is_lost(store: Commits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: how many files became how many is known then, too."""
    for topic in ("a", "b", "c"):
        store.append(TOPIC_NAMES, names(topic))

    def lose_the_answer(*arguments: Any, **options: Any) -> None:
        compact(*arguments, **options)
        raise no_answer()

    compact = TableOptimizer.compact
    monkeypatch.setattr(TableOptimizer, "compact", lose_the_answer)
    assert store.compact(TOPIC_NAMES, [], 1 << 20) == (3, 1)


def test_a_batch_is_taken_once(tmp_path: Path) -> None:
    """Goal: a batch that is written again adds nothing; a later one does; another writer's numbers don't count."""
    with lease(tmp_path) as held:
        commits = writer(tmp_path, held)
        assert commits.append(TOPIC_NAMES, names("a"), NumberedBatch("query", 0))
        assert not commits.append(TOPIC_NAMES, names("a"), NumberedBatch("query", 0))
        assert commits.append(TOPIC_NAMES, names("b"), NumberedBatch("query", 1))
        assert not commits.append(TOPIC_NAMES, names("c"), NumberedBatch("query", 0))
        assert commits.append(TOPIC_NAMES, names("d"), NumberedBatch("other", 0))
    assert topics(tmp_path) == ["a", "b", "d"]


@pytest.mark.parametrize("way", WAYS)
def test_a_property_stays(tmp_path: Path, way: str) -> None:
    """Goal: a property that was set, as retention sets its floors, is there after any other commit."""
    with lease(tmp_path) as held:
        commits = writer(tmp_path, held)
        commits.append(TOPIC_NAMES, names("first"))
        commits.set_properties(TOPIC_NAMES, lambda _: {"floors": '{"it\'s": "\u00fc"}'})
        WAYS[way](commits)
        assert properties_of(str(tmp_path), TOPIC_NAMES)["floors"] == '{"it\'s": "\u00fc"}'
    assert properties_of(str(tmp_path), COVERAGE) == {}


def test_a_lease_folder_that_was_deleted(tmp_path: Path) -> None:
    """Goal: a chain that begins again goes on above the tokens in the tables, and the old holder is kept out."""
    with lease(tmp_path) as before:
        before._take(9)
        writer(tmp_path, before).append(TOPIC_NAMES, names("before"))
    for name in LocalStorage(tmp_path).names("_groupledger/c/lease"):
        LocalStorage(tmp_path).delete(f"_groupledger/c/lease/{name}")
    with lease(tmp_path) as after:
        assert after.token == 1
        writer(tmp_path, after).append(TOPIC_NAMES, names("after"))
        assert after.token == 10
        assert DeltaTable(str(tmp_path / TOPIC_NAMES.name)).transaction_version(application_id(after)) == 10
        after.check()
    assert topics(tmp_path) == ["after", "before"]


@pytest.mark.parametrize(
    ("table", "command"), [(TOPIC_NAMES, "history --rebuild"), (COORDINATOR_RECORDS, "ingest --recover")]
)
def test_a_commit_that_a_machine_left_empty(tmp_path: Path, table: Table, command: str) -> None:
    """Goal: no writer goes on after a commit whose rows Delta's readers would miss without a word: it says how the
    table is made again."""
    with lease(tmp_path) as held:
        commits = Commits(str(tmp_path), (held,))
        commits.create(table)
        commits.fence(table)
        commits.fence(table)
        file = tmp_path / table.name / "_delta_log" / f"{2:020}.json"
        whole = file.read_bytes()
        file.write_bytes(b"")
        message = (
            f"commit 2 of the table {table.name} is empty.*move the folder {table.name} out of the warehouse and run"
        )
        with pytest.raises(OutsideError, match=f"{message} `groupledger {command}`"):
            commits.fence(table)
        file.write_bytes(whole)
        commits.fence(table)


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir])
def test_a_file_that_is_none(tmp_path: Path, put: Callable[[Path], None]) -> None:
    """Goal: a job does not begin to read a table with a pipe or a folder in the place of a file: a task of Spark's
    would wait for it, and can't be ended."""
    with lease(tmp_path) as held:
        commits = writer(tmp_path, held)
        commits.append(TOPIC_NAMES, names("first"))
        (file,) = (tmp_path / TOPIC_NAMES.name).rglob("*.parquet")
        file.unlink()
        put(file)
        with pytest.raises(OutsideError, match="is no regular file, and is not read"):
            commits.fence(TOPIC_NAMES)


def test_a_table_that_was_restored(tmp_path: Path) -> None:
    """Goal: no writer goes on in a table that another engine has restored to before a commit of ours, while the log
    still shows that the table has had it; a table that is restored to that commit again, or was compacted, is whole."""
    with lease(tmp_path) as held:
        commits = writer(tmp_path, held)
        assert commits.append(TOPIC_NAMES, names("first"), NumberedBatch("query", 0))
        assert commits.append(TOPIC_NAMES, names("second"), NumberedBatch("query", 1))
        newest = commits.open(TOPIC_NAMES).version()
        commits.open(TOPIC_NAMES).optimize.compact()
        commits.open(TOPIC_NAMES).restore(newest - 1)
        assert topics(tmp_path) == ["first"]
        assert commits.has(TOPIC_NAMES, NumberedBatch("query", 1))
        with pytest.raises(InputError, match=f"restored the table topic_names to an .* restore it to version {newest}"):
            commits.fence(TOPIC_NAMES)
        commits.open(TOPIC_NAMES).restore(newest)
        commits.fence(TOPIC_NAMES)
        commits.open(TOPIC_NAMES).optimize.compact()
        commits.fence(TOPIC_NAMES)
    assert topics(tmp_path) == ["first", "second"]


def test_a_key_that_is_null(tmp_path: Path) -> None:
    """Goal: a row whose key is null, which a merge would add again each time, is an error."""
    rows = pa.Table.from_pylist([{"cluster": "c", "kafka_partition": None}], arrow_schema(COVERAGE.schema))
    with lease(tmp_path) as held, pytest.raises(ValueError, match="rows of coverage have no kafka_partition"):
        Commits(str(tmp_path), (held,)).merge(COVERAGE, rows, "true", updates={})


def test_what_spark_finds(tmp_path: Path) -> None:
    """Goal: a table that delta-rs makes has the comments, partitions, properties and protocol that Spark's had."""
    commits = Commits(str(tmp_path), ())
    commits.create(COORDINATOR_RECORDS)
    commits.create(COORDINATOR_RECORDS)
    found = DeltaTable(str(tmp_path / COORDINATOR_RECORDS.name))
    assert found.version() == 0
    assert found.metadata().partition_columns == list(COORDINATOR_RECORDS.partition_columns)
    assert found.metadata().configuration == COORDINATOR_RECORDS.properties
    assert found.metadata().description == COORDINATOR_RECORDS.comment
    assert (found.protocol().min_reader_version, found.protocol().min_writer_version) == (1, 2)
    comment = COORDINATOR_RECORDS.schema["kafka_offset"].metadata["comment"]
    field = next(each for each in found.schema().fields if each.name == "kafka_offset")
    assert field.metadata == {"comment": comment}
