"""Goal: no JAR gets beside Spark that was not tested, wherever it comes from."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from groupledger.jobs.process import jar_hashes, jars
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.jars import SPARK, archive_classes, set_up
from groupledger.jobs.process.signals import ending_in_time

TESTED = {"delta-1.jar": b"delta", "kafka-1.jar": b"kafka"}


def put(folder: Path, contents: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


class Repository:
    """Answers in place of Ivy with its JARs, and counts how often it is asked."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents, self.asked = contents, 0

    def fetch(self, _java: str, _ivy: Path, folder: Path, name: str) -> None:
        self.asked += 1
        put(folder / name, self.contents)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A list of two JARs, and a repository that has them."""
    lists = tmp_path / "lists"
    lists.mkdir()
    monkeypatch.setattr(jar_hashes, "IVY", lists)
    tested = put(tmp_path / "tested", TESTED)
    jar_hashes.list_of(SPARK).write_text(jar_hashes.written(tested.iterdir()))
    jar_hashes.ivy_of(SPARK).touch()
    found = Repository(TESTED)
    monkeypatch.setattr(jars, "fetch_jars", found.fetch)
    monkeypatch.setattr(jars, "java_path", lambda: sys.executable)
    monkeypatch.setattr(jars, "java_words", lambda _: 'version "17.0.1"')
    monkeypatch.setattr(jars, "shipped_ivy", lambda: Path("ivy.jar"))
    monkeypatch.setattr(jars, "archive_classes", lambda *_: None)
    return found


def of(folder: Path) -> dict[str, bytes]:
    return {jar.name: jar.read_bytes() for jar in folder.glob("*.jar")}


def quiet(text: str) -> None:
    pass


def test_what_was_tested_is_let_in_once(repository: Repository, tmp_path: Path) -> None:
    """Goal: the tested JARs are fetched, and current ones are not fetched again."""
    for _ in range(2):
        set_up(tmp_path / "jars", quiet)
        assert of(tmp_path / "jars" / SPARK) == TESTED
    assert repository.asked == 1


@pytest.mark.parametrize(
    ("served", "message"),
    [
        ({**TESTED, "kafka-1.jar": b"kafkA"}, "kafka-1.jar is not the one that was tested"),
        ({"delta-1.jar": b"delta"}, "kafka-1.jar is missing"),
        ({**TESTED, "more-1.jar": b""}, "more-1.jar is not listed"),
        ({"delta-1.jar": b"Delta"}, "delta-1.jar is not the one that was tested; 1 more"),
    ],
)
def test_what_a_repository_serves(
    repository: Repository, tmp_path: Path, served: dict[str, bytes], message: str
) -> None:
    """Goal: a JAR with one byte changed, one that lacks and one too many are refused, and none is left to be used."""
    repository.contents = served
    with pytest.raises(OutsideError) as raised:
        set_up(tmp_path / "jars", quiet)
    assert f"not those of conf/ivy/spark.sha256 ({message})" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "jars" / SPARK).exists()


def test_a_jar_that_changed_behind_setup(repository: Repository, tmp_path: Path) -> None:
    """Goal: a file that setup accepted once, and that is another file now, is fetched again."""
    set_up(tmp_path / "jars", quiet)
    put(tmp_path / "jars" / SPARK, {"kafka-1.jar": b"kafkA"})
    set_up(tmp_path / "jars", quiet)
    assert of(tmp_path / "jars" / SPARK) == TESTED
    assert repository.asked == 2


def test_from_a_folder(repository: Repository, tmp_path: Path) -> None:
    """Goal: JARs from elsewhere are compared with the same list; a JAR that is not listed is left where it is."""
    source = put(tmp_path / "source", {**TESTED, "kafka-1.jar": b"kafkA", "more-1.jar": b"more"})
    with pytest.raises(InputError, match=r"\(kafka-1\.jar is not the one that was tested\): copy the folder"):
        set_up(tmp_path / "jars", quiet, offline=source)
    assert not (tmp_path / "jars" / SPARK).exists()
    put(source, TESTED)
    set_up(tmp_path / "jars", quiet, offline=source)
    assert of(tmp_path / "jars" / SPARK) == TESTED
    assert repository.asked == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_set_up_that_is_ended(number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: when set-up is ended, so is the JVM that the program of the class archive has started: here, a process that
    holds a pipe open, and whose parent is the program."""
    program, pipe = tmp_path / "python", tmp_path / "pipe"
    program.write_text(f"#!/bin/sh\nsleep 60 > '{pipe}' &\nwait\n")
    program.chmod(0o755)
    os.mkfifo(pipe)
    monkeypatch.setattr(sys, "executable", str(program))

    def end_it() -> None:
        with pipe.open() as of_the_child:  # it runs
            os.kill(os.getpid(), number)
            of_the_child.read()  # until it has ended

    child = threading.Thread(target=end_it, daemon=True)
    child.start()
    with pytest.raises(SystemExit), ending_in_time(print):
        archive_classes(tmp_path, "a Java", quiet)
    child.join(30)
    assert not child.is_alive()
