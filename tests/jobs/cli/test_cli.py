"""Goal: the command line answers at once, names what is wrong in a sentence, and keeps its exit codes."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from groupledger.jobs.cli.main import main


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.output


@pytest.mark.parametrize(
    "command", ["ingest", "history", "pipeline", "validate", "capture", "records", "simulate", "demo"]
)
def test_help(command: str) -> None:
    """Goal: every command explains itself."""
    code, text = run(command, "--help")
    assert code == 0
    assert "Usage:" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ingest", "--warehouse", "w"], "Give either --bootstrap-servers or --capture."),
        (["pipeline", "--warehouse", "w"], "Give either --bootstrap-servers or --capture."),
        (["ingest", "--warehouse", "w", "--capture", "c", "--continuous"], "A capture has an end"),
        (["ingest", "--capture", "c"], "Missing option '--warehouse'"),
        (["ingest", "--warehouse", "w", "--capture", "c", "--conf", "none.yaml"], "none.yaml can't be read"),
        (["ingest", "--warehouse", "w", "--capture", "c", "--cluster", "../x"], "cluster: String should match"),
        (["records", "--warehouse", "w", "--limit", "0"], "Invalid value for '--limit'"),
        (["nothing"], "No such command 'nothing'"),
    ],
)
def test_wrong_usage(arguments: list[str], sentence: str) -> None:
    """Goal: exit code 2 and the reason, without a traceback and before Spark is started."""
    code, text = run(*arguments)
    assert code == 2
    assert sentence in text
    assert "Traceback" not in text


def test_options_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: an option that is not given is looked for in the environment by its own name; what is given wins."""
    monkeypatch.setenv("GROUPLEDGER_WAREHOUSE", "w")
    monkeypatch.setenv("GROUPLEDGER_CAPTURE", "c")
    monkeypatch.setenv("GROUPLEDGER_CLUSTER", "../x")
    assert "cluster: String should match" in run("ingest")[1]
    assert "A capture has an end" in run("ingest", "--continuous")[1]
    assert "none.yaml can't be read" in run("ingest", "--cluster", "y", "--conf", "none.yaml")[1]
    names = {
        option.envvar
        for command in main.commands.values()
        for option in command.params
        if isinstance(option, click.Option) and option.expose_value
    }
    assert {"GROUPLEDGER_BOOTSTRAP_SERVERS", "GROUPLEDGER_CONF", "GROUPLEDGER_METRICS_PORT"} < names
    assert None not in names


def test_the_command_line_does_not_load_spark() -> None:
    """Goal: `--help` answers at once; nothing heavy is imported before a command needs it."""
    heavy = "{'pyspark', 'pyarrow', 'great_expectations', 'kafka', 'pandas'} & set(sys.modules)"
    code = f"import sys, groupledger.jobs.cli.main; print(sorted({heavy}))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
