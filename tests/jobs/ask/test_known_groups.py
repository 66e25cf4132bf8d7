"""Goal: a group that only some tables know is reported as that, and never as one that the ledger knows nothing of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from groupledger.jobs.cli.main import main
from tests.jobs.serve.serving import AT, MINUTE, fill, write

if TYPE_CHECKING:
    from pathlib import Path

SILENT, SAMPLED, READ = "silent", "sampled", "read"
AT_2 = "2026-01-01T12:02:00Z"
NO_COMMITS = "is known, and had no committed offsets"
NO_HISTORY = "its history is not made yet: run `groupledger history`"
UNKNOWN = "knows nothing of the group silentt: did you mean silent?"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a warehouse in which one group has a history and commits nothing, one was only sampled, and of one only
    the records were read."""
    folder = tmp_path_factory.mktemp("known")
    fill(folder, "pay", "orders", "pod-b")
    seen = {
        "group_type": "classic",
        "is_alive": True,
        "incarnation": 1,
        "is_simple": False,
        "first_seen_at": AT,
        "last_seen_at": AT,
    }
    write(folder, "groups", {"group_id": SILENT, "kafka_partition": 7, **seen})
    at = AT + MINUTE
    unit = {"topic": "orders", "partition": 0}
    sampled = {"sampled_at": at, "sample_date": at.date(), "flags": [], "status": "ok", "lag": 7}
    write(folder, "lag", {"group_id": SAMPLED, **unit, **sampled})
    of_record = {"kafka_partition": 7, "kafka_timestamp": AT, "ingest_date": AT.date(), "record_type": "offset_commit"}
    of_record |= {"value_version": 3, "is_tombstone": False, "offset_commit": {**unit, "offset": 5}}
    write(
        folder,
        "coordinator_records",
        {**of_record, "group_id": "pay", "kafka_offset": 3},
        {**of_record, "group_id": READ, "kafka_offset": 4},
    )
    return folder


@pytest.mark.parametrize(
    ("question", "code", "answered"),
    [
        (f"offsets {SILENT} --at {AT_2}", 0, f"{SILENT} {NO_COMMITS} at 2026-01-01T12:02:00.000Z"),
        (f"offsets {SILENT} pay --at {AT_2} --format csv", 0, f"{SILENT} {NO_COMMITS}"),
        (f"offsets {SILENT} pay --at {AT_2} --format csv", 0, '"pay",orders,0,5'),
        (f"offsets {READ} --at {AT_2} --format csv", 0, "orders,0,5"),
        (f"lag --group {SILENT}", 0, f"{SILENT} {NO_COMMITS}"),
        (f"lag --group {SILENT} --by group", 0, f"{SILENT} {NO_COMMITS}"),
        (f"lag --group {SAMPLED} --by topic", 0, "orders"),
        (f"lag --group {READ}", 2, NO_HISTORY),
        (f"owner {SILENT} orders 0 --at {AT_2}", 0, "the group's record of then is not known"),
        (f"owner {SAMPLED} orders 0 --at {AT_2}", 0, NO_HISTORY),
        (f"group {SILENT}", 0, "classic, alive"),
        (f"group {READ}", 2, NO_HISTORY),
        (f"why {SILENT} --since 2026-01-01", 0, "nothing happened to silent"),
        (f"why {READ}", 2, NO_HISTORY),
        (f"diff {SILENT} --from {AT_2}", 0, "nothing is different"),
        (f"diff {SAMPLED} --from {AT_2}", 2, NO_HISTORY),
        (f"rebalances --group {SAMPLED}", 2, NO_HISTORY),
        (f"incidents --group {SILENT}", 0, "no incidents"),
        (f"incidents --group {READ}", 2, NO_HISTORY),
        (f"records --group {READ}", 0, READ),
        (f"report --group {SILENT} --since 2025-12-01 --until 2025-12-02", 2, "before the end of the report's period"),
        *((f"{words} {SILENT}t", 2, UNKNOWN) for words in ("incidents --group", "records --group", "lag --group")),
        (f"offsets {SILENT}t --at {AT_2}", 2, UNKNOWN),
    ],
)
def test_a_known_group(warehouse: Path, tmp_path: Path, question: str, code: int, answered: str) -> None:
    """Goal: each question reports what the ledger knows about the group, and which command reports more."""
    words = [*question.split(), "--warehouse", str(warehouse)]
    if words[0] == "report":
        words += ["--out", str(tmp_path / "page.html")]
    found = CliRunner().invoke(main, words)
    message = " ".join((found.stdout + found.stderr).split())
    assert (found.exit_code, answered in message) == (code, True), message
