"""Reads the groups on which a step fails: the open rows of `troubles`."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer


def open_troubles(tables: ClusterRows, names: Sequence[str] | None = None) -> list[Answer]:
    """Returns the open rows of `troubles`, of some groups or of all, in the order of group and step."""
    of_groups = () if names is None else (("group_id", "in", names),)
    found = tables.rows_if_any("troubles", ("is_open", "=", 1), *of_groups)
    return sorted(found, key=itemgetter("group_id", "step"))
