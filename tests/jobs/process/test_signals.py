"""Goal: a job that is asked to stop ends by itself, in time, and its exit code says that it was stopped."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.jobs.demo.simulate import simulate
from groupledger.jobs.process.signals import StopOnSignal, ending_in_time

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
BOTH = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
ENDED = "ended at once"
IMPORTS = """
import sys, threading
class Slow:
    def find_spec(self, name, *_):
        if name == "groupledger.jobs.cli.main":
            print("ready", file=sys.stderr, flush=True)
            threading.Event().wait()
sys.meta_path.insert(0, Slow())
from groupledger.jobs.cli.script import run
run()
"""
HEAD = """
import ctypes, threading, time
from groupledger.jobs.process import signals
from groupledger.jobs.process.output import say
signals.END_WITHIN_S, signals.SAME_WISH_S = {within_s}, {same_s}
with signals.ending_in_time(say):
"""
WAITS = "    say('ready'); threading.Event().wait()"
IGNORES = """
    with signals.StopOnSignal() as stop:
        say('ready'); stop.wait(); say('stopping'); threading.Event().wait()
"""
ENDS = """
    with signals.StopOnSignal() as stop:
        say('ready'); stop.wait(); time.sleep(1); say('done')
"""
# A mutex that is locked twice: a call into C that no signal interrupts, as of a library at work.
IN_A_LIBRARY = """
    mutex, lock = ctypes.create_string_buffer(128), ctypes.CDLL(None).pthread_mutex_lock
    with signals.StopOnSignal():
        lock(mutex); say('ready'); lock(mutex)
"""


def stopped_pass(number: signal.Signals, error: Exception | None = None) -> None:
    with StopOnSignal() as stop:
        signal.raise_signal(number)
        assert stop.is_set()
        if error is not None:
            raise error


@BOTH
def test_a_pass_that_is_stopped(number: signal.Signals, code: int) -> None:
    """Goal: a pass that was cut short is no success for its scheduler; an error that the pass itself raises comes
    first."""
    with pytest.raises(SystemExit) as ended:
        stopped_pass(number)
    assert ended.value.code == code
    with pytest.raises(ValueError, match="of the job"):
        stopped_pass(number, ValueError("of the job"))


def test_what_nobody_stops() -> None:
    """Goal: a pass that ran to its end is a success, and leaves the handlers as they were."""
    before = signal.getsignal(signal.SIGTERM)
    with StopOnSignal() as stop:
        assert not stop.is_set()
    assert signal.getsignal(signal.SIGTERM) is before


@BOTH
def test_what_is_broken_off(number: signal.Signals, code: int) -> None:
    """Goal: either signal ends the block by SystemExit, for which py4j prints nothing in the midst of a call to
    Java."""
    with pytest.raises(SystemExit) as ended, ending_in_time(print):
        signal.raise_signal(number)
    assert ended.value.code == code


def run_program(work: str, *numbers: signal.Signals, within_s: float = 60, same_s: float = 0) -> tuple[int, str]:
    """Runs a program until it is ready, and sends it the signals, each when it has printed something; returns the exit
    code and the printed lines."""
    return run_text(HEAD.format(within_s=within_s, same_s=same_s) + work, *numbers)


def run_text(program: str, *numbers: signal.Signals) -> tuple[int, str]:
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    with process:
        assert process.stderr is not None
        said = ""
        for number in numbers:
            said += process.stderr.readline()
            process.send_signal(number)
        said += process.stderr.read()
    return process.returncode, said


@BOTH
def test_what_does_not_end(number: signal.Signals, code: int) -> None:
    """Goal: work that takes no notice, and a call into a library that no signal interrupts, are ended when their time
    is over, with the exit code of the signal and one sentence."""
    for work, words in ((IGNORES, ["ready", "stopping"]), (IN_A_LIBRARY, ["ready"])):
        ended, said = run_program(work, number, within_s=0.2)
        assert ended == code
        *before, sentence = said.splitlines()
        assert (before, ENDED in sentence) == (words, True)


@BOTH
def test_a_second_signal(number: signal.Signals, code: int) -> None:
    """Goal: the second one ends the process at once."""
    ended, said = run_program(IGNORES, number, number)
    assert (ended, ENDED in said) == (code, True)


def test_two_signals_of_one_wish() -> None:
    """Goal: `timeout` sends two, to the process and to its group; the job ends in order all the same."""
    program = HEAD.format(within_s=60, same_s=0.9) + ENDS
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    with process:
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == "done\n"
    assert process.returncode == 143


@BOTH
def test_while_python_imports(number: signal.Signals, code: int) -> None:
    """Goal: before there is anything to end, a signal ends the command with its code, and without a traceback."""
    assert run_text(IMPORTS, number) == (code, "ready\n")


def test_what_has_nothing_to_bring_to_an_end() -> None:
    """Goal: SIGTERM breaks any other command off as Ctrl-C does, with the code that says so."""
    assert run_program(WAITS, signal.SIGTERM) == (143, "ready\n")


@BOTH
@pytest.mark.parametrize(
    ("arguments", "ready"),
    [
        (("coordinator", "--listen", "127.0.0.1:0", "--topics", "orders:2"), r"bootstrap\.servers="),
        (("serve", "--warehouse", "none", "--listen", "127.0.0.1:0"), "groupledger serves"),
    ],
    ids=["coordinator", "serve"],
)
def test_a_server(arguments: tuple[str, ...], ready: str, number: signal.Signals, code: int) -> None:
    """Goal: a server ends in order when it is asked to, and its exit code says so."""
    command = [sys.executable, "-m", "groupledger.jobs.cli.main", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    with process:
        assert process.stderr is not None
        assert re.search(ready, process.stderr.readline())
        process.send_signal(number)
        assert process.stderr.read() == ""
    assert process.returncode == code


def test_while_spark_starts(tmp_path: Path) -> None:
    """Goal: a signal that comes while the JVM comes up ends a command in time, with its code, in silence, and with
    nothing in the warehouse. `python -m bench.signals` has other commands and moments."""
    simulate(SCENARIOS["crash"], 1, tmp_path / "sim", 1, None, print)
    started = []
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        warehouse = tmp_path / number.name
        command = [sys.executable, "-m", "groupledger.jobs.cli.main", "ingest", "--warehouse", str(warehouse)]
        capture = ["--capture", str(tmp_path / "sim" / "capture")]
        process = subprocess.Popen([*command, *capture], stderr=subprocess.PIPE, text=True, cwd=ROOT)
        started.append((process, warehouse, number, code))
    for process, _, number, _ in started:
        assert process.stderr is not None
        assert process.stderr.readline() == "starting Spark\n"
        process.send_signal(number)
    for process, warehouse, _, code in started:
        with process:
            assert process.stderr is not None
            said = process.stderr.read()
        assert process.returncode == code
        assert "Traceback" not in said
        assert "Exception" not in said
        assert not [*warehouse.rglob("*.parquet")]
