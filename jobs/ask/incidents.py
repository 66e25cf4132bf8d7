"""`groupledger incidents`: the incidents that the table holds, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.tables import collect
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.words import Evidence, Severity, words_of
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.warehouse.tables import ClusterTables

EXPLANATION_WIDTH = 110


def incidents_of(
    tables: ClusterTables, group: str | None, since: datetime | None, kind: str | None, severity: str
) -> list[Answer]:
    """Returns the incidents last seen since then, of at least that severity; those that began last come last."""
    rows = tables.rows(INCIDENTS)
    severities = words_of(Severity)
    rows = rows.where(F.col("severity").isin(*severities[severities.index(severity) :]))
    if group is not None:
        rows = rows.where(F.col("group_id") == F.lit(group))
    if kind is not None:
        rows = rows.where(F.col("kind") == F.lit(kind))
    if since is not None:
        rows = rows.where(F.col("last_seen_at") >= F.lit(since))
    return collect(rows.drop("cluster").orderBy("first_seen_at", "episode_id", "kind"))


def lines(incident: Answer) -> Iterator[str]:
    """Yields the lines of an incident for a terminal; all names in them are made harmless."""
    when = iso(incident["first_seen_at"])
    if incident["last_seen_at"] != incident["first_seen_at"]:
        when += f" to {iso(incident['last_seen_at'])}"
    yield f"{when}  {incident['severity'].upper()}  {incident['kind']}{' (open)' if incident['is_open'] else ''}"
    yield f"    group {printable(incident['group_id'])}, episode {incident['episode_id'][:8]}: {_evidence(incident)}"
    yield from (f"    {line}" for line in _wrapped(incident["explanation"]))
    if incident["setting_to_change"] is not None:
        yield f"    change: {incident['setting_to_change']}"


def _evidence(incident: Answer) -> str:
    times = f", {incident['occurrences']:,} times" if incident["occurrences"] > 1 else ""
    sure = "" if incident["evidence"] == Evidence.OBSERVED else f" (confidence {incident['confidence']:.2f})"
    doubt = ", in an order that the log does not tell" if incident["is_ambiguous"] else ""
    return f"{incident['evidence']}{sure}{times}{doubt}; probable root: {incident['probable_root']}"


def _wrapped(text: str) -> Iterator[str]:
    """Yields lines of whole words, each word made harmless."""
    line = ""
    for word in map(printable, text.split(" ")):
        if line and len(line) + len(word) >= EXPLANATION_WIDTH:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
    yield line
