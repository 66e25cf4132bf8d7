"""Goal: a command uses the allocator of the C library, which gives back what is free."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import contextlib
from groupledger.jobs.cli.main import main
with contextlib.suppress(SystemExit):
    main(["groups", "--help"])
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""


def test_a_command_chooses_the_allocator() -> None:
    answer = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "system"
