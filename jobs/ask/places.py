"""Finds groups by the topics that they own, and by the clients and hosts of their members, now and in the last week."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import last_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter

TOPIC, CLIENT, HOST = "topic", "client", "host"
PLACED = ("members", "assignments", "share_assignments")
RECENT = timedelta(days=7)
# By the word in an address: the table and the column.
COLUMNS = {
    TOPIC: (("assignments", "topic", "valid_to"), ("share_assignments", "topic", "valid_to")),
    CLIENT: (("members", "client_id", "left_at"),),
    HOST: (("members", "client_host", "left_at"),),
}
Places = dict[str, dict[str, set[str]]]


def places(tables: ClusterRows) -> Places:
    """Returns the groups of each topic, client and host, by the kind of place and its name."""
    last = last_known(tables)
    found: Places = {}
    for kind, sources in COLUMNS.items():
        of_names: defaultdict[str, set[str]] = defaultdict(set)
        for table, column, end in sources:
            steps: Sequence[tuple[Filter, ...]] = [(("is_open", "=", 1),)]
            if last is not None:
                steps = [*steps, (("is_open", "=", 0), (end, ">=", last - RECENT))]
            for filters in steps:
                rows = tables.scan_if_any(table, *filters, columns=("group_id", column))
                query = f"SELECT DISTINCT group_id, {column} AS name FROM named WHERE {column} IS NOT NULL"  # noqa: S608 - ours
                for row in tables.query(query, named=rows):
                    of_names[host_name(row["name"]) if kind == HOST else row["name"]].add(row["group_id"])
        found[kind] = dict(of_names)
    return found


def host_name(client_host: str) -> str:
    """Returns a host without the slash that the broker puts before an address."""
    return client_host.lstrip("/")


def broker_names(host: str) -> list[str]:
    """Returns the forms in which the broker may have written a host."""
    return [host_name(host), f"/{host_name(host)}"]


def like(among: Places, text: str, most: int) -> list[tuple[str, str, int]]:
    """Returns up to `most` places whose names contain a text, in any case of letters: kind, name and number of groups.
    Those with the most groups come first."""
    wanted = text.lower()
    names = [
        (kind, name, len(groups))
        for kind, of_names in among.items()
        for name, groups in of_names.items()
        if wanted in name.lower()
    ]
    return sorted(names, key=lambda each: (-each[2], each[0], each[1]))[:most]
