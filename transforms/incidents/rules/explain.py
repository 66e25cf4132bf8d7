"""Explains each incident in two sentences for a developer on call, and names the setting that prevents it.

The first sentence says what happened, with the names; the second says what it means and what to do. Both come from the
incident's kind or root (`schemas.kinds`), and each clause appears only where its facts are known. Names come from
clients and are not escaped here: whoever prints the text escapes them (`jobs.process.terminal.printable`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.kinds.clauses import Clause, Fact, filled, said, settings_of
from groupledger.schemas.words import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet
    from typing import Any

    from groupledger.schemas.kinds.clauses import Text
    from groupledger.schemas.kinds.incidents import IncidentKind
    from groupledger.schemas.kinds.roots import Root

    Row = Mapping[str, Any]

REFUSED_COMMIT: Text = (
    Clause("What it had processed is processed again by the new owner{duplicates}", needs=(Fact.NEW_OWNER,)),
    Clause("Its progress was not stored, so that it may be processed again{duplicates}", excludes=(Fact.NEW_OWNER,)),
)
_NOT_A_COMMIT = "No commit was lost with that; the client joins again by itself"


def explanation(kind: IncidentKind, root: Root, row: Row, detail: str | None, facts: AbstractSet[str]) -> str:
    """Returns the two sentences about an incident. `row` is its row without them, `detail` comes from the sighting, and
    `facts` are further known facts (`known_facts`)."""
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
    return f"{filled(kind.happened, facts, names)} {_advice(kind, root, row, facts).format(**names)}".rstrip()


def setting_to_change(kind: IncidentKind, root: Root, facts: AbstractSet[str]) -> str | None:
    """Returns the settings that prevent an incident in such a group: those of its kind, or else those of its root. None
    if no setting does."""
    return ", ".join(settings_of(root.settings if kind.settings is None else kind.settings, facts)) or None


def _advice(kind: IncidentKind, root: Root, row: Row, facts: AbstractSet[str]) -> str:
    if kind.advice is not None:
        return said(kind.advice, facts)
    if kind.static_advice is not None and root == kind.root and Fact.STATIC_MEMBER in facts:
        return kind.static_advice
    advice = said(root.advice, facts)
    if kind.error_code is None:
        return advice
    consequence = said(REFUSED_COMMIT, facts) if row["severity"] == Severity.ERROR else _NOT_A_COMMIT
    return f"{consequence}; {advice[0].lower()}{advice[1:]}" if advice else f"{consequence}."


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
