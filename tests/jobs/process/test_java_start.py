"""Goal: a JVM that does not start is reported with how it ended, and what it wrote reaches the reader once, unchanged.

A script takes the place of Spark's launcher, which becomes the JVM.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.java_start import launched, why_it_ended
from groupledger.jobs.process.outside import explain
from groupledger.jobs.process.signals import ending_in_time, signals_wait

if TYPE_CHECKING:
    from pathlib import Path

TRACE = """
cat >&2 <<'END'
Exception in thread "main" java.lang.IllegalArgumentException: no such option
	at org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
	... 8 more
END
exit 3
"""


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the place of the script that pyspark starts."""
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return script


def sentence(launcher: Path, script: str) -> str:
    launcher.write_text(f"#!/bin/bash\n{script}\n")
    launcher.chmod(0o755)
    with pytest.raises(OutsideError) as failed:
        launched(None)
    assert explain(failed.value) is failed.value
    return str(failed.value)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (TRACE, "it ended with exit code 3, and what it wrote stands above. Where that is about memory, free memory"),
        ("kill -9 $$", "SIGKILL ended it, as the system does when memory is short: free memory"),
        ("kill -15 $$", "SIGTERM ended it. Find out who sent the signal"),
    ],
    ids=["exception", "killed", "stopped"],
)
def test_how_it_ended(launcher: Path, script: str, said: str) -> None:
    """Goal: the exit code or the signal is in the sentence, with what to do."""
    found = sentence(launcher, script)
    assert found.startswith("Java could not be started: ")
    assert said in found


def test_what_it_wrote_is_shown(launcher: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Goal: all that the JVM writes on standard error is on ours."""
    sentence(launcher, TRACE)
    assert capfd.readouterr().err.splitlines() == TRACE.splitlines()[2:5]


def test_unknown_ends() -> None:
    """Goal: a signal that Python has no name for, and an end that nobody saw, have a sentence, too."""
    assert "signal 99 ended it" in why_it_ended(-99)
    assert "exit code None" not in why_it_ended(None)


def test_a_signal_for_all(launcher: Path) -> None:
    """Goal: a supervisor that stops the whole process group, and so the JVM that starts, has stopped the command: its
    exit code is the signal's."""
    launcher.write_text("#!/bin/bash\nkill -15 $$\n")
    launcher.chmod(0o755)

    def start() -> None:
        with ending_in_time(print), signals_wait():
            signal.raise_signal(signal.SIGTERM)
            launched(None)

    with pytest.raises(SystemExit) as ended:
        start()
    assert ended.value.code == 143
