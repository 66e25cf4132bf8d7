"""Goal: the memory that an import of logs takes does not depend on the length of a line."""

from __future__ import annotations

import gzip
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

LINE_MEGABYTES = 400
# Scans the file and reads it as a task does, with no more than 100 megabytes beyond what the imports take.
READS = """
import resource, sys
from pathlib import Path
from groupledger.jobs.ingest.log_files import SERVER_LOG, SPLITS, LineLimits, read_splits, scan
from groupledger.transforms.logs.coordinator_events import parse_events
from groupledger.transforms.logs.imported_lines import QUARANTINED, ROW
from groupledger.transforms.privacy import Privacy

used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
found = scan(Path(sys.argv[1]), SERVER_LOG, {}, LineLimits(8 << 20, 8 << 30))
lines = read_splits((dict(zip(SPLITS.names, row)) for row in found.rows(found.name)), 8 << 20)
for row in parse_events(lines, "UTC", Privacy(), 8 << 20):
    kept = row[QUARANTINED]
    print(*((kept["line_number"], kept["line_bytes"]) if kept else (row[ROW]["line_number"],)))
"""
ENTRY = (
    b"[2026-02-10 09:45:00,123] INFO [GroupCoordinator id=1] Group g with generation 4 is now empty."
    b" (org.apache.kafka.coordinator.group.GroupMetadataManager)\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_line_longer_than_the_memory(tmp_path: Path, *, is_packed: bool) -> None:
    """Attack: one line of gigabytes, plain or of some kilobytes of gzip, ends the import for want of memory."""
    path = tmp_path / "server.log"
    with gzip.open(path, "wb", compresslevel=1) if is_packed else path.open("wb") as file:
        file.write(ENTRY)
        for _ in range(LINE_MEGABYTES):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + ENTRY)
    ran = subprocess.run([sys.executable, "-c", READS, str(path)], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == ["1", f"2 {(LINE_MEGABYTES << 20) + 1}", "3"]
