"""Keeps the table `topic_names`: the names of topics that records and requests give by id.

A name comes from a request log, from a sample of watermarks, or from a commit that carries both id and name. If the
history has written rows with an id, because the name was unknown, the id's row has `is_awaited`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.commits import as_new
from groupledger.jobs.warehouse.upsert import of_rows
from groupledger.schemas.tables.topic_names import TOPIC_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.jobs.warehouse.ledger import Ledger


def known_names(ledger: Ledger) -> tuple[dict[str, str], set[str]]:
    """Returns the known topic names by topic id, and the topic ids that the history has to replace as soon as their
    names are known."""
    rows = ledger.arrow(TOPIC_NAMES).to_pylist() if ledger.exists(TOPIC_NAMES) else []
    names = {row["topic_id"]: row["topic"] for row in rows if row["topic"] is not None}
    return names, {row["topic_id"] for row in rows if row["is_awaited"]}


def learn(ledger: Ledger, names: Mapping[str, str]) -> None:
    """Writes topic names, by topic id, into the table."""
    _merge(ledger, [(topic_id, name, False) for topic_id, name in names.items()], "topic")


def set_awaited(ledger: Ledger, topic_ids: Iterable[str], *, is_awaited: bool) -> None:
    """Notes whether the history has rows with these topic ids in the place of names (`is_awaited`)."""
    _merge(ledger, [(topic_id, None, is_awaited) for topic_id in topic_ids], "is_awaited")


def _merge(ledger: Ledger, rows: list[tuple[str, str | None, bool]], column: str) -> None:
    if rows:
        of_cluster = of_rows([(ledger.cluster, *row) for row in sorted(rows)], TOPIC_NAMES)
        condition = f"old.cluster = '{ledger.cluster}'"
        ledger.commits.merge(TOPIC_NAMES, of_cluster, condition, updates=as_new([column]))
