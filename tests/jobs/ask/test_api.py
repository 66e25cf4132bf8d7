"""Goal: a program in Python gets the answers of the command line and of `serve`, as typed rows."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import fields
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import groupledger
from groupledger.jobs.cli.main import main
from groupledger.jobs.demo.shipped import unpack
from groupledger.jobs.process.output import json_text
from tests.jobs.serve.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from groupledger.jobs.ask.rows_of_answers import Row

END = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
GROUP = "shipping-labels"
TOPIC = f"orders.{GROUP}"
SINCE = "2026-11-25T10:00:00Z"
AT = "2026-11-25T11:10:00Z"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory: Path = tmp_path_factory.mktemp("packed")
    unpack(directory, END)
    return directory


@pytest.fixture(scope="module")
def ledger(warehouse: Path) -> groupledger.Ledger:
    return groupledger.Ledger(warehouse)


def asked(ledger: groupledger.Ledger) -> dict[str, Iterable[Row]]:
    """Returns the answer to each command line."""
    why = ledger.why(GROUP, SINCE)
    return {
        "groups": ledger.groups(),
        "groups ship* --all": ledger.groups("ship*", with_ended=True),
        f"owner {GROUP} {TOPIC} 2 --at {AT}": ledger.owner(GROUP, TOPIC, 2, AT),
        f"owner {GROUP} nowhere 2 --at {AT}": ledger.owner(GROUP, "nowhere", 2, AT),
        f"offsets {GROUP} --at {AT}": ledger.offsets(GROUP, AT),
        f"lag --group {GROUP}": ledger.lag(GROUP),
        f"lag --at {AT}": ledger.lag(at=AT),
        "incidents": ledger.incidents(),
        f"incidents --group {GROUP} --severity info": ledger.incidents(GROUP, severity="info"),
        f"rebalances --group {GROUP} --since {SINCE}": ledger.rebalances(GROUP, SINCE),
        f"why {GROUP} --since {SINCE}": [*why.entries],
    }


def test_the_answers_of_the_command_line(warehouse: Path, ledger: groupledger.Ledger) -> None:
    """Goal: each answer has the fields of --json, in the same order, and its attributes are these fields."""
    for command, rows in asked(ledger).items():
        done = CliRunner().invoke(main, [*command.split(), "--json", "--warehouse", str(warehouse)])
        assert done.exit_code == 0, command
        output = [json.loads(line) for line in done.stdout.splitlines()]
        output = [row for row in output if "episodes" not in row]
        found = [plain(row.everything) for row in rows]
        assert found, command
        assert found == [{name: value for name, value in row.items() if name != "known_until"} for row in output], (
            command
        )
        for row in rows:
            named = [each.name for each in fields(row) if each.name != "everything"]
            assert {name: getattr(row, name) for name in named} == {name: row.everything[name] for name in named}


def test_the_answers_of_serve(warehouse: Path, ledger: groupledger.Ledger) -> None:
    """Goal: `why` is that of the pages, its verdict too."""
    found = ledger.why(GROUP, SINCE)
    with served(warehouse) as client:
        answer = client.get(f"/api/v1/clusters/{ledger.cluster}/groups/{GROUP}/why?since={SINCE}").json
    verdict = answer["verdict"]
    assert [plain(each.everything) for each in found.entries] == answer["entries"]
    assert [plain(each.everything) for each in found.diagnoses] == verdict["diagnosis"]
    assert [plain(each.everything) for each in found.episodes] == verdict["episodes"]
    assert (found.root, found.advice, found.setting_to_change) == tuple(
        verdict[name] for name in ("root", "advice", "setting_to_change")
    )
    assert plain(found.known_until) == answer["known_until"]
    assert found.diagnoses[0].setting_to_change == "max.poll.interval.ms, max.poll.records"


def plain(answer: Mapping[str, Any]) -> Any:
    return json.loads(json_text(dict(answer)))


def test_each_instant_has_its_form(ledger: groupledger.Ledger) -> None:
    """Goal: a datetime and a text are one instant, an age counts back from now, and one without a zone is refused."""
    at = datetime(2026, 11, 25, 12, 10, tzinfo=timezone(timedelta(hours=1)))
    assert ledger.owner(GROUP, TOPIC, 2, at) == ledger.owner(GROUP, TOPIC, 2, AT)
    assert ledger.incidents(since=timedelta(days=365_000)) == ledger.incidents()
    with pytest.raises(groupledger.InputError, match="aware datetime"):
        ledger.owner(GROUP, TOPIC, 2, at.replace(tzinfo=None))
    with pytest.raises(groupledger.InputError, match="is not a valid time"):
        ledger.owner(GROUP, TOPIC, 2, "yesterday")


def test_what_is_not_known_is_said(ledger: groupledger.Ledger) -> None:
    """Goal: a list that is empty because nobody has looked is not taken for none."""
    later = END + timedelta(days=1)
    assert "the history is known until 2026-11-25T12:00:00.000Z only" in str(
        ledger.owner(GROUP, TOPIC, 2, later).not_known
    )
    assert ledger.groups().not_known is None
    assert ledger.groups().known_until["topic"] == END
    with pytest.raises(groupledger.NotKnownError):
        ledger.incidents(since=later)


@pytest.mark.parametrize(
    ("ask", "error", "sentence"),
    [
        (lambda place: groupledger.Ledger(place / "nowhere"), groupledger.InputError, "has no tables"),
        (lambda place: groupledger.Ledger(place, "west"), groupledger.UnknownNameError, "There is no cluster west"),
        (lambda place: groupledger.Ledger(place).why("nobody"), groupledger.UnknownNameError, "nobody"),
        (lambda place: groupledger.Ledger(place).incidents("nobody"), groupledger.UnknownNameError, "nobody"),
        (lambda place: groupledger.Ledger(place).incidents(severity="x"), groupledger.InputError, "A severity is"),
        (lambda place: groupledger.Ledger(place).sql("DROP TABLE lag"), groupledger.InputError, "Only queries"),
    ],
)
def test_errors_are_sentences(warehouse: Path, ask: Any, error: type[Exception], sentence: str) -> None:
    """Goal: a wrong question raises one of the errors that the package names."""
    with pytest.raises(error, match=sentence):
        ask(warehouse)


def test_sql(ledger: groupledger.Ledger) -> None:
    """Goal: a value is a parameter, and the answer comes in Arrow's columns."""
    answer = ledger.sql("SELECT count(*) AS n FROM members WHERE group_id = :name", {"name": GROUP})
    assert answer.column_names == ["n"]
    assert answer["n"][0].as_py() > 0


def test_what_is_public() -> None:
    """Goal: each name is there, and is typed; to import the package imports nothing else."""
    for name in groupledger.__all__:
        assert getattr(groupledger, name) is not None
    with pytest.raises(AttributeError):
        groupledger.nothing  # noqa: B018 - it is looked up
    for name, method in inspect.getmembers(groupledger.Ledger, inspect.isfunction):
        if not name.startswith("_"):
            assert method.__doc__, name
            assert method.__annotations__["return"], name
    program = (
        "import sys, groupledger; print([name for name in sys.modules if 'groupledger.' in name or 'arrow' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
