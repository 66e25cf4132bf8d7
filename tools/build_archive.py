"""Builds `build/groupledger.zip`, the code that spark-submit ships to a cluster (`--py-files`).

A wheel would do for the driver, but Spark's workers only take archives that are called .zip or .egg.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "groupledger"


def build(target: Path) -> Path:
    """Builds the archive. The same tree gives the same bytes, so that builds can be compared."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # The package's folders are links (groupledger/__init__.py), which rglob does not follow.
    walked = os.walk(ROOT / PACKAGE, followlinks=True)
    files = sorted(Path(folder) / name for folder, _, names in walked for name in names)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            if "__pycache__" not in path.parts:
                name = zipfile.ZipInfo(path.relative_to(ROOT).as_posix())
                archive.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "groupledger.zip"))
