"""Goal: commands that run on write lines that a collector can filter, whatever names the lines hold."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any

from groupledger.jobs.process.log_lines import log_lines
from groupledger.jobs.process.output import say, warn
from groupledger.jobs.process.settings import LoggingSettings

if TYPE_CHECKING:
    import pytest

HOSTILE = 'a\nb\x1b[31m"\u202e'


def begin(cluster: str | None = None, **settings: Any) -> None:
    log_lines(LoggingSettings.model_validate({"format": "text", "level": "info", **settings}), cluster)


def test_text(capfd: pytest.CaptureFixture[str]) -> None:
    begin("east")
    say(HOSTILE)
    warn("late")
    say("of another one", cluster="west")
    lines = capfd.readouterr().err.splitlines()
    times = [re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z ", line) for line in lines]
    assert all(times)
    assert [line.split(" ", 1)[1] for line in lines] == [
        'INFO east a\\nb\\x1b[31m"\\u202e',
        "WARNING east late",
        "INFO west of another one",
    ]


def test_json(capfd: pytest.CaptureFixture[str]) -> None:
    begin(format="json")
    say(HOSTILE)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.isascii()
    fields = json.loads(line)
    assert (fields["level"], fields["cluster"], fields["message"]) == ("INFO", None, HOSTILE)


def test_warnings_alone(capfd: pytest.CaptureFixture[str]) -> None:
    begin(level="warning")
    say("fine")
    warn("late")
    assert [line.split(" ", 1)[1] for line in capfd.readouterr().err.splitlines()] == ["WARNING late"]


def test_plain(capfd: pytest.CaptureFixture[str]) -> None:
    """Goal: a command that somebody waits for prints the text alone, warnings too, and once each."""
    logging.getLogger().addHandler(handler := logging.StreamHandler())
    try:
        say("starting Spark")
        warn("late")
    finally:
        logging.getLogger().removeHandler(handler)
    assert capfd.readouterr().err == "starting Spark\nlate\n"
