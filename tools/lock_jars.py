"""Makes conf/ivy/*.sha256 again from the JARs that conf/ivy/*.xml name: the last step of `make lock`.

    python -m tools.lock_jars

Ivy fetches every part into an empty folder, so that nothing of an older cache is listed. What has changed is printed:
look at it before it is committed, since from then on these files, and no others, are let in.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from groupledger.jobs.process import jar_hashes
from groupledger.jobs.process.jars import fetch_jars, java_path, shipped_ivy


def main() -> int:
    for part in sorted(path.stem for path in jar_hashes.IVY.glob("*.xml")):
        file = jar_hashes.IVY / f"{part}.sha256"
        before = set(file.read_text().splitlines()) if file.is_file() else set()
        with tempfile.TemporaryDirectory() as folder:
            fetch_jars(java_path(), shipped_ivy(), Path(folder), part)
            text = jar_hashes.written((Path(folder) / part).glob("*.jar"))
        file.write_text(text)
        after = set(text.splitlines())
        changed = [*(f"- {line}" for line in before - after), *(f"+ {line}" for line in after - before)]
        print(f"{file.name}: {len(after)} JARs, {len(changed)} lines changed")
        print("".join(f"{line}\n" for line in sorted(changed, key=lambda line: line.split()[-1])), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
