"""Goal: rows that another engine wrote into a table do not take the overview away."""

from __future__ import annotations

from datetime import datetime, timezone

from groupledger.jobs.serve.overview_rows import coverage

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def test_a_row_of_nulls_says_nothing() -> None:
    known = {"kafka_partition": 3, "from_offset": 0, "from_time": AT, "completeness": "complete"}
    found = coverage([dict.fromkeys(known), known])
    assert (found["complete"], found["complete_from"], found["holes"]) == (1, AT, [])
