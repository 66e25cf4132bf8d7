"""Goal: no sentence of ours advises to destroy something that may be healthy. Each text of the product that advises to
do without something, or to make it again, is here with the proof that the thing is no good, so that a new text is
looked at."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from groupledger.jobs.process.outside import made_again
from groupledger.schemas.definitions import table_names

ROOT = Path(__file__).parents[3]
FILES = [path for folder in ("jobs", "transforms") for path in (ROOT / folder).rglob("*.py")]
VERBS = "remove|delete|drop|erase|empty|overwrite|clear"
ADVICE = re.compile(rf"\b(?:{VERBS}|move) (?:it|the|one|all|its)\b|\b[a-z]+ --re(?:build|cover)\b")

NO_JSON = "its text is no JSON: what a newer release writes, which is JSON, has another sentence (`read_parsed`)"
SET_ASIDE = "nothing: the table and what was read stay, and the checkpoint is renamed"
REBUILT = "nothing: rows are made again in one commit, and the versions before stay for a while"
# By the file, the beginning of a text that advises such a thing, and what proves that nothing good is lost.
PROVED = {
    "jobs/process/outside.py": {
        "move the folder {} out of the warehouse": "a file is missing, or its bytes are no Parquet and no JSON",
        "ingest --recover": "as above: how that table is made again",
        "history --rebuild": "as above: how those tables are made again",
    },
    "jobs/warehouse/checkpoint.py": {
        "ingest --recover": NO_JSON,
        "history --rebuild": NO_JSON,
    },
    "jobs/derive/lag_stretches.py": {"move it out of the warehouse": NO_JSON},
    "jobs/derive/rebalance_stretches.py": {"move it out of the warehouse": NO_JSON},
    "jobs/warehouse/kept_settings.py": {"move it out of the warehouse": NO_JSON},
    "jobs/warehouse/known_until.py": {"move it out of the warehouse": NO_JSON},
    "jobs/derive/commit_steps.py": {"move it out of the warehouse": NO_JSON},
    "jobs/derive/offset_events.py": {"move it out of the warehouse": NO_JSON},
    "jobs/derive/open_transactions.py": {"move it out of the warehouse": NO_JSON},
    "jobs/ingest/decode_again.py": {"move it out of the warehouse": NO_JSON},
    "jobs/notify/notify.py": {"move it out of the warehouse": NO_JSON},
    "jobs/warehouse/forget.py": {"move it out of the warehouse": NO_JSON},
    "jobs/warehouse/judged_logs.py": {"move it out of the warehouse": NO_JSON},
    "jobs/warehouse/first_fold.py": {"move it out of the warehouse": NO_JSON},
    "jobs/warehouse/rebuilds.py": {"move it out of the warehouse": NO_JSON},
    "jobs/warehouse/source.py": {"restore it, or move it out of the warehouse": NO_JSON},
    "jobs/ingest/capture.py": {"{} of the capture is damaged": "its text can't be read, and its records stay"},
    "jobs/warehouse/resume.py": {"The table {} {}. To continue": SET_ASIDE},
    "jobs/ingest/ingest.py": {"{} offsets in {} partitions were deleted": SET_ASIDE},
    "jobs/ingest/stream.py": {
        "The checkpoint was deleted": "the checkpoint is gone",
        "The table {} is another one": REBUILT,
    },
    "jobs/ingest/evidence.py": {"Partition {} of {} was cut off": SET_ASIDE},
    "jobs/ingest/ingest_capture.py": {"The capture begins after": SET_ASIDE},
    "jobs/derive/history.py": {
        "The history has been written before": "the tables are gone",
    },
    "jobs/derive/batch_records.py": {"The file with the source of the ledger of cluster {}": "the file is gone"},
    "jobs/derive/first_fold.py": {"The table {} is another one": REBUILT},
    "jobs/derive/validate.py": {"the table {} is not what its records say": REBUILT},
    "transforms/history/rules/state.py": {"The open state of a group has {}": REBUILT},
    # What is no warehouse's.
    "jobs/process/jars.py": {"The JARs that were fetched": "other hashes than those of this release: a cache"},
    "jobs/serve/passwords.py": {"{} names {} twice": "a name stands twice in the file: one of two lines"},
    "transforms/records/decode_offset_commits.py": {"Arrow gave the values as {}": "settings of Spark's"},
}


def texts(path: Path) -> list[str]:
    """The texts of a file that are no docstrings, with {} where a value stands."""
    tree = ast.parse(path.read_text())
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | prose:
            found.append(node.value)
    return found


@cache
def advised() -> dict[str, set[str]]:
    """The texts that advise to do without something, by file."""
    found = {str(path.relative_to(ROOT)): {text for text in texts(path) if ADVICE.search(text)} for path in FILES}
    return {path: each for path, each in found.items() if each}


def test_each_advice_is_proved() -> None:
    """Goal: nobody adds an advice that destroys without saying what proves the damage, and the list has no other."""
    unproved = {
        (path, text)
        for path, found in advised().items()
        for text in found
        if not text.startswith(tuple(PROVED.get(path, {"\0": ""})))
    }
    unused = {
        (path, begin)
        for path, begins in PROVED.items()
        for begin in begins
        if not any(text.startswith(begin) for text in advised().get(path, ()))
    }
    assert (unproved, unused) == (set(), set())


def test_nothing_of_a_warehouse_is_deleted() -> None:
    """Goal: a remedy moves a file or a folder of a warehouse out of the way and never deletes it, so that it is still
    there."""
    others = {"jobs/process/jars.py", "jobs/serve/passwords.py", "transforms/records/decode_offset_commits.py"}
    found = {text for path, each in advised().items() if path not in others for text in each}
    assert not [text for text in found if re.search(rf"\b(?:{VERBS}) (?:it|the|one|all|its)\b", text)]


@pytest.mark.parametrize("name", sorted(table_names()))
def test_tables_are_made_again_beside(name: str) -> None:
    """Goal: the remedy of each table keeps what is there, and says that its sources may have less."""
    remedy = made_again(name, f"/w/{name}")
    assert remedy == "read its source again into another --warehouse" or re.fullmatch(
        rf"move the folder /w/{name} out of the warehouse and run `groupledger [a-z -]+`, which makes of it what its"
        " sources still have",
        remedy,
    )
