"""Describes the groups on which a step fails (the table `troubles`), for readers of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.jobs.process.output import Answer

REMEDY = (
    "please file an issue with the reason that `groupledger sql 'SELECT * FROM troubles WHERE is_open = 1'` shows:"
    " their records are kept, and the release that fixes it folds them again"
)


def troubled_groups(rows: Sequence[Answer]) -> str:
    """Returns a clause with the number of groups in trouble and the reason of the first."""
    groups = {row["group_id"] for row in rows}
    first = rows[0]
    is_one = len(groups) == 1
    number = "1 group can't be judged" if is_one else f"{len(groups):,} groups can't be judged"
    example = first["group_id"] if is_one else f"such as {first['group_id']}"
    return f"{number}, {example} ({first['step']}: {first['reason']})"
