"""`groupledger report` reads the tables and writes one HTML page about a period.

The file gets its name only when it is complete. The page shows lag and incidents if their tables exist; otherwise it
says that they don't.
"""

from __future__ import annotations

import os
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import known_until
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.report.page import assemble
from groupledger.jobs.report.page.overview import overview
from groupledger.jobs.report.queries import Limits
from groupledger.jobs.report.selection import Selection
from groupledger.schemas.words import Completeness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from groupledger.jobs.ask.cluster_rows import ClusterRows

PERIOD = timedelta(days=7)


def write_report(
    tables: ClusterRows,
    file: Path,
    say: Callable[[str], None],
    names: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    limits: Limits | None = None,
) -> None:
    """Raises InputError for a file that can't be one, an empty period and a group that nobody knows."""
    check_target(file)
    until = until or known_until(tables)
    since = since or begin_of_period(known_from(tables), until)
    if since >= until:
        raise InputError("The report's period is empty: give a --since that lies before --until.")
    say("reading the tables")
    selection = Selection(tables, since, until, limits or Limits(), tuple(names))
    ranked = selection.ranked()
    page = assemble(overview(selection.overview(ranked)), selection.group_data(ranked))
    write_whole(file, page)
    groups = "1 group" if len(ranked) == 1 else f"{len(ranked):,} groups"
    say(f"{groups} from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC; the page is {file}")


def begin_of_period(known: datetime | None, until: datetime) -> datetime:
    """Returns where the page begins by itself: with what is known, of which the first read of a topic gives no time."""
    begin = until - PERIOD
    return known if known is not None and begin < known < until else begin


def known_from(tables: ClusterRows) -> datetime | None:
    """Returns the first instant that the ledger saw as it was written."""
    rows = tables.rows("coverage", ("completeness", "=", Completeness.COMPLETE), columns=("from_time",))
    return min((row["from_time"] for row in rows if row["from_time"] is not None), default=None)


def check_target(file: Path) -> None:
    if file.is_dir():
        raise InputError(f"{file} is a directory: give --out the name of a file in it, such as {file / 'report.html'}.")
    if not file.absolute().parent.is_dir():
        raise InputError(f"There is no directory {file.absolute().parent} to write {file.name} into: make it first.")


def write_whole(file: Path, text: str) -> None:
    """Raises OutsideError; what was there before stays then."""
    temporary = file.with_name(f".report-{uuid.uuid4().hex}")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as target:
            target.write(text)
            target.flush()
            os.fsync(target.fileno())
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutsideError(
            f"{file} could not be written ({error.strerror}): check the disk and your rights."
        ) from error
