"""Gives each owner in a picture a colour by its identity, so that a pod keeps its colour after a restart, in another
shade.

The identity is the instance id, or else the client id, or else the member id. If several members have one client id at
the same time, the identity includes the host. A hash of the identity chooses the colour, so that it is the same in
every window. If two identities have the same hash, the second gets the next free colour. If there are more identities
than colours, some share one.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.jobs.process.output import Answer

HUES, SHADES = 12, 3
SHORT_MAX = 20


@dataclass(frozen=True, slots=True)
class Look:
    """Describes how a member is drawn. `name` is its identity, and `short` as much of the name as fits into a bar.
    `whole` has member id, client id and host, and `style` the classes for the style sheet."""

    name: str
    whole: str
    style: str

    @property
    def short(self) -> str:
        return self.name if len(self.name) <= SHORT_MAX else f"\u2026{self.name[-SHORT_MAX:]}"


def looks(members: Sequence[Answer], drawn: Iterable[str]) -> dict[str, Look]:
    """Returns how each member is drawn, by member id. `members` are tenures in the order of the log; `drawn` are the
    ids of the members to draw."""
    tenures: defaultdict[str, list[Answer]] = defaultdict(list)
    for row in members:
        tenures[row["member_id"]].append(row)
    ids = [*dict.fromkeys(drawn)]
    shared = _shared_clients(members)
    identities = {each: _identity(tenures[each][-1] if tenures[each] else None, each, shared) for each in ids}
    hues = _hues(sorted(set(identities.values())))
    order: defaultdict[str, list[str]] = defaultdict(list)
    for row in members:
        if row["member_id"] in identities and row["member_id"] not in order[identities[row["member_id"]]]:
            order[identities[row["member_id"]]].append(row["member_id"])
    found = {}
    for each in ids:
        identity = identities[each]
        before = order[identity].index(each) if each in order[identity] else 0
        style = f"owner h{hues[identity]} s{before % SHADES}"
        found[each] = Look(identity, _whole(tenures[each][-1] if tenures[each] else None, each), style)
    return found


def _identity(row: Answer | None, member_id: str, shared: set[str]) -> str:
    if row is None:
        return member_id
    client = row["client_id"]
    if client and client in shared:
        client = f"{client} {(row['client_host'] or '').lstrip('/')}"
    return row["group_instance_id"] or client or member_id


def _shared_clients(members: Iterable[Answer]) -> set[str]:
    """Returns the client ids that several members had at one time."""
    of_clients: defaultdict[str, list[Answer]] = defaultdict(list)
    for row in members:
        if row["client_id"]:
            of_clients[row["client_id"]].append(row)
    return {client for client, rows in of_clients.items() if _overlap(rows)}


def _overlap(rows: Iterable[Answer]) -> bool:
    ordered = sorted(rows, key=lambda row: row["from_offset"] or 0)
    return any(
        first["to_offset"] is None or (first["to_offset"] or 0) > (second["from_offset"] or 0)
        for first, second in pairwise(ordered)
        if first["member_id"] != second["member_id"]
    )


def _hues(identities: Iterable[str]) -> Mapping[str, int]:
    taken: set[int] = set()
    found = {}
    for each in identities:
        wanted = zlib.crc32(each.encode("utf-8", "surrogatepass")) % HUES
        free = (hue for step in range(HUES) if (hue := (wanted + step) % HUES) not in taken)
        found[each] = next(free, wanted)
        taken.add(found[each])
        if len(taken) == HUES:
            taken.clear()
    return found


def _whole(row: Answer | None, member_id: str) -> str:
    if row is None:
        return member_id
    return f"{member_id} ({row['client_id']}, {row['client_host']})"
