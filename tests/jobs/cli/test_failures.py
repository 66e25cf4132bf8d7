"""Goal: a warehouse or a capture that was damaged ends a command with one sentence and its exit code, never with that
of findings; a remedy that names a command works when it is followed."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.jobs.cli.main import main
from groupledger.jobs.demo.simulate import simulate
from groupledger.jobs.process.session import SHORT_LIVED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

RECORDS = "records --limit 1"
REBUILD = "history --rebuild"
FILE_BYTES = 12_000  # enough for the files of the driver, and not for those of the tasks


@dataclass(frozen=True, kw_only=True)
class Place:
    """A capture, and the warehouse into which it was ingested and folded."""

    capture: Path
    warehouse: Path

    def run(self, command: str) -> tuple[int, str]:
        """Runs a command; returns its exit code and its message if it fails."""
        words = [*command.split(), "--warehouse", str(self.warehouse)]
        if words[0] == "ingest":
            words += ["--capture", str(self.capture)]
        result = CliRunner().invoke(main, words)
        message = result.stderr[result.stderr.find("groupledger: ") :] if "groupledger: " in result.stderr else ""
        assert "Traceback" not in result.output
        assert "\tat " not in result.output
        assert message.count("\n") == (1 if message else 0)
        return result.exit_code, message


@pytest.fixture(scope="module")
def base(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    directory = tmp_path_factory.mktemp("failures")
    simulate(SCENARIOS["leader-loss"], 1, directory / "simulated", 1, None, lambda _text: None)
    place = Place(capture=directory / "simulated" / "capture", warehouse=directory / "warehouse")
    assert place.run("ingest") == (0, "")
    assert place.run("history") == (0, "")
    return place


@pytest.fixture
def place(base: Place, tmp_path: Path) -> Place:
    """Returns a copy that may be damaged."""
    copy = Place(capture=tmp_path / "capture", warehouse=tmp_path / "warehouse")
    shutil.copytree(base.capture, copy.capture)
    shutil.copytree(base.warehouse, copy.warehouse)
    return copy


def garbage(path: Path) -> None:
    path.write_text("{garbage")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def gone(path: Path) -> None:
    path.unlink()


def one_later(path: Path) -> None:
    path.rename(path.with_name(str(int(path.name) + 1)))


def damage(folder: Path, pattern: str, how: Callable[[Path], None]) -> None:
    """Damages files, as a disk does it: without a word to Hadoop, whose checksums of them go."""
    found = sorted(folder.glob(pattern))
    assert found
    for path in found:
        how(path)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("pattern", "how", "command", "message"),
    [
        ("_checkpoints/*/coordinator_records/metadata", garbage, "ingest", "coordinator_records/metadata of the"),
        ("_checkpoints/*/coordinator_records/offsets/0", cut, "ingest", "coordinator_records/offsets/0 of the"),
        (
            "_checkpoints/*/coordinator_records/sources/0/0",
            cut,
            "ingest",
            "of the checkpoint _checkpoints/default/coord",
        ),
        (
            "_checkpoints/*/coordinator_records/sources/0/0",
            one_later,
            "ingest",
            "of the checkpoint _checkpoints/default/coord",
        ),
        ("_checkpoints/*/history/commits/0", cut, "history", "_checkpoints/default/history/commits/0 of the"),
        ("_groupledger/*/source.json", cut, "ingest", "_groupledger/default/source.json of the"),
        ("generations/**/*.parquet", cut, REBUILD, "of the table generations is damaged"),
    ],
)
def test_damage_with_a_command_for_remedy(
    place: Place, pattern: str, how: Callable[[Path], None], command: str, message: str
) -> None:
    """Goal: a damaged checkpoint, source file or derived table is reported with its remedy, which is enough."""
    damage(place.warehouse, pattern, how)
    code, sentence = place.run(command)
    assert code == 3
    assert message in sentence
    assert follow(place, sentence) == command or place.run(command) == (0, "")


def follow(place: Place, sentence: str) -> str:
    """Does what a sentence says: removes the file or the folder, and runs the command, which it returns."""
    file = re.search(r"The file (\S+) of the warehouse is damaged: restore it, or move it out", sentence)
    folder = re.search(r"move the folder (\S+) out of the warehouse and", sentence)
    if file is not None:
        (place.warehouse / file[1]).unlink()
    else:
        assert folder is not None
        shutil.rmtree(place.warehouse / folder[1])
    again = re.search(r"run `groupledger ([^`]+)`", sentence)
    assert again is not None
    assert place.run(again[1]) == (0, "")
    return again[1]


@pytest.mark.parametrize(
    ("pattern", "how", "command", "message"),
    [
        ("coordinator_records/_delta_log/*1.json", garbage, "ingest", "warehouse/coordinator_records is damaged"),
        (
            "coordinator_records/_delta_log/*1.json",
            garbage,
            RECORDS,
            "warehouse/coordinator_records is damaged: restore the table from a backup",
        ),
        ("coordinator_records/*/*.parquet", cut, RECORDS, ".parquet of the table coordinator_records is damaged"),
        ("coordinator_records/*/*.parquet", gone, RECORDS, ".parquet of the table coordinator_records is missing"),
    ],
)
def test_damage_that_only_a_backup_undoes(
    base: Place, place: Place, pattern: str, how: Callable[[Path], None], command: str, message: str
) -> None:
    """Goal: a damaged log or file of a table that holds the only copy is reported, and its backup is enough."""
    damage(place.warehouse, pattern, how)
    code, sentence = place.run(command)
    assert code == 3
    assert message in sentence
    shutil.rmtree(place.warehouse)
    shutil.copytree(base.warehouse, place.warehouse)
    assert place.run(command) == (0, "")


def test_a_damaged_lease(place: Place, tmp_path: Path) -> None:
    """Goal: a lease file that nobody can read is waited for, and then taken over: there is nothing to repair."""
    damage(place.warehouse, "_groupledger/*/lease/*.json", garbage)
    (tmp_path / "short.yaml").write_text("lease: {duration_s: 5}\n")
    assert place.run(f"history --conf {tmp_path / 'short.yaml'}") == (0, "")


@pytest.mark.parametrize(("pattern", "how"), [("*.parquet", cut), ("*.parquet", garbage), ("_capture.json", cut)])
def test_a_damaged_capture(base: Place, place: Place, pattern: str, how: Callable[[Path], None]) -> None:
    """Goal: a damaged capture is bad input; nothing of it is kept, and a good copy of it is taken."""
    shutil.rmtree(place.warehouse)
    damage(place.capture, pattern, how)
    code, sentence = place.run("ingest")
    assert code == 2
    assert "is damaged: " in sentence
    shutil.rmtree(place.capture)
    shutil.copytree(base.capture, place.capture)
    assert place.run("ingest") == (0, "")


def test_relative_directories(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a warehouse beside the working directory is made, found again, and no other."""
    shutil.rmtree(place.warehouse)
    (place.capture.parent / "here").mkdir()
    monkeypatch.chdir(place.capture.parent / "here")
    relative = Place(capture=place.capture, warehouse=place.warehouse.relative_to(place.capture.parent))
    beside = Place(capture=place.capture, warehouse=".." / relative.warehouse)
    assert beside.run("ingest") == (0, "")
    assert beside.run("history") == (0, "")
    assert (place.warehouse / "generations" / "_delta_log").is_dir()
    assert list(place.capture.parent.joinpath("here").iterdir()) == []


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "The disk is full: make room"), (errno.EROFS, "The file system is read-only")],
)
def test_a_disk_that_fails_in_a_batch(place: Place, monkeypatch: pytest.MonkeyPatch, number: int, message: str) -> None:
    """Goal: a disk that is full or turns read-only while a batch of the streaming query is written is reported, and the
    batch comes again."""
    shutil.rmtree(place.warehouse)

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as during:
        during.setattr("groupledger.jobs.ingest.stream.write_files", fail)
        code, sentence = place.run("ingest")
    assert code == 3
    assert message in sentence
    assert place.run("ingest") == (0, "")


def test_a_disk_that_takes_no_more(base: Place, tmp_path: Path) -> None:
    """Goal: a command whose tasks can't write ends with one sentence, without a word of Spark's, and can be run again
    when there is room; a limit of the process takes the place of a full disk."""
    plain = tmp_path / "plain"  # no compression, whose library Java would unpack into a file
    plain.mkdir()
    for path in base.capture.glob("*.parquet"):
        pq.write_table(pq.read_table(path), plain / path.name, compression="none")
    arguments = ["ingest", "--capture", str(plain), "--warehouse", str(tmp_path / "w")]
    # Python 3.11 leaves half a file of bytecode where a limit cuts it off, and imports it the next time.
    environment = {"JAVA_TOOL_OPTIONS": SHORT_LIVED, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "groupledger.jobs.cli.main", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES)),
    )
    *before, last = done.stderr.splitlines()
    assert done.returncode == 3, done.stderr
    assert last.startswith("groupledger: A file may not become as large as it must: ")
    usual = ("starting Spark", "WARNING: Using incubator", "Picked up JAVA_TOOL_OPTIONS")
    assert [line for line in before if not line.startswith(usual)] == []
    assert Place(capture=plain, warehouse=tmp_path / "w").run("ingest") == (0, "")
