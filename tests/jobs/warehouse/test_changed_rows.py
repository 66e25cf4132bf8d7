"""Goal: the groups with other rows are found by what versions added and removed, whatever moved the rows meanwhile."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from groupledger.jobs.warehouse.changed_rows import changed_files, changed_rows, groups_in
from groupledger.jobs.warehouse.upsert import upsert_arrow
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.members import MEMBERS
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from groupledger.jobs.warehouse.ledger import Ledger

GROUPS = [f"g-{number}" for number in range(30)]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_test_ledger(cast("Any", None), tmp_path) as opened:
        opened.create(MEMBERS, COORDINATOR_EVENTS)
        yield opened


def tenures(ledger: Ledger, found: dict[str, int | None]) -> pa.Table:
    """Returns one tenure of each group, with the minute in which it ended."""
    rows = [
        {
            "cluster": ledger.cluster,
            "group_id": group,
            "incarnation": 1,
            "member_id": f"of {group}",
            "from_offset": 1,
            "subscribed_topics": ["a", group],
            "joined_at": instant_of_ms(0),
            "left_at": None if left is None else instant_of_ms(left * 60_000),
            "is_open": int(left is None),
        }
        for group, left in found.items()
    ]
    return pa.Table.from_pylist(rows, arrow_schema(MEMBERS.schema))


def groups_since(ledger: Ledger, version: int) -> set[str] | None:
    files = changed_files(ledger, MEMBERS, version, ledger.version(MEMBERS))
    changed = None if files is None else changed_rows(ledger, MEMBERS, files)
    return None if changed is None else set().union(*map(groups_in, changed))


def test_any_changes(ledger: Ledger) -> None:
    """Goal: rows that come, end, are deleted, or are moved by a merge or a compaction: those groups that changed are
    found, and no others."""
    random = Random(3)
    now: dict[str, int | None] = {}
    for minute in range(1, 25):
        before, version = dict(now), ledger.version(MEMBERS)
        for _ in range(random.randrange(1, 4)):
            some = random.sample(GROUPS, 3)
            # A row that has ended changes no more.
            changed = {group: random.choice((None, minute)) for group in some if now.get(group) is None}
            now |= changed
            upsert_arrow(ledger, MEMBERS, tenures(ledger, changed))
            if random.random() < 0.3:
                ledger.commits.compact(MEMBERS, [], 1 << 30)
            if random.random() < 0.2:
                gone = random.choice(GROUPS)
                now.pop(gone, None)
                ledger.commits.delete(MEMBERS, f"group_id = '{gone}'")
        other = {group for group in GROUPS if (group in now, now.get(group)) != (group in before, before.get(group))}
        assert groups_since(ledger, version) == other
        assert groups_since(ledger, ledger.version(MEMBERS)) == set()


def test_other_clusters_and_appended_lines(ledger: Ledger, tmp_path: Path) -> None:
    def line(cluster: str, group: str) -> pa.Table:
        row = {**dict.fromkeys(COORDINATOR_EVENTS.schema.names), "cluster": cluster, "group_id": group}
        row |= {"source_file": "s", "line_number": 1, "logged_at": instant_of_ms(0)}
        return pa.Table.from_pylist([row], arrow_schema(COORDINATOR_EVENTS.schema))

    version = ledger.version(COORDINATOR_EVENTS)
    with open_test_ledger(cast("Any", None), tmp_path, "other") as other:
        other.commits.append(COORDINATOR_EVENTS, line("other", "x"))
    ledger.commits.append(COORDINATOR_EVENTS, line(ledger.cluster, "y"))
    files = changed_files(ledger, COORDINATOR_EVENTS, version, ledger.version(COORDINATOR_EVENTS))
    assert files is not None
    changed = changed_rows(ledger, COORDINATOR_EVENTS, files)
    assert changed is not None
    assert [groups_in(rows) for rows in changed] == [{"y"}, set()]


def test_where_the_log_or_a_file_is_gone(ledger: Ledger, tmp_path: Path) -> None:
    """Goal: what can't be read any more is not known, and not nothing."""
    upsert_arrow(ledger, MEMBERS, tenures(ledger, {"a": None}))
    version = ledger.version(MEMBERS)
    upsert_arrow(ledger, MEMBERS, tenures(ledger, {"a": 1}))
    assert groups_since(ledger, version) == {"a"}
    files = changed_files(ledger, MEMBERS, version, ledger.version(MEMBERS))
    assert files is not None
    for path in files.removed:
        (tmp_path / MEMBERS.name / path).unlink()
    assert groups_since(ledger, version) is None
    (tmp_path / MEMBERS.name / "_delta_log" / f"{version + 1:020}.json").rename(tmp_path / "aside")
    assert changed_files(ledger, MEMBERS, version, version + 1) is None
