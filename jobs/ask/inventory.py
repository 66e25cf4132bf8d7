"""`groupledger inventory`: the present members of groups by library, version, protocol and assignor, and what keeps
them from the protocol of KIP-848.

Members and assignors come from the history. Only the brokers' request log has a client's library: the last name that a
client id at a host sent. The library is unknown if no such log is imported, or if hosts are not stored.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import group_row
from groupledger.jobs.ask.places import host_name
from groupledger.schemas.words import GroupType
from groupledger.transforms.inventory.rules.inventory import blockers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

    Software = tuple[str | None, str | None]

COLUMNS = (
    *("group_id", "group_type", "is_classic", "assignor", "library", "version", "members", "static_members"),
    "move_blockers",
)
OPTIONAL = ("group_type", "static_members", "assignor")
MEMBER_COLUMNS = ("group_id", "group_type", "is_classic", "group_instance_id", "client_id", "client_host")
REQUEST_COLUMNS = ("client_id", "client_host", "client_software_name", "client_software_version", "happened_at")
# The last software name that each client sent.
SOFTWARE = """
SELECT
    client_id, client_host,
    max_by({name: client_software_name, version: client_software_version}, happened_at) AS software
FROM requests WHERE client_software_name IS NOT NULL GROUP BY client_id, client_host
"""


def inventory(tables: ClusterRows, name: str | None = None) -> list[Answer]:
    """Returns one row for each combination of group, library and version, protocol and assignor of the present members.
    Rows with `move_blockers`, which keep members from the protocol of KIP-848, come first. Raises UnknownNameError for
    an unknown group."""
    of_group: list[Filter] = []
    if name is not None:
        group_row(tables, name)
        of_group.append(("group_id", "=", name))
    software = _software(tables)
    protocols = {
        row["group_id"]: row
        for row in tables.rows(
            "generations", *of_group, ("is_current", "=", True), columns=("group_id", "protocol", "protocol_type")
        )
    }
    members = tables.rows("members", *of_group, ("is_open", "=", 1), columns=MEMBER_COLUMNS)
    counts, static = Counter[tuple[object, ...]](), Counter[tuple[object, ...]]()
    for row in members:
        library, version = software.get(_client(row), (None, None))
        key = (row["group_id"], row["group_type"], row["is_classic"], library, version)
        counts[key] += 1
        static[key] += row["group_instance_id"] is not None
    found = [_answer(key, protocols, count, static[key]) for key, count in counts.items()]
    return sorted(found, key=lambda row: (not row["move_blockers"], row["group_id"], str(row["library"])))


def _answer(key: tuple[object, ...], protocols: Mapping[object, Answer], members: int, static_members: int) -> Answer:
    group_id, group_type, is_classic, library, version = key
    protocol = protocols.get(group_id, {})
    assignor, protocol_type = protocol.get("protocol"), protocol.get("protocol_type")
    # A member of a KIP-848 group speaks the classic protocol only while the group is being moved.
    is_moved = is_classic is False or group_type in {GroupType.SHARE, GroupType.STREAMS}
    known = (None if library is None else str(library), None if version is None else str(version))
    return {
        "group_id": group_id,
        "group_type": group_type,
        "is_classic": is_classic,
        "protocol_type": protocol_type,
        "assignor": assignor,
        "library": library,
        "version": version,
        "members": members,
        "static_members": static_members,
        "move_blockers": [] if is_moved else [*blockers(protocol_type, assignor, *known)],
    }


def _software(tables: ClusterRows) -> dict[tuple[str, str], Software]:
    rows = tables.query(SOFTWARE, requests=tables.scan_if_any("requests", columns=REQUEST_COLUMNS))
    return {_client(row): (row["software"]["name"], row["software"]["version"]) for row in rows}


def _client(row: Mapping[str, str | None]) -> tuple[str, str]:
    return row["client_id"] or "", host_name(row["client_host"] or "")


def blocked_groups(rows: Iterable[Answer]) -> dict[str, list[str]]:
    """Returns, by reason, the groups that it keeps from the protocol of KIP-848, and under an empty text those that
    could move as they are. Only groups with members of the classic protocol count; a group with several reasons is
    under each."""
    by_group: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["is_classic"]:
            by_group[row["group_id"]] |= {*row["move_blockers"]}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for group_id in sorted(by_group):
        for blocker in by_group[group_id] or {""}:
            found[blocker].append(group_id)
    return dict(found)
