"""Writes each incident down in two sentences for a developer on call, and names the setting that prevents it.

The first sentence says what happened, with the names, the second what it means and what to do; both are the kind's or
the root's (`schemas.kinds`). Names come from clients and stand here as they are: whoever prints the text makes them
harmless (`jobs.process.terminal.printable`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.words import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from groupledger.schemas.kinds.incidents import IncidentKind
    from groupledger.schemas.kinds.roots import Root

    Row = Mapping[str, Any]

_REFUSED_COMMIT = "What it had processed is processed again by the new owner{duplicates}"
_NOT_A_COMMIT = "No commit was lost with that; the client joins again by itself"


def explanation(kind: IncidentKind, root: Root, row: Row, detail: str | None) -> str:
    """Returns the two sentences about an incident; `row` is its row but for these, `detail` the sighting's."""
    names = {
        "who": _who(row),
        "times": "once" if row["occurrences"] == 1 else f"{row['occurrences']:,} times",
        "claimed": _number(row["claimed_generation"]),
        "current": _number(row["current_generation"]),
        "instance": row["group_instance_id"],
        "count": f"{len(row['partitions']):,}",
        "seconds": f"{(row['last_seen_at'] - row['first_seen_at']) // 1_000_000:,}",
        "partition": row["partitions"][0]["partition"] if row["partitions"] else "-",
        "detail": detail,
        "duplicates": _duplicates(row),
    }
    return f"{kind.happened.format(**names)} {_advice(kind, root, row).format(**names)}"


def setting_to_change(kind: IncidentKind, root: Root) -> str | None:
    """Returns the settings that prevent an incident, the kind's own or else the root's; None if none does."""
    return ", ".join(root.settings if kind.settings is None else kind.settings) or None


def _advice(kind: IncidentKind, root: Root, row: Row) -> str:
    if kind.advice is not None:
        return kind.advice
    if kind.static_advice is not None and root == kind.root and row["group_instance_id"] is not None:
        return kind.static_advice
    if kind.error_code is None:
        return root.advice
    consequence = _REFUSED_COMMIT if row["severity"] == Severity.ERROR else _NOT_A_COMMIT
    return f"{consequence}; {root.advice[0].lower()}{root.advice[1:]}"


def _who(row: Row) -> str:
    named = row["client_id"] or row["member_id"] or "A member"
    return f"{named} at {row['client_host']}" if row["client_host"] else str(named)


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _duplicates(row: Row) -> str:
    low, high = row["duplicates_min"], row["duplicates_max"]
    if high is None:
        return ""
    return f" ({high:,} records)" if low == high else f" ({low or 0:,} to {high:,} records)"
