"""Goal: a command goes on with the settings that the tables were made with, whatever it was given, and says so."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.kept_settings import NAMES, kept_settings, with_kept
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.rebuilds import is_requested
from groupledger.jobs.warehouse.settled_settings import settle
from groupledger.jobs.warehouse.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

    from groupledger.jobs.process.settings import Settings

OWN = {"history": {"consumer_session_timeout_s": 10}, "lag": {"standstill_s": 30}}


class Commands:
    """Commands on one warehouse, each with a settings file or none. `said` has the sentences of the last one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage = LocalStorage(folder / "warehouse")
        self.said: list[str] = []

    def given(self, conf: dict[str, Any] | None) -> Settings:
        file = self.folder / "settings.yaml"
        file.write_text(json.dumps(conf))
        return load_settings(file if conf is not None else None, cluster="c")

    def run(self, command: str, conf: dict[str, Any] | None = None, *, is_of_logs: bool = False) -> Settings:
        self.said = []
        with Lease(self.storage, "c", command, 60) as lease:
            ledger: Any = SimpleNamespace(
                storage=self.storage,
                lease=lease,
                cluster="c",
                settings=self.given(conf),
                say=self.said.append,
                exists=lambda _: True,
                version=lambda _: 7,
            )
            return settle(ledger, command, is_of_logs=is_of_logs)


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def reported(settings: Settings) -> tuple[int, int]:
    return settings.history.consumer_session_timeout_s, settings.lag.standstill_s


def test_a_command_without_the_settings_of_before(commands: Commands) -> None:
    """Goal: `validate`, which compares rows with the settings by which they were made, and a pass use the kept
    settings, and print them; a value that nobody has changed is not mentioned. Nothing is made again."""
    assert reported(commands.run("pipeline", OWN)) == (10, 30)
    assert commands.said == []
    for command in ("validate", "pipeline", "monitor"):
        assert reported(commands.run(command)) == (10, 30)
        (sentence,) = commands.said
        assert "history.consumer_session_timeout_s 10 instead of 45, lag.standstill_s 30 instead of 120" in sentence
    assert not is_requested(commands.storage, "c")


def test_a_command_with_other_settings(commands: Commands) -> None:
    """Goal: the values of a user's file hold from then on, even if they are the shipped ones, and a history that rests
    on them is made again; `validate` still compares with the values by which the rows were made."""
    commands.run("pipeline", OWN)
    other = {"history": {"consumer_session_timeout_s": 45}}
    assert reported(commands.run("validate", other)) == (10, 30)
    assert len(commands.said) == 1
    assert not is_requested(commands.storage, "c")
    assert reported(commands.run("pipeline", other)) == (45, 30)
    assert any(
        "consumer_session_timeout_s 45 instead of 10; the history is made again" in each for each in commands.said
    )
    assert is_requested(commands.storage, "c")
    assert reported(commands.run("validate")) == (45, 30)


def test_a_status_that_is_judged_otherwise(commands: Commands) -> None:
    """Goal: rows of rounds are judged once, and stay."""
    commands.run("pipeline")
    assert reported(commands.run("pipeline", {"lag": {"standstill_s": 60}}))[1] == 60
    assert commands.said[-1].endswith("rows of before stay as they are")
    assert not is_requested(commands.storage, "c")


def test_who_keeps_nothing(commands: Commands) -> None:
    """Goal: a check, and an import of logs beside another writer, change nothing; the settings of an older release are
    not known."""
    assert reported(commands.run("validate", OWN)) == (10, 30)
    assert reported(commands.run("import-logs", OWN, is_of_logs=True)) == (10, 30)
    assert kept_settings(commands.storage, "c") is None


def test_a_question(commands: Commands) -> None:
    """Goal: a question goes by the kept settings, or by those that it is given, so that a rule can be tried out on the
    past."""
    commands.run("pipeline", OWN)
    kept = kept_settings(commands.storage, "c")
    assert reported(with_kept(commands.given(None), kept)) == (10, 30)
    assert reported(with_kept(commands.given({"lag": {"standstill_s": 240}}), kept)) == (10, 240)


def test_a_secret_is_kept_as_a_reference(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: hosts that were hashed are hashed by a command that had no such setting; the key lies nowhere."""
    monkeypatch.setenv("KEY_OF_HASHES", "a-key-of-sixteen-bytes")
    commands.run("ingest", {"privacy": {"hosts": "hash", "hash_key": {"env": "KEY_OF_HASHES"}}})
    assert commands.run("ingest").privacy.resolve().host("/10.0.0.1") != "/10.0.0.1"
    files = [each.read_text() for each in (commands.folder / "warehouse").rglob("*") if each.is_file()]
    assert not any("a-key-of-sixteen-bytes" in text for text in files)


def test_every_setting_that_rows_rest_on_is_kept() -> None:
    """Goal: a new setting of these sections is kept, too; a setting that only decides about answers, or about when a
    pass judges all groups, is left to each command."""
    settings = load_settings()
    for section, names in NAMES.items():
        assert {*type(getattr(settings, section)).model_fields} - names <= {"no_commit", "all_groups_interval_h"}
