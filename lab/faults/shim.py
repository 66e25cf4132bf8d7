"""Loads the shim `system_calls.c` into a process through environment variables, and reads the counts of calls that it
makes."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import InitVar, dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("system_calls.c")
PLACES = ("all", "_delta_log", "_checkpoints", "_groupledger")  # as in the shim
ACTS = ("count", "hold", "once", "stay", "clock", "gone")
COUNTERS = struct.Struct(f"={len(PLACES)}q")
TWIST = struct.Struct("=5q")
PAGE_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class Twist:
    """Describes what the shim does: `act` (see `system_calls.c`) at the `at`-th call of a place. `errno` is the error
    of calls that fail, and `clock_s` is by how many seconds the clock is wrong."""

    act: str = "count"
    place: str = "all"
    at: int = 0
    errno: int = 0
    clock_s: int = 0


COUNT = Twist()


def build_shim(directory: Path) -> Path:
    """Compiles the shim into a directory, and returns the path of the shared library."""
    library = directory / "system_calls.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    return library


@dataclass(frozen=True)
class Shim:
    """The shim of one process that is about to start, or of this process. Its files lie in `folder`, which exists and
    is used by no other shim.

    It counts the calls whose path begins with `root`, which is a folder or the whole path of a file.
    """

    library: Path
    root: Path
    folder: Path
    twist: InitVar[Twist] = COUNT

    def __post_init__(self, twist: Twist) -> None:
        if not self._page.exists():  # or this is a process that runs under the shim, and has the page in its memory
            self._page.write_bytes(bytes(PAGE_BYTES))
        self.begin(twist)

    def begin(self, twist: Twist) -> None:
        """Sets the counts to 0 and the twist to `twist`, even if the process already runs."""
        self.mark.unlink(missing_ok=True)
        self.until.unlink(missing_ok=True)
        places = COUNTERS.pack(*[0] * len(PLACES))
        packed = TWIST.pack(ACTS.index(twist.act), PLACES.index(twist.place), twist.at, twist.errno, twist.clock_s)
        with self._page.open("r+b") as page:  # processes share it: it is neither cut nor replaced
            page.write(places + packed)

    @property
    def _page(self) -> Path:
        return self.folder / "page"

    @property
    def mark(self) -> Path:
        """Returns the path of a file that exists once the shim holds the process."""
        return self.folder / "mark"

    @property
    def until(self) -> Path:
        """Returns the path of a file that ends the hold as soon as somebody creates it."""
        return self.folder / "until"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self.library),
            "FAULT_ROOT": str(self.root),
            "FAULT_PAGE": str(self._page),
            "FAULT_MARK": str(self.mark),
            "FAULT_UNTIL": str(self.until),
        }

    def counts(self) -> dict[str, int]:
        return dict(zip(PLACES, COUNTERS.unpack_from(self._page.read_bytes()), strict=True))
