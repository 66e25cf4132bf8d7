"""`groupledger incidents`: reads the rows of the table `incidents`, and formats them for a terminal."""

from __future__ import annotations

from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING

from groupledger.jobs.ask.rounds import newest
from groupledger.jobs.process.instants import in_zone, lasted
from groupledger.jobs.process.output import number_of
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
A_MOMENT = timedelta(seconds=1)


def incidents_of(
    tables: ClusterRows,
    groups: Sequence[str] | None,
    since: datetime | None,
    kind: str | None,
    severity: str,
    *,
    open_only: bool = False,
) -> list[Answer]:
    """Returns the incidents of at least a severity in the order in which they began: those of some groups, of one kind,
    and last seen at or after `since`; None means any. With `open_only` only those that go on. Raises InputError if the
    table does not exist."""
    severities = words_of(Severity)
    filters: list[Filter] = [("severity", "in", severities[severities.index(severity) :])]
    if open_only:
        filters.append(("is_open", "=", True))
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


def lines(incident: Answer, as_of: datetime | None = None) -> Iterator[str]:
    """Yields the lines of an incident for a terminal, as of the last known instant; all names in them are escaped."""
    when = in_zone(incident["first_seen_at"])
    if incident["last_seen_at"] != incident["first_seen_at"]:
        when += f" to {in_zone(incident['last_seen_at'])}"
    gap = before_the_end(incident["last_seen_at"], as_of).removeprefix(",")
    is_open = (f" (open: last seen{gap})" if gap else " (open)") if incident["is_open"] else ""
    yield f"{when}  {coloured(incident['severity'])}  {incident['kind']}{is_open}"
    yield f"    group {printable(incident['group_id'])}, episode {incident['episode_id'][:8]}: {_evidence(incident)}"
    yield from (f"    {line}" for line in wrapped(incident["explanation"]))
    if incident["setting_to_change"] is not None:
        yield f"    change: {incident['setting_to_change']}"


def episode_lines(verdict: Answer, since: datetime, as_of: datetime | None) -> Iterator[str]:
    """Yields the lines of the verdict on one episode (`transforms.incidents.verdicts`) for a terminal. The window of
    the question begins at `since`, and `as_of` is the last known instant."""
    yield f"{coloured(verdict['severity'])}  {verdict['kind']}: {time_of(verdict, since, as_of)}"
    yield from (f"    {line}" for line in wrapped(verdict["explanation"]))
    harm = "; ".join(harms(verdict))
    if harm:
        yield f"    harm: {harm}"
    if verdict["setting_to_change"] is not None:
        yield f"    change: {verdict['setting_to_change']}"
    also = f"; with it: {', '.join(verdict['other_kinds'])}" if verdict["other_kinds"] else ""
    yield f"    known: {_evidence(verdict)}{also}"


def time_of(found: Answer, since: datetime, as_of: datetime | None = None) -> str:
    """Returns as text when an episode or a diagnosis began and was last seen, and how long it lasted; if it is open,
    how long that was before `as_of`, the last instant that is known; and if it began before `since`, how long
    before."""
    begun, last = in_zone(found["since"]), in_zone(found["last_seen_at"])
    lasts = found["last_seen_at"] - found["since"]
    before = f"; began {lasted(since - found['since'])} before this time" if found["since"] < since else ""
    if found["until"] is None:
        seen = f"{last} ({lasted(lasts)} later)" if lasts else "then"
        return f"{begun}, open: last seen {seen}{before_the_end(found['last_seen_at'], as_of)}{before}"
    return (f"{begun} to {last} ({lasted(lasts)})" if lasts else f"{begun} (at one instant)") + before


def before_the_end(last: datetime, as_of: datetime | None) -> str:
    """Returns how long before the last known instant an open episode was last seen, as the end of a clause."""
    if as_of is None:
        return ""
    gap = as_of - last
    return f", {lasted(gap)} before the end of what is known" if gap >= A_MOMENT else ", at the end of what is known"


def harms(verdict: Answer) -> Iterator[str]:
    """Yields the harm of an episode or a diagnosis as texts, as far as it is known."""
    if verdict["never_read_max"]:
        yield f"at most {number_of(verdict['never_read_max'], 'record')} never read"
    if verdict["duplicates_max"]:
        low = (
            f"{verdict['duplicates_min'] or 0:,} to " if verdict["duplicates_min"] != verdict["duplicates_max"] else ""
        )
        yield f"{low}{number_of(verdict['duplicates_max'], 'record')} read twice"
    if verdict.get("records_behind"):
        of = number_of(verdict["partitions_behind"], "partition")
        yield f"{number_of(verdict['records_behind'], 'record')} of lag in {of}, when last seen"
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
