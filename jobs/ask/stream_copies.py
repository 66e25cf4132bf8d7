"""Determines which members of a streams group keep copies of tasks: standbys, and warm-ups that are to take a task
over.

The member with the active task owns the partitions that the task reads, and is reported as their owner. A copy owns
nothing, and several members may keep one.
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING

from groupledger.schemas.words import TaskRole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

COLUMNS = ("member_id", "subtopology", "partition", "role", "valid_from", "valid_to")


def copies_now(tables: ClusterRows, name: str) -> dict[str, str]:
    """Returns the copies of each present member that has any, as text: `standby 0_1 0_2, warmup 1_0`."""
    return _in_words(tables.rows_if_any("stream_tasks", ("group_id", "=", name), ("is_open", "=", 1), columns=COLUMNS))


def copies_at(tables: ClusterRows, name: str, at: datetime) -> dict[str, str]:
    """Returns the same as `copies_now`, for an instant."""
    rows = tables.rows_if_any("stream_tasks", ("group_id", "=", name), ("valid_from", "<=", at), columns=COLUMNS)
    return _in_words(row for row in rows if row["valid_to"] is None or at < row["valid_to"])


def _in_words(tasks: Iterable[Answer]) -> dict[str, str]:
    copies: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for task in sorted(tasks, key=itemgetter("role", "subtopology", "partition")):
        if task["role"] != TaskRole.ACTIVE:
            copies[task["member_id"]][task["role"]].append(f"{task['subtopology']}_{task['partition']}")
    return {
        member_id: ", ".join(f"{role} {' '.join(names)}" for role, names in of_member.items())
        for member_id, of_member in sorted(copies.items())
    }
