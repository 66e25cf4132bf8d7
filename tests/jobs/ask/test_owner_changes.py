"""Goal: few words report who took over which partitions at a rebalance, and agree with the intervals of owners."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.owner_changes import owner_changes
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


def interval(partition: int, member_id: str, begin: int, end: int | None, **others: Any) -> dict[str, Any]:
    found = {"cluster": "c", "group_id": "g", "incarnation": 1, "topic": "orders", "partition": partition}
    found |= {"member_id": member_id, "from_offset": begin, "valid_from": AT + begin * MINUTE, "to_offset": end}
    found |= {"is_start_known": True, "is_end_known": None if end is None else True}
    return found | {"valid_to": None if end is None else AT + end * MINUTE} | others


def reported(warehouse: Path, since: int, until: int | None, *rows: dict[str, Any]) -> list[tuple[int, str]]:
    write_deltalake(str(warehouse / "assignments"), pa.Table.from_pylist([*rows], schema_of("assignments")))
    end = None if until is None else AT + until * MINUTE
    found = owner_changes(ClusterRows(str(warehouse), "c"), "g", AT + since * MINUTE, end)
    return [((at - AT) // MINUTE, words) for at, words in found]


def test_takeovers(tmp_path: Path) -> None:
    """Goal: a taken partition is reported with its former owner, and an untaken one with the member that gave it up;
    the same owner in a new interval is no change, and a new incarnation takes from nobody."""
    assert reported(
        tmp_path,
        1,
        None,
        *(interval(partition, "a", 0, 5) for partition in (0, 1, 2)),
        interval(0, "b", 5, None, other_member_ids=["b2"]),
        interval(1, "b", 6, None),
        interval(2, "a", 5, 9),
        interval(3, "c", 5, 7),
        interval(3, "d", 8, None, incarnation=2),
        interval(4, "e", 5, None, group_id="other"),
    ) == [
        (5, "b and b2 took orders 0 from a; c took orders 3"),
        (6, "b took orders 1 from a"),
        (7, "c gave up orders 3"),
        (8, "d took orders 3"),
        (9, "a gave up orders 2"),
    ]


def test_what_is_not_known(tmp_path: Path) -> None:
    """Goal: over a hole nobody took anything from anybody, gave nothing up, and began nothing."""
    assert reported(
        tmp_path,
        0,
        None,
        interval(0, "a", 1, 5, is_start_known=False, is_end_known=False),
        interval(0, "b", 7, 9, is_end_known=False),
        interval(1, "a", 1, 5, is_start_known=False),
        interval(1, "b", 7, None, is_start_known=False),
    ) == [(7, "b took orders 0")]


def test_few_words(tmp_path: Path) -> None:
    """Goal: a change with many members and partitions lists the first of them, and counts the others; changes outside
    of the window are left out."""
    rows = [interval(partition, "many", 3, None) for partition in range(10)]
    rows += [interval(10 + number, f"m{number}", 3, 4) for number in range(5)]
    rows += [interval(20, "late", 4, None)]
    ((at, words),) = reported(tmp_path, 3, 4, *rows)
    assert at == 3
    assert words == (
        "many took orders 0 1 2 3 4 5 6 7 and 2 more; m0 took orders 10; m1 took orders 11;"
        " 3 partitions more changed hands"
    )
    assert list(owner_changes(ClusterRows(str(tmp_path / "nowhere"), "c"), "g", AT, None)) == []
