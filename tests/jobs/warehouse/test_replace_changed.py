"""Goal: a table whose rows are all computed anew is written as far as they differ."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.warehouse.delta_log import added_by, dataset
from groupledger.jobs.warehouse.upsert import replace_changed
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.incidents import INCIDENTS
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from groupledger.jobs.warehouse.ledger import Ledger

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def incident(number: int, seen: int) -> dict[str, Any]:
    return {
        "cluster": "test",
        "incident_id": f"i-{number}",
        "group_id": None if number % 7 == 0 else f"g-{number}",
        "last_seen_at": AT + timedelta(minutes=seen),
        "partitions": [{"topic": "t", "partition": seen % 3}] if number % 2 else None,
        "confidence": 0.5,
        "is_open": seen > 0,
    }


def as_rows(found: dict[int, int]) -> pa.Table:
    rows = [incident(number, seen) for number, seen in found.items()]
    return pa.Table.from_pylist(rows, arrow_schema(INCIDENTS.schema))


def content(ledger: Ledger) -> list[str]:
    return sorted(map(repr, ledger.arrow(INCIDENTS).to_pylist()))


def test_any_changes(tmp_path: Path) -> None:
    """Goal: rows that come, change and go, in any order: the table is as if it had been replaced, another cluster's
    rows stay, and where nothing differs there is no commit."""
    random = Random(5)
    with (
        open_test_ledger(cast("Any", None), tmp_path) as ledger,
        open_test_ledger(cast("Any", None), tmp_path, "other") as other,
    ):
        ledger.create(INCIDENTS)
        of_other = as_rows({1: 1}).set_column(0, "cluster", pa.array(["other"]))
        other.create(INCIDENTS)
        assert replace_changed(other, INCIDENTS, of_other) == 1
        found: dict[int, int] = {}
        for _ in range(8):
            found = {number: seen for number, seen in found.items() if random.random() > 0.2}
            found |= {random.randrange(40): random.randrange(4) for _ in range(10)}
            rows = as_rows(found)
            assert replace_changed(ledger, INCIDENTS, rows) > 0
            assert content(ledger) == sorted(map(repr, rows.to_pylist()))
            version = ledger.version(INCIDENTS)
            assert replace_changed(ledger, INCIDENTS, rows) == 0
            assert ledger.version(INCIDENTS) == version
        assert replace_changed(ledger, INCIDENTS, as_rows({})) == len(found)
        assert content(ledger) == []
        assert other.arrow(INCIDENTS).num_rows == 1


def test_what_stays_is_written_once(tmp_path: Path) -> None:
    """Goal: a pass that changes one row beside a thousand unchanged ones writes that one."""
    with open_test_ledger(cast("Any", None), tmp_path) as ledger:
        ledger.create(INCIDENTS)
        closed = dict.fromkeys(range(1_000), 0)
        replace_changed(ledger, INCIDENTS, as_rows({**closed, 1_000: 1}))
        replace_changed(ledger, INCIDENTS, as_rows({**closed, 1_000: 2}))  # which parts it from the others
        assert replace_changed(ledger, INCIDENTS, as_rows({**closed, 1_000: 3})) == 1
        added = added_by(ledger.storage, INCIDENTS, ledger.version(INCIDENTS))
        assert added is not None
        assert list(added.files.values()) == [1]
        assert dataset(str(tmp_path), INCIDENTS).count_rows() == 1_001


def test_a_scope(tmp_path: Path) -> None:
    """Goal: of some groups, and of no group, rows come, change and go; all others stay, whatever file they are in."""
    random = Random(7)
    with open_test_ledger(cast("Any", None), tmp_path) as ledger:
        ledger.create(INCIDENTS)
        found = dict.fromkeys(range(40), 0)
        replace_changed(ledger, INCIDENTS, as_rows(found))
        for seen in range(1, 12):
            meant = {*random.sample(range(40), 6), *(number for number in range(40) if number % 7 == 0)}
            now = {number: random.choice((0, seen)) for number in meant if random.random() > 0.2}
            found = {number: at for number, at in found.items() if number not in meant} | now
            of_groups = pc.field("group_id").isin([f"g-{number}" for number in meant])
            replace_changed(ledger, INCIDENTS, as_rows(now), of_groups | pc.field("group_id").is_null())
            assert content(ledger) == sorted(map(repr, as_rows(found).to_pylist()))
