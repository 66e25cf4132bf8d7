"""Goal: a command uses the allocator of the C library, which gives back what is free."""

from __future__ import annotations

import os
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
    others = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    answer = subprocess.run([sys.executable, "-c", PROGRAM], env=others, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "system"
