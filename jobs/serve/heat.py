"""Reads the lag of each partition in a picture: the greatest lag in each of PARTS parts of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.ask.overview_sums import lag_in_parts
from groupledger.jobs.serve.lanes import chosen
from groupledger.jobs.serve.strips import held

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.serve.axis import Window
    from groupledger.jobs.serve.group_rows import GroupRows

PARTS = 96


def heat_of(
    tables: ClusterRows, rows: GroupRows, window: Window
) -> dict[tuple[str, int], list[tuple[datetime, datetime, int, int]]]:
    """Returns, for each partition that the picture draws, its stretches of time. A stretch is a tuple of its beginning,
    its end, the greatest lag in it, and the greatest lag of all drawn partitions in the window."""
    units, name = {*chosen(rows)}, rows.history.group["group_id"]
    parts = lag_in_parts(tables, name, units, (window.since, window.until), PARTS)
    most = max((lag for of_unit in parts.values() for lag in of_unit.values()), default=0)
    lasts = held(parts)
    found = {}
    for unit, of_unit in parts.items():
        places = sorted(of_unit)
        found[unit] = [
            (window.part(place, PARTS), window.part(min(following, place + lasts), PARTS), of_unit[place], most)
            for place, following in zip(places, [*places[1:], PARTS], strict=True)
        ]
    return found
