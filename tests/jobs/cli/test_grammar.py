"""Goal: commands read alike: the group is an argument, older spellings work, help has sections, and the answer to
a missing warehouse says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from groupledger.jobs.cli.main import main
from groupledger.jobs.cli.sections import SECTIONS
from groupledger.jobs.demo.shipped import ends_now, unpack

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("grammar")
    unpack(place, ends_now())
    return place


def run(*words: str) -> str:
    done = CliRunner().invoke(main, [*words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_command_is_in_a_section() -> None:
    listed = [name for commands in SECTIONS.values() for name in commands]
    assert sorted(listed) == sorted(main.commands)
    text = run("--help")
    assert [line[:-1] for line in text.splitlines() if line.endswith(":")][1:] == [*SECTIONS]
    assert "..." not in text.partition("Start here:")[2]


@pytest.mark.parametrize("command", ["incidents", "lag", "rebalances"])
def test_a_group_is_an_argument_and_the_older_option_works(warehouse: Path, command: str) -> None:
    place = ("--warehouse", str(warehouse), "--json")
    by_name = run(command, "loyalty-points", *place)
    assert by_name
    assert by_name == run(command, "--group", "loyalty-points", *place)
    both = CliRunner().invoke(main, [command, "checkout", "--group", "checkout", *place])
    assert (both.exit_code, "once" in both.output) == (2, True)


@pytest.mark.parametrize("words", [["groups"], ["why", "pay"], ["sql", "SELECT 1"]])
def test_without_a_warehouse(words: list[str]) -> None:
    done = CliRunner().invoke(main, words, env={"GROUPLEDGER_WAREHOUSE": None})
    assert done.exit_code == 2
    assert "--warehouse DIR" in done.output
    assert "GROUPLEDGER_WAREHOUSE" in done.output
    assert "serve --demo" in done.output


def test_sql_as_json(warehouse: Path) -> None:
    query = "SELECT count(*) AS n FROM groups"
    place = ("--warehouse", str(warehouse))
    assert run("sql", query, "--json", *place) == run("sql", query, "--format", "json", *place) == '{"n":40}\n'
