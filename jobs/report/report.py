"""Writes the pages that `serve` shows into one HTML file, about a period: `groupledger report`.

The overview is text, with all groups. The page of a group, with its picture, is compressed, and a script of the file
unpacks it when its link is followed: so 10,000 groups are some tens of megabytes, and a browser lays out only the pages
that are opened. Groups are read many at a time. The file gets its name only when it is complete. It needs no network,
and its content security policy allows only its own script and style.
"""

from __future__ import annotations

import base64
import hashlib
import os
import uuid
import zlib
from datetime import timedelta
from importlib import resources
from typing import TYPE_CHECKING

from jinja2 import ChoiceLoader, PackageLoader
from markupsafe import Markup

from groupledger.jobs.ask.answers import group_row, known_until
from groupledger.jobs.ask.group_list import every_group
from groupledger.jobs.ask.known import sources_known
from groupledger.jobs.ask.owners import read_histories
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.serve.axis import Window
from groupledger.jobs.serve.diagnoses import Diagnoses
from groupledger.jobs.serve.episodes import by_groups
from groupledger.jobs.serve.group_rows import read_groups
from groupledger.jobs.serve.group_values import group_values
from groupledger.jobs.serve.overview_rows import (
    EPISODES_MAX,
    Period,
    counts,
    newest_trouble,
    of_period,
    period_values,
    with_episodes,
)
from groupledger.jobs.serve.shown import templates
from groupledger.jobs.serve.strips import histogram, picture
from groupledger.schemas.words import Completeness, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from jinja2 import Environment

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

PERIOD = timedelta(days=7)
GROUPS_AT_ONCE = 500
STRIPS_MAX = 300
SCRIPTS = (("serve", "static/time.js"), ("serve", "static/picture.js"), ("report", "templates/report.js"))
REBALANCES_MAX = 400


def write_report(
    tables: ClusterRows,
    file: Path,
    say: Callable[[str], None],
    names: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    teams: Mapping[str, str] | None = None,
) -> None:
    """Writes the report about the groups in `names`, or about all groups, into `file`. `teams` has a pattern of group
    names by team. Raises InputError for an invalid file name, an empty period and an unknown group."""
    check_target(file)
    until = until or known_until(tables)
    since = since or begin_of_period(known_from(tables), until)
    if since >= until:
        raise InputError("The report's period is empty: give a --since that lies before --until.")
    say("reading the tables")
    every = every_group(tables, teams or {}, (since, until))
    groups = [row for row in every if not names or row["group_id"] in names]
    missing = {*names} - {row["group_id"] for row in groups}
    if missing:
        group_row(tables, min(missing))
        raise InputError(
            f"The group {printable(min(missing))} was not seen before the end of the report's period: give a later"
            " --until."
        )
    write_whole(file, page(tables, groups, Window(since, until), names))
    count = "1 group" if len(groups) == 1 else f"{len(groups):,} groups"
    say(f"{count} from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC; the page is {file}")


def page(tables: ClusterRows, groups: list[Answer], window: Window, names: Sequence[str]) -> Iterator[str]:
    """Yields the text of the report, in parts."""
    environment = templates()
    own = PackageLoader("groupledger.jobs.report")
    environment.loader = ChoiceLoader([own, PackageLoader("groupledger.jobs.serve")])
    environment.filters["sha256"] = sha256
    period = of_period(tables, window, names, Diagnoses(EPISODES_MAX))
    rows = sorted(with_episodes(groups, period), key=newest_trouble)
    drawn = picture(tables, window, rows[:STRIPS_MAX], period.incidents, histogram(tables, window, period.incidents))
    places = {row["group_id"]: f"#g{place}" for place, row in enumerate(rows)}
    return environment.get_template("report.html").generate(
        cluster=tables.cluster,
        since=window.since,
        until=window.until,
        style=_text("serve", "static/page.css"),
        script=Markup("\n").join(_text(*each) for each in SCRIPTS),
        groups=rows,
        count=len(rows),
        picture=drawn,
        now=None,
        to_row=None,
        to_group=lambda name, _at=None: places.get(name),
        blocks=map(packed, group_pages(environment, tables, rows, period)),
        **counts(groups),
        **period_values(tables, period),
    )


def group_pages(
    environment: Environment, tables: ClusterRows, groups: Sequence[Answer], period: Period
) -> Iterator[str]:
    """Yields the page of each group as it was at the end of the window."""
    template = environment.get_template("report_group.html")
    window, of_groups = period.window, by_groups(period.episodes)
    searched_until = sources_known(tables)[Source.INCIDENTS]
    for first in range(0, len(groups), GROUPS_AT_ONCE):
        histories = [*read_histories(tables, groups[first : first + GROUPS_AT_ONCE])]
        for place, rows in enumerate(read_groups(tables, histories, window.since, window.until, window.until), first):
            yield template.render(
                previous=f"#g{place - 1}" if place else None,
                next=f"#g{place + 1}" if place + 1 < len(groups) else None,
                to_topic=nowhere,
                to_place=nowhere,
                to_instant=nowhere,
                searched_until=searched_until,
                now=None,
                episodes=of_groups.get(rows.history.group["group_id"], ()),
                **group_values(rows, window, window.until, REBALANCES_MAX),
            )


def nowhere(*_values: object) -> None:
    """Returns None, because the report has no page for this link of `serve`."""


def packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode())).decode()


def sha256(text: str) -> str:
    """Returns the hash by which a content security policy allows a script or a style sheet."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _text(package: str, name: str) -> Markup:
    # A file of ours, never data.
    return Markup((resources.files(f"groupledger.jobs.{package}") / name).read_text(encoding="utf-8"))  # noqa: S704


def begin_of_period(known: datetime | None, until: datetime) -> datetime:
    """Returns the default beginning of the report: `PERIOD` before its end, or the first known instant if that is
    later."""
    begin = until - PERIOD
    return known if known is not None and begin < known < until else begin


def known_from(tables: ClusterRows) -> datetime | None:
    """Returns the first instant from which the ledger has a complete stretch of `__consumer_offsets`; None if it has
    none."""
    rows = tables.rows("coverage", ("completeness", "=", Completeness.COMPLETE), columns=("from_time",))
    return min((row["from_time"] for row in rows if row["from_time"] is not None), default=None)


def check_target(file: Path) -> None:
    if file.is_dir():
        raise InputError(f"{file} is a directory: give --out the name of a file in it, such as {file / 'report.html'}.")
    if not file.absolute().parent.is_dir():
        raise InputError(f"There is no directory {file.absolute().parent} to write {file.name} into: make it first.")


def write_whole(file: Path, parts: Iterable[str]) -> None:
    """Writes the parts into a temporary file and renames it. Raises OutsideError on failure; an existing `file` is then
    left unchanged."""
    temporary = file.with_name(f".report-{uuid.uuid4().hex}")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as target:
            target.writelines(parts)
            target.flush()
            os.fsync(target.fileno())
        temporary.replace(file)
    except OSError as error:
        raise OutsideError(
            f"{file} could not be written ({error.strerror}): check the disk and your rights."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
