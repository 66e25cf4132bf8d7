"""Goal: the command line answers at once, names what is wrong in a sentence, and keeps its exit codes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from groupledger.jobs.cli.main import main
from groupledger.jobs.cli.options import absolute


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
        (["ingest", "--capture", "c"], "Which warehouse?"),
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
    """Goal: an option that is not given is looked for in the environment by its own name; a given one wins."""
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


PROGRAM = (sys.executable, "-c", "from groupledger.jobs.cli.script import run; run()")
# As users have it: output that is not flushed waits in the process until its end.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def in_a_process(*arguments: str, answer: Path, file_bytes: int = resource.RLIM_INFINITY) -> tuple[int, str]:
    """Runs a command whose answer goes into a file; returns its exit code and its messages."""
    with answer.open("w") as file:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            env=BUFFERED | {"PYTHONDONTWRITEBYTECODE": "1"},  # Python 3.11 would leave half a file of it
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes)),
        )
    return done.returncode, done.stderr


def test_an_answer_that_fills_the_disk(tmp_path: Path) -> None:
    """Goal: a disk that is full of the answer is the outside's failure, and no finding."""
    code, text = in_a_process("simulate", "--list", answer=Path("/dev/full"))
    assert (code, text.count("\n")) == (3, 1)
    assert text.startswith("groupledger: The disk is full")
    code, text = in_a_process("simulate", "--list", answer=tmp_path / "answer", file_bytes=100)
    assert (code, text.count("\n")) == (3, 1)
    assert "A file may not become as large as it must" in text


def _unread() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


HOLDS = {"closed": lambda: None, "full": lambda: os.open("/dev/full", os.O_WRONLY), "unread": _unread}


@pytest.mark.parametrize(
    ("arguments", "of_answer", "of_words", "code"),
    [
        (["--help"], "closed", "closed", 0),
        (["--help"], "unread", "closed", 141),
        (["--help"], "full", "full", 3),
        (["simulate", "--list"], "closed", "closed", 0),
        (["simulate", "--list"], "closed", "unread", 0),
        (["simulate", "--list"], "unread", "unread", 141),
        (["simulate", "--list"], "full", "unread", 3),
        (["groups", "--warehouse", "/none"], "closed", "full", 2),
        (["groups", "--warehouse", "/none"], "unread", "unread", 2),
    ],
)
def test_streams_that_take_nothing(arguments: list[str], of_answer: str, of_words: str, code: int) -> None:
    """Goal: streams that are closed, full or read by nobody never end as a finding or a fault, and no file of ours
    gets the number of one."""
    held = {1: HOLDS[of_answer](), 2: HOLDS[of_words]()}

    def place() -> None:
        for number, source in held.items():
            os.close(number) if source is None else os.dup2(source, number)

    program = [*PROGRAM, *arguments]
    done = subprocess.run(program, check=False, env=BUFFERED, preexec_fn=place, stdin=subprocess.DEVNULL)
    assert done.returncode == code
    for source in held.values():
        if source is not None:
            os.close(source)


def test_no_file_is_a_stream() -> None:
    """Goal: the first files that a process without streams opens have other numbers than theirs."""
    program = (
        "import os, sys; from groupledger.jobs.cli.script import open_all_streams; open_all_streams();"
        " print('lost'); print('lost', file=sys.stderr); sys.exit(os.open('/dev/null', os.O_RDONLY))"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False, preexec_fn=lambda: os.closerange(0, 3))
    assert ended.returncode > 2


@pytest.mark.parametrize("lines", [0, 1])
def test_an_answer_that_nobody_reads(lines: int) -> None:
    """Goal: a command in front of `head` ends quietly, with the code that a shell has for it, and not with that of
    findings; a broken pipe of something else is no such end."""
    code = (
        "from groupledger.jobs.cli.main import main\n"
        "@main.command()\n"
        "def much():\n"
        "    for number in range(200_000): print(number)\n"
        "@main.command()\n"
        "def broken(): raise BrokenPipeError\n"
        "main()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, "much"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        for _ in range(lines):
            process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
    done = subprocess.run([sys.executable, "-c", code, "broken"], capture_output=True, check=False)
    assert (done.returncode, done.stderr.count(b"\n")) == (70, 1)


def test_what_nobody_foresaw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a fault of ours has an exit code of its own and no traceback, and shows no names or values of the data;
    with --debug it shows everything."""

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(main.commands["simulate"], "callback", fail)
    result = CliRunner().invoke(main, ["simulate", "--list"])
    assert result.exit_code == 70
    assert result.output.startswith("groupledger: This is a fault of groupledger (ZeroDivisionError): please report")
    assert result.output.count("\n") == 1
    assert "secret" not in result.output
    result = CliRunner().invoke(main, ["--debug", "simulate", "--list"])
    assert result.exit_code == 70
    assert "ZeroDivisionError: a secret" in result.output


def test_a_library_that_panics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a panic of delta-rs, which is no Exception in Python, ends in a sentence, too."""
    panic = type("PanicException", (BaseException,), {})

    def fail(*_: object, **__: object) -> None:
        raise panic

    monkeypatch.setattr(main.commands["simulate"], "callback", fail)
    result = CliRunner().invoke(main, ["simulate", "--list"])
    assert (result.exit_code, result.output.count("\n")) == (70, 1)


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a command that the user breaks off has the exit code of a signal, and not that of findings."""

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main.commands["simulate"], "callback", fail)
    assert CliRunner().invoke(main, ["simulate", "--list"]).exit_code == 130


def test_places_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: every option for a directory or a URI gives what does not depend on where it is read."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    context, option = click.Context(main), click.Option(["--x"])
    assert absolute(context, option, "../w") == absolute(context, option, "file:../w") == str(tmp_path / "w")
    for place in ("s3a://bucket/w", "hdfs:/w", "dbfs:/w"):
        assert absolute(context, option, place) == place
    assert absolute(context, option, None) is None
    places = {
        (name, each.name)
        for name, command in main.commands.items()
        for each in command.params
        if isinstance(each, click.Option) and each.callback is absolute
    }
    assert {("ingest", "warehouse"), ("ingest", "capture_directory"), ("doctor", "warehouse")} < places
    assert {name for name, option_name in places if option_name == "warehouse"} >= {"sql", "monitor", "report"}
