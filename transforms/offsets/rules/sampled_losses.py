"""Finds commits whose group has lost records unread, by comparing them with the start and end of the topic's log.

- The start of the log has passed the commit (`lost_to_retention`): each round shows how many offsets these are so far.
  A commit that was already below the log's start when it was made counts, too.
- The commit belongs to a deleted topic, and the log of the new topic with the same name has reached the committed
  offset (`topic_recreated`): a consumer that continues from there skips the records before it in the new log. While
  that log is shorter, a consumer finds no such offset and begins where auto.offset.reset says.

There is one event for each commit and kind. It has the time of the first round that shows it, and the largest number of
records that any round shows. So the order and the number of passes over the rounds do not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import LagFlag, OffsetEventCause, OffsetEventEvidence, OffsetEventKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    Row = dict[str, Any]

OF_COMMIT = ("group_id", "topic", "partition", "kafka_partition", "kafka_offset")
KINDS = (OffsetEventKind.LOST_TO_RETENTION, OffsetEventKind.TOPIC_RECREATED)


def sampled_losses(lag: Iterable[Row], reported: Iterable[Row]) -> list[Row]:
    """Returns the rows of `offset_events` that are new or changed by the rows of `lag`, without the column `cluster`.
    `reported` are the rows that were written before."""
    before = {_key(row, row["kind"]): row for row in reported}
    found: dict[tuple[Any, ...], Row] = {}
    for row in lag:
        kind, lost = _loss(row)
        if kind is None:
            continue
        key = _key(row, kind)
        known = found.get(key) or before.get(key)
        first = row["sampled_at"]
        if known is not None:
            first, lost = min(known["happened_at"], first), max(known["records_skipped"], lost)
        found[key] = _event(row, kind, first, lost)
    return [row for key, row in found.items() if row != before.get(key)]


def _key(row: Row, kind: str) -> tuple[Any, ...]:
    return (kind, *(row[name] for name in OF_COMMIT))


def _loss(row: Row) -> tuple[str | None, int]:
    """Returns the kind of loss that the round shows for the commit, and how many offsets the group never reads; None if
    it shows no loss."""
    if row["messages_lost"]:
        return OffsetEventKind.LOST_TO_RETENTION, row["messages_lost"]
    is_reached = LagFlag.TOPIC_RECREATED in (row["flags"] or ()) and (row["raw_lag"] or 0) >= 0
    before = row["committed_offset"] - row["log_start_offset"] if is_reached else 0
    return (OffsetEventKind.TOPIC_RECREATED, before) if before > 0 else (None, 0)


def _event(row: Row, kind: str, happened_at: Any, lost: int) -> Row:
    is_passed = kind == OffsetEventKind.LOST_TO_RETENTION
    return {
        **{name: row[name] for name in OF_COMMIT},
        "kind": kind,
        "happened_at": happened_at,
        "offset_before": row["committed_offset"],
        "offset_after": row["committed_offset"] + (lost if is_passed else -lost),
        "records_repeated": None,
        "records_skipped": lost,
        "cause": OffsetEventCause.LOG_START if is_passed else None,
        "evidence": OffsetEventEvidence.SAMPLES,
        "committed_at": row["committed_at"],
        "commit_kafka_offset": row["kafka_offset"],
        "age_ms": None,
        "is_carried_over": False,
    }
