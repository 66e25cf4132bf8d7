"""Tells which commits the start of their topic's log has passed: records that the group had not read, and never will.

Each sampling round shows how many these are so far (`lag.messages_lost`). There is one event for each commit, at the
first round that shows it, with the largest number seen: so the order and the number of passes over the rounds do not
matter. A commit that was made below the log's start counts, too; what it names is as gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import OffsetEventCause, OffsetEventEvidence, OffsetEventKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    Row = dict[str, Any]

OF_COMMIT = ("group_id", "topic", "partition", "kafka_partition", "kafka_offset")


def lost_to_retention(lag: Iterable[Row], told: Iterable[Row]) -> list[Row]:
    """Returns the events that rows of `lag` add to, or change in, those told before: columns of `offset_events`, but
    for the cluster."""
    before = {_commit_of(row): row for row in told}
    found: dict[tuple[Any, ...], Row] = {}
    for row in lag:
        key = _commit_of(row)
        known = found.get(key) or before.get(key)
        if known is None:
            found[key] = _event(row)
        else:
            lost = max(known["records_skipped"], row["messages_lost"])
            first = min(known["happened_at"], row["sampled_at"])
            moved = {"happened_at": first, "records_skipped": lost, "offset_after": known["offset_before"] + lost}
            found[key] = {**known, **moved}
    return [row for key, row in found.items() if row != before.get(key)]


def _commit_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in OF_COMMIT)


def _event(row: Row) -> Row:
    return {
        **{name: row[name] for name in OF_COMMIT},
        "kind": OffsetEventKind.LOST_TO_RETENTION,
        "happened_at": row["sampled_at"],
        "offset_before": row["committed_offset"],
        "offset_after": row["committed_offset"] + row["messages_lost"],
        "records_repeated": None,
        "records_skipped": row["messages_lost"],
        "cause": OffsetEventCause.LOG_START,
        "evidence": OffsetEventEvidence.SAMPLES,
        "committed_at": row["committed_at"],
        "commit_kafka_offset": row["kafka_offset"],
        "age_ms": None,
        "is_carried_over": False,
    }
