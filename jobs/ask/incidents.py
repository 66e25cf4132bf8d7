"""`groupledger incidents`: reads the rows of the table `incidents`, and formats them for a terminal."""

from __future__ import annotations

from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING

from groupledger.jobs.ask.rounds import newest
from groupledger.jobs.process.instants import in_zone, lasted
from groupledger.jobs.process.terminal import coloured, printable, text_width
from groupledger.jobs.warehouse.judged_logs import judged_rows
from groupledger.schemas.words import Evidence, Severity, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

RECENT = timedelta(days=1)


def incidents_of(
    tables: ClusterRows, groups: Sequence[str] | None, since: datetime | None, kind: str | None, severity: str
) -> list[Answer]:
    """Returns the incidents of at least a severity in the order in which they began: those of some groups, of one kind,
    and last seen at or after `since`; None means any. Raises InputError if the table does not exist."""
    severities = words_of(Severity)
    filters: list[Filter] = [("severity", "in", severities[severities.index(severity) :])]
    for column, operation, value in (("group_id", "in", groups), ("kind", "=", kind), ("last_seen_at", ">=", since)):
        if value is not None:
            filters.append((column, operation, value))
    return sorted(tables.rows("incidents", *filters), key=itemgetter("first_seen_at", "episode_id", "kind"))


def recent_incidents(tables: ClusterRows) -> list[Answer]:
    """Returns the incidents of severity warning or higher that were last seen within a day of the most recent one, in
    the order in which they began. All open ones of that severity are among them."""
    if not tables.exists("incidents"):
        return []
    last = newest(tables, "incidents", "last_seen_at")
    return [] if last is None else incidents_of(tables, None, last - RECENT, None, Severity.WARNING)


def rows_not_judged(tables: ClusterRows) -> int:
    """Returns how many rows of logs were imported since incidents were last computed."""
    judged = judged_rows(tables.small_files, tables.cluster)
    if judged is None:
        return 0
    imported: int = sum(row["row_count"] or 0 for row in tables.rows_if_any("log_files", columns=("row_count",)))
    return max(imported - judged, 0)


def lines(incident: Answer) -> Iterator[str]:
    """Yields the lines of an incident for a terminal; all names in them are escaped."""
    when = in_zone(incident["first_seen_at"])
    if incident["last_seen_at"] != incident["first_seen_at"]:
        when += f" to {in_zone(incident['last_seen_at'])}"
    yield f"{when}  {coloured(incident['severity'])}  {incident['kind']}{' (open)' if incident['is_open'] else ''}"
    yield f"    group {printable(incident['group_id'])}, episode {incident['episode_id'][:8]}: {_evidence(incident)}"
    yield from (f"    {line}" for line in wrapped(incident["explanation"]))
    if incident["setting_to_change"] is not None:
        yield f"    change: {incident['setting_to_change']}"


def episode_lines(verdict: Answer, since: datetime) -> Iterator[str]:
    """Yields the lines of the verdict on one episode (`transforms.incidents.verdicts`) for a terminal. The window of
    the question begins at `since`."""
    yield f"{coloured(verdict['severity'])}  {verdict['kind']}: {time_of(verdict, since)}"
    yield from (f"    {line}" for line in wrapped(verdict["explanation"]))
    harm = "; ".join(harms(verdict))
    if harm:
        yield f"    harm: {harm}"
    if verdict["setting_to_change"] is not None:
        yield f"    change: {verdict['setting_to_change']}"
    also = f"; with it: {', '.join(verdict['other_kinds'])}" if verdict["other_kinds"] else ""
    yield f"    known: {_evidence(verdict)}{also}"


def time_of(found: Answer, since: datetime) -> str:
    """Returns as text when an episode or a diagnosis began and was last seen, whether it is open, how long it lasted
    and, if it began before `since`, how long before."""
    last = in_zone(found["last_seen_at"])
    end = f", open, last seen {last}" if found["until"] is None else f" to {last}"
    length = lasted(found["last_seen_at"] - found["since"])
    before = f", began {lasted(since - found['since'])} before this time" if found["since"] < since else ""
    return f"{in_zone(found['since'])}{end} ({length}{before})"


def harms(verdict: Answer) -> Iterator[str]:
    """Yields the harm of an episode or a diagnosis as texts, as far as it is known."""
    if verdict["never_read_max"]:
        yield f"at most {verdict['never_read_max']:,} records never read"
    if verdict["duplicates_max"]:
        low = (
            f"{verdict['duplicates_min'] or 0:,} to " if verdict["duplicates_min"] != verdict["duplicates_max"] else ""
        )
        yield f"{low}{verdict['duplicates_max']:,} records read twice"
    if verdict.get("records_behind"):
        yield f"{verdict['records_behind']:,} records of lag at the end"
    if verdict.get("unowned_partition_seconds"):
        yield f"partitions without an owner for {verdict['unowned_partition_seconds']:,} s, added up"


def _evidence(incident: Answer) -> str:
    times = f", {incident['occurrences']:,} times" if incident["occurrences"] > 1 else ""
    sure = "" if incident["evidence"] == Evidence.OBSERVED else f" (confidence {incident['confidence']:.2f})"
    doubt = ", in an order that the log does not show" if incident.get("is_ambiguous") else ""
    return f"{incident['evidence']}{sure}{times}{doubt}; probable root: {incident['probable_root']}"


def wrapped(text: str) -> Iterator[str]:
    """Yields a text in lines that fit the terminal, broken between words; each word is escaped."""
    line, width = "", text_width()
    for word in map(printable, text.split(" ")):
        if line and len(line) + len(word) >= width:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
    yield line
