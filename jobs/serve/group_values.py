"""Converts a group's rows into the values for the templates of its page: its picture, and the answer at an instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.ask.owners import owner_rows
from groupledger.jobs.serve.group_rows import LAG_PARTS
from groupledger.jobs.serve.lanes import draw
from groupledger.jobs.serve.readers import for_readers
from groupledger.schemas.words import GroupType, Ownership
from groupledger.transforms.coverage.rules.coverage_at import why_unknown
from groupledger.transforms.lag.rules import LagRow, Rollup, rollup

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.serve.axis import Window
    from groupledger.jobs.serve.group_rows import GroupRows, Standing


# Of what has a pattern in place of a colour, its id in the page.
PATTERNS = {Ownership.UNKNOWN: "p-unknown", Ownership.RESERVED: "p-reserved", Ownership.ENDED: "p-ended"}
OWNERS_MAX = 500
"""A page of 100,000 partitions has 33 MB, and takes a browser minutes."""


def group_values(rows: GroupRows, window: Window, at: datetime, rebalances_max: int) -> dict[str, Any]:
    """Returns the values for the templates of a group, by name."""
    history = rows.history
    unknown = why_unknown(history.coverage, at)
    owners = list(owner_rows(history, at))
    return {
        "patterns": PATTERNS,
        "name": history.group["group_id"],
        "group": history.group,
        "known_until": max((row["to_time"] for row in history.coverage if row["to_time"] is not None), default=None),
        "at": at,
        "since": window.since,
        "until": window.until,
        "unknown": unknown and for_readers(unknown),
        "generation": history.generation_at(at),
        "owners": most_behind(owners, rows.standing),
        "owners_left_out": max(len(owners) - OWNERS_MAX, 0),
        "reserved": Ownership.RESERVED,
        "copies": rows.copies,
        "troubles": rows.troubles,
        "is_share": history.group["group_type"] == GroupType.SHARE,
        "lag": rows.standing,
        "sampled_at": rows.sampled_at,
        "standing": (standing := standing_of(rows)),
        "in_status": sum(standing is not None and row.status == standing.status for row in sampled(rows)),
        "before": rows.before,
        "after": rows.after,
        "rebalances": rows.rebalances[::-1][:rebalances_max],
        "rebalances_left_out": max(len(rows.rebalances) - rebalances_max, 0),
        "incidents": rows.incidents[::-1],
        "what_ifs": rows.what_ifs,
        "lag_points": rows.lag_points[::-1],
        "lag_parts": LAG_PARTS,
        "drawing": draw(rows, window, at),
    }


def standing_of(rows: GroupRows) -> Rollup | None:
    """Returns the sums of the group's lag at the instant; None if no partition has a lag status."""
    return next(iter(rollup(sampled(rows))), None)


def sampled(rows: GroupRows) -> list[LagRow]:
    """Returns the rows of lag at the instant that have a lag status. Rows of a share group never have one."""
    return [row for row in rows.standing.values() if isinstance(row, LagRow) and row.status]


def most_behind(owners: list[Answer], standing: Standing) -> list[Answer]:
    """Returns those of `owners` that a page shows, in the given order: all, or if there are more than OWNERS_MAX, those
    of the partitions with the most lag."""
    if len(owners) <= OWNERS_MAX:
        return owners

    def lag(number: int) -> int:
        row = standing.get((owners[number]["topic"], owners[number]["partition"]))
        lag_of_row = None if row is None else row["lag"] if isinstance(row, dict) else row.lag
        return -1 if lag_of_row is None else lag_of_row

    chosen = sorted(range(len(owners)), key=lag, reverse=True)[:OWNERS_MAX]
    return [owners[number] for number in sorted(chosen)]
