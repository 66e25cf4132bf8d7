"""Goal: whatever is broken at random, by a seed, the next runs make the tables of an undisturbed run."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from bench.faults import FAULTS, STRICT, main, rows
from groupledger.schemas.codec.records import decode_record
from lab.faults.contents import differences
from lab.faults.live import SESSION_MS, lasting, twice
from lab.faults.processes import Ended, Launcher
from lab.faults.trials import KEPT, Stage, Trial, differences_of, remove_as_advised
from lab.faults.warm import WarmProcess
from lab.warehouses.rows import group_metadata, offset_commit

if TYPE_CHECKING:
    from pathlib import Path


def test_kills_in_the_middle_of_a_call(tmp_path: Path) -> None:
    """Goal: the short form: a process is killed while it makes a file, and the tables are those of an undisturbed run.
    `make faults` breaks the rest; a writer that sleeps is in test_fencing."""
    options = ["--seeds", "1", "--pieces", "1", "--faults-per-seed", "1", "--strict"]
    assert main([*options, "--directory", str(tmp_path), "--only", "kill-at-a-call"]) == 0


def test_faults_in_a_row() -> None:
    """Goal: only faults of processes share a warehouse, at most as many as are wanted, and each keeps its number."""
    kinds = ["interrupt", "two-writers", "damaged-lease"]
    found = rows(kinds, 7, length_max=2)
    assert [list(each) for each in found] == [[0, 1], [2], [3, 4], [5], [6]]
    assert found[1] == {2: "damaged-lease"}
    assert [list(each) for each in rows(kinds[:2], 5, length_max=3)] == [[0, 1, 2], [3, 4]]


def test_strict_kinds_exist() -> None:
    """Goal: no kind that must end in a sentence is one that nothing knows."""
    assert set(STRICT) <= FAULTS.keys()


def test_a_folder_is_removed_as_advised(tmp_path: Path) -> None:
    """Goal: the remedy of a damaged file is followed to the letter, and never outside of the warehouse."""
    checkpoint = tmp_path / "_checkpoints/test/history"
    checkpoint.mkdir(parents=True)
    remove_as_advised(tmp_path, "groupledger: The file is damaged: run it again.")
    assert checkpoint.exists()
    remedy = "move the folder {} out of the warehouse and run `groupledger history --rebuild`."
    remove_as_advised(tmp_path, remedy.format("_checkpoints/test/history"))
    assert not checkpoint.exists()
    file = tmp_path / "source.json"
    file.touch()
    moved = (
        "The file source.json of the warehouse is damaged: restore it, or move it out of the warehouse and run `it`."
    )
    remove_as_advised(tmp_path, moved)
    assert not file.exists()
    with pytest.raises(AssertionError):
        remove_as_advised(tmp_path, remedy.format("../other"))


@pytest.mark.parametrize("begin", ["", "2026-11-28T21:50:24.642Z ERROR test ", "2026-11-28T21:50:24.642Z ERROR "])
def test_a_sentence_in_a_log(begin: str) -> None:
    """Goal: a message is recognized as one sentence by itself or as a line of a log; another last line is not."""
    ended = Ended("pipeline", 3, f"21:50 history: 3 rows\n{begin}groupledger: Another writer holds it.\n")
    assert (ended.sentence, ended.is_clean) == ("groupledger: Another writer holds it.", True)
    assert not Ended("pipeline", 3, f"{begin}it ended: groupledger: x").is_clean


def test_sessions_outlast_the_trial() -> None:
    """Goal: a broker that reads the records ends no member, and metadata that is not a group's stays as it is."""
    key, value = lasting(*group_metadata(session_timeout_ms=10_000))
    (member,) = (decode_record(key, value).value or {})["members"]
    assert (member["session_timeout_ms"], member["client_id"]) == (SESSION_MS, "c")
    assert lasting(*offset_commit()) == offset_commit()
    assert lasting(offset_commit()[0], None) == (offset_commit()[0], None)


def test_a_row_that_is_there_twice_is_found() -> None:
    """Goal: each table is compared, also those that no other run writes in the same way."""
    assert twice({"lag": Counter(a=1, b=2), "groups": Counter(a=1)}) == ["lag: 2 times b"]


def test_what_a_rebuild_drops(tmp_path: Path) -> None:
    """Goal: files that a pass keeps for the next one are compared, except in a warehouse that was rebuilt, where they
    begin anew."""
    stage = Stage(
        name="",
        cluster="",
        before=tmp_path,
        inputs=tmp_path,
        expected={name: Counter(a=1) for name in ("groups", *KEPT)},
        counts={},
        seconds=0,
    )
    trial = Trial(random=Random(1), stage=stage, launcher=Launcher(tmp_path, tmp_path, WarmProcess(), WarmProcess()))
    assert len([line for line in differences_of(trial) if "missing" in line]) == 3
    trial.ends.append(Ended("history --rebuild", 0, ""))
    assert differences_of(trial) == ["groups: 0 rows too many, 1 missing", "  - a"]


def test_a_difference_is_found() -> None:
    """Goal: a row that is there twice, one that is missing and a table that is missing are differences."""
    assert differences({"t": Counter(a=1)}, {"t": Counter(a=1)}) == []
    assert differences({"t": Counter(a=2)}, {"t": Counter(a=1, b=1)}) == [
        "t: 1 rows too many, 1 missing",
        "  + a",
        "  - b",
    ]
    assert differences({}, {"t": Counter(a=1)}) == ["t: 0 rows too many, 1 missing", "  - a"]
