"""Goal: with too little memory to begin, the command says so in one sentence, with the exit code of the outside."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from groupledger.jobs.cli.script import ADDRESS_SPACE_MIN_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="macOS knows no such limit")
@pytest.mark.parametrize("kib", [100_000, 400_000, (ADDRESS_SPACE_MIN_BYTES >> 10) - 1])
def test_the_limit_of_the_address_space(kib: int) -> None:
    """Goal: no library's own last words, no traceback, and no exit code of findings."""
    program = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({kib << 10}, resource.RLIM_INFINITY));"
        " from groupledger.jobs.cli.script import run; run()"
    )
    assert resource.getrlimit(resource.RLIMIT_AS)[1] == resource.RLIM_INFINITY
    run = subprocess.run([sys.executable, "-c", program, "groups"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (3, ""), run.stderr
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"groupledger: The limit of memory (`ulimit -v {kib}`) is too low")
