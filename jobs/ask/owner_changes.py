"""Lists which partitions of a group changed hands, and from whom to whom, as short texts: an entry for each instant.

A partition is taken from its previous owner in the same incarnation of the group. A cooperative member gives up a
partition in one record and another takes it in a later one, so a revoked partition is reported only if nobody takes it
in the window. Partitions of a static member that is away are reported as reserved for it: it has not given them up yet.
A beginning or an end of an interval is left out if a hole, or a stretch from which the log cleaner removed records,
hides it.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from groupledger.jobs.ask.answers import within
from groupledger.jobs.ask.group_timeline import places
from groupledger.schemas.words import MemberState
from groupledger.transforms.history.rules.reserved_ownership import reserved_ownership

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

COLUMNS = (
    *("incarnation", "topic", "partition", "member_id", "other_member_ids", "from_offset", "valid_from", "valid_to"),
    *("is_start_known", "is_end_known"),
)
CHANGES_NAMED_MAX, PARTITIONS_NAMED_MAX = 3, 8


class OwnerChange(NamedTuple):
    """Says who took partitions and from whom; None means nobody. `reserved_for` is the static member that is away, and
    for which they stay reserved."""

    taken_by: str | None = None
    taken_from: str | None = None
    reserved_for: str | None = None


Changes = dict[datetime, dict[OwnerChange, list["Answer"]]]


def owner_changes(
    tables: ClusterRows, name: str, since: datetime, until: datetime | None
) -> Iterator[tuple[datetime, str]]:
    """Yields each instant of [since, until) at which members took or gave up partitions, or a static member went away
    and its partitions stay reserved, with a text about it."""
    of_group = ("group_id", "=", name)
    begun = (of_group, *within("valid_from", None, until))
    rows = tables.rows_if_any("assignments", *begun, columns=COLUMNS)
    away = tables.rows_if_any("member_epochs", *begun, ("state", "=", MemberState.AWAY))
    changes = changed_hands([*rows, *reserved_ownership(away)])
    for at in sorted(changes):
        if at >= since and (until is None or at < until):
            yield at, _words(changes[at])


def changed_hands(intervals: Iterable[Answer]) -> Changes:
    """Returns, by instant and by change of owner, the intervals of the partitions that changed hands so: those that
    began then or, if nobody took the partition, that ended then."""
    of_place = defaultdict(list)
    for row in intervals:
        of_place[row["incarnation"], row["topic"], row["partition"]].append(row)
    found: Changes = defaultdict(dict)
    for rows in of_place.values():
        rows.sort(key=itemgetter("from_offset"))
        before: Answer | None = None
        for row in rows:
            taken_from = who(before) if before is not None and before["is_end_known"] else None
            if row.get("is_reserved"):
                found[row["valid_from"]].setdefault(OwnerChange(reserved_for=who(row)), []).append(row)
            elif taken_from == who(row) and before is not None and before.get("is_reserved"):
                found[row["valid_from"]].setdefault(OwnerChange(who(row)), []).append(row)
            elif row["is_start_known"] and taken_from != who(row):
                found[row["valid_from"]].setdefault(OwnerChange(who(row), taken_from), []).append(row)
            before = row
        if rows[-1]["is_end_known"]:
            found[rows[-1]["valid_to"]].setdefault(OwnerChange(None, who(rows[-1])), []).append(rows[-1])
    return found


def who(interval: Answer) -> str:
    """Returns the owner in an interval as text, or all owners if the assignor gave the partition to several."""
    return " and ".join((interval["member_id"], *(interval["other_member_ids"] or ())))


def _words(changes: dict[OwnerChange, list[Answer]]) -> str:
    """Returns a text about who took which partitions from whom, those with the most partitions first."""
    ordered = sorted(changes.items(), key=lambda item: (-len(item[1]), *(each or "" for each in item[0])))
    phrases = []
    for (member_id, taken_from, reserved_for), rows in ordered[:CHANGES_NAMED_MAX]:
        units = sorted((row["topic"], row["partition"]) for row in rows)
        what = places(units[:PARTITIONS_NAMED_MAX])
        if len(units) > PARTITIONS_NAMED_MAX:
            what += f" and {len(units) - PARTITIONS_NAMED_MAX:,} more"
        if reserved_for is not None:
            phrases.append(f"{reserved_for} is away, and {what} stays reserved for it")
        elif member_id is None:
            phrases.append(f"{taken_from} gave up {what}")
        else:
            phrases.append(f"{member_id} took {what}" + ("" if taken_from is None else f" from {taken_from}"))
    if len(ordered) > CHANGES_NAMED_MAX:
        left_out = sum(len(rows) for _, rows in ordered[CHANGES_NAMED_MAX:])
        phrases.append(f"{left_out:,} partitions more changed hands")
    return "; ".join(phrases)
