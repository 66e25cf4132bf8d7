"""`groupledger protocols`: scripts by name and by file, the table, JSON, and the page with its lanes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from groupledger.coordinator.protocols.compare import PROTOCOLS, compare
from groupledger.coordinator.protocols.script import SCRIPTS, script_of
from groupledger.jobs.cli.main import main
from groupledger.jobs.cli.protocols import COLUMNS, cells
from groupledger.jobs.protocols.page import page

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "<script>alert(1)</script>"
SCRIPT = f"""
topics: {{"{HOSTILE}": 4}}
members: [a, "{HOSTILE}"]
events:
  - {{at_ms: 60000, do: slow, member: a, for_ms: 320000}}
  - {{at_ms: 61000, do: join, member: c}}
  - {{at_ms: 62000, do: grow, topic: "{HOSTILE}", partitions: 70}}
"""


def test_a_table_and_json() -> None:
    """Goal: each protocol has a row in the table and a line of JSON, with the same numbers."""
    ran = CliRunner().invoke(main, ["protocols", "--script", "crash", "--seed", "2"])
    assert ran.exit_code == 0
    outcomes = compare(SCRIPTS["crash"], 2)
    for outcome in outcomes:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(outcome.protocol))
        shown = ["-" if cell is None else str(cell) for cell in cells(outcome)[1:]]
        assert shown == line.removeprefix(outcome.protocol).split()
    output = CliRunner().invoke(main, ["protocols", "--script", "crash", "--seed", "2", "--json"]).stdout
    lines = [json.loads(line) for line in output.splitlines()]
    assert [line["protocol"] for line in lines] == list(PROTOCOLS)
    assert [line["unowned_partition_ms"] for line in lines] == [each.cost.unowned_ms for each in outcomes]
    assert [line["conflicts"] is None for line in lines] == [not name.startswith("zookeeper") for name in PROTOCOLS]


def test_a_script_file_and_its_page(tmp_path: Path) -> None:
    """Goal: a file is played, and its names are text on the page, whatever they are; a page needs nothing else."""
    (tmp_path / "mine.yaml").write_text(SCRIPT)
    out = tmp_path / "page.html"
    ran = CliRunner().invoke(main, ["protocols", "--script", str(tmp_path / "mine.yaml"), "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    text = out.read_text()
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"<script|src=|href=|url\(", text)
    assert text.count("<svg viewBox") == len(PROTOCOLS)
    assert "6 more partitions are counted and not drawn" in text


def test_lanes() -> None:
    """Goal: bars cover who consumed what on one axis, and two at once are marked."""
    event = {"do": "slow", "member": "a", "at_ms": 60_000, "for_ms": 320_000}
    join = {"do": "join", "member": "c", "at_ms": 61_000}
    script = script_of("s", {"topics": {"t": 2}, "members": ["a", "b"], "events": [event, join], "until_ms": 500_000})
    (outcome,) = compare(script, names=["consumer (4.2)"])
    text = page(script, [outcome], [cells(outcome)], COLUMNS)
    (drawn,) = re.findall(r"<svg viewBox.*?</svg>", text, re.DOTALL)
    svg = ET.fromstring(drawn)  # noqa: S314 - our own page
    bars = [rect for rect in svg.iter("rect") if rect.get("class", "").startswith("owner")]
    drawn_intervals = [each for each in outcome.intervals if each.to_ms > 40_000]
    assert len(bars) == len(drawn_intervals)
    assert any(rect.get("class") == "two" for rect in svg.iter("rect"))
    assert all(200 <= float(rect.get("x", 0)) <= 1_128 for rect in svg.iter("rect"))
    assert {line.findtext("title") for line in svg.iter("line")} == {"60 s: a: slow for 320 s", "61 s: c: join"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("events: []", "needs topics"),
        (None, "There is no script"),
        ("[1]", "key: value"),
        ("topics: {t: 1}\nevents: [{at_ms: 1, do: leave, member: x}]", "x is not there"),
        ("topics: {t: 1}\n  events", "YAML"),
    ],
)
def test_scripts_that_are_none(tmp_path: Path, text: str | None, message: str) -> None:
    """Goal: a script that can't be found, read or played is refused in a sentence, with exit code 2."""
    file = tmp_path / "mine.yaml"
    if text is not None:
        file.write_text(text)
    ran = CliRunner().invoke(main, ["protocols", "--script", str(file)])
    assert ran.exit_code == 2
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr
