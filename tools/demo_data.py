"""Rebuilds the tables of `serve --demo`: plays the demo, and packs its warehouse into the package.

Run it after a change of tables or of the simulator that newcomers should see.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from groupledger.jobs.demo import shipped
from groupledger.jobs.demo.demo import run_demo

SEED = 1


def main(directory: Path | None = None) -> None:
    """Packs the demo of a directory, or one that is played for it."""
    if directory is None:
        with tempfile.TemporaryDirectory() as scratch:
            run_demo(Path(scratch) / "demo", SEED, print)
            main(Path(scratch) / "demo")
        return
    about = json.loads((directory / "simulation" / "scenario.json").read_text())
    ended_at = datetime.fromtimestamp(about["ended_at_ms"] / 1_000, timezone.utc)
    file = Path(shipped.__file__).with_name(shipped.FILE)
    shipped.pack(str(directory / "warehouse"), ended_at, file)
    print(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
