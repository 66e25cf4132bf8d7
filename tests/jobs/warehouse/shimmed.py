"""A process under the shim that counts, holds or fails its system calls; it takes a line, and answers with one."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING

from lab.faults.shim import COUNT, Shim, build_shim

if TYPE_CHECKING:
    from pathlib import Path

ANSWER_S_MAX = 300


class Shimmed:
    """Runs a program, a text of Python, with the folder of its warehouses as argument."""

    def __init__(self, folder: Path, program: str) -> None:
        self.root = folder / "warehouses"
        self.shim = Shim(build_shim(folder), self.root, folder, COUNT)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(self.root)],
            env=os.environ | self.shim.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, text: str) -> None:
        print(text, file=self.process.stdin, flush=True)

    def has_answered(self, seconds: float) -> bool:
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def answer(self) -> str:
        assert self.has_answered(ANSWER_S_MAX)
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, text: str) -> str:
        self.say(text)
        return self.answer()
