"""`groupledger members`: the members of all groups, or of some, at an instant, with how many partitions each had.

A member is present from the first record of its group that names it to the first that does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.ask.places import broker_names

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

COLUMNS = (
    *("group_id", "member_id", "client_id", "client_host", "group_instance_id", "group_type", "joined_at"),
    "partitions",
)
# Columns that a narrow terminal can leave out, in this order.
OPTIONAL = ("group_type", "group_instance_id", "joined_at", "member_id", "client_host")
TENURE = (
    *("group_id", "incarnation", "member_id", "client_id", "client_host", "group_instance_id", "group_type"),
    *("joined_at", "left_at", "is_start_known"),
)
HELD = ("group_id", "incarnation", "member_id", "valid_from")
# Of each table the rows that go on, and those that ended after the instant.
QUERY = """
WITH tenures AS (FROM open_members UNION ALL FROM ended_members),
held AS (
    SELECT group_id, incarnation, unnest(list_concat([member_id], other_member_ids)) AS member_id, valid_from
    FROM (FROM open_assignments UNION ALL FROM ended_assignments)
    UNION ALL
    SELECT group_id, incarnation, member_id, valid_from
    FROM (FROM open_share_assignments UNION ALL FROM ended_share_assignments)
),
counted AS (
    SELECT group_id, incarnation, member_id, count(*) AS partitions FROM held WHERE valid_from <= $at GROUP BY ALL
)
SELECT tenures.*, coalesce(partitions, 0) AS partitions
FROM tenures
LEFT JOIN counted USING (group_id, incarnation, member_id)
WHERE joined_at <= $at
ORDER BY group_id, member_id
"""


def members(
    tables: ClusterRows, at: datetime, *, group: str | None = None, client: str | None = None, host: str | None = None
) -> list[Answer]:
    """Returns a row for each member that was present at an instant, with its number of partitions; only those of a
    group, with a client id, or at a host, if these are given. `host` may be given with or without the slash that
    brokers put before it."""
    of_group: list[Filter] = [] if group is None else [("group_id", "=", group)]
    of_member = list(of_group)
    if client is not None:
        of_member.append(("client_id", "=", client))
    if host is not None:
        of_member.append(("client_host", "in", broker_names(host)))
    scans = {}
    for table, end, filters, columns in (
        ("members", "left_at", of_member, TENURE),
        ("assignments", "valid_to", of_group, (*HELD, "other_member_ids")),
        ("share_assignments", "valid_to", of_group, HELD),
    ):
        steps: dict[str, list[Filter]] = {"open": [], "ended": [(end, ">", at)]}
        for name, of_step in steps.items():
            is_open = ("is_open", "=", int(name == "open"))
            scans[f"{name}_{table}"] = tables.scan_if_any(table, is_open, *of_step, *filters, columns=columns)
    return tables.query(QUERY, {"at": at}, **scans)
