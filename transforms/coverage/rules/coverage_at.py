"""Decides from the rows of `coverage` whether the log was known at an instant, and at which offsets records of the end
of a group may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Completeness

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    Row = Mapping[str, Any]


def iso(instant: datetime) -> str:
    """Returns an aware instant in the form that every answer has: ISO 8601, UTC, milliseconds."""
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def hidden_ends(coverage: Iterable[Row]) -> dict[int, list[int]]:
    """Returns, by partition of `__consumer_offsets`, the offsets before which a group may have ended without a record
    of it in the ledger. At each of them begins a hole, or a stretch before which tombstones may have been removed."""
    found: dict[int, list[int]] = {}
    for row in coverage:
        if row["completeness"] == Completeness.UNKNOWN or row.get("is_state_lost"):
            found.setdefault(row["kafka_partition"], []).append(row["from_offset"])
    return found


def _is_known(row: Row) -> bool:
    return row["completeness"] == Completeness.COMPLETE and row["from_time"] is not None and row["to_time"] is not None


def why_unknown(coverage: Iterable[Row], at: datetime) -> str | None:
    """Returns why the ledger can't answer for an instant, with the remedy; None if the instant lies in a complete
    stretch. The rows are of one partition of `__consumer_offsets`."""
    known = sorted((row["from_time"], row["to_time"]) for row in coverage if _is_known(row))
    if any(begin <= at < end for begin, end in known):
        return None
    earlier = [end for _, end in known if end <= at]
    later = [begin for begin, _ in known if begin > at]
    if earlier and later:
        return f"nobody read the log between {iso(max(earlier))} and {iso(min(later))}: ask for another instant"
    if earlier:
        return f"the log is read up to {iso(max(earlier))} only: run `groupledger ingest`, or ask for an instant before"
    if later:
        return (
            f"the log is known from {iso(min(later))} on, and what compaction took before is not: ask for a later time"
        )
    return "the log has only been read as it was left by compaction: run `groupledger ingest` again"
