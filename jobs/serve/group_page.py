"""Serves the page of a group at any instant: a verdict, a picture of a window of time, and the owners.

The verdict is that of `groupledger why`, for the 24 hours up to the window's end, or for the window if it is longer. If
the request has an instant, the episodes in progress at it come first. For a group that has ended, the usual window is
its last hour, unless the request has an instant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from groupledger.jobs.ask.forecasts import forecasts, sentences
from groupledger.jobs.ask.known import sources_known
from groupledger.jobs.ask.owners import GroupHistory, read_history
from groupledger.jobs.ask.troubled import severity_of
from groupledger.jobs.ask.verdict import EpisodeSummary, mild, summaries
from groupledger.jobs.ask.why import why
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.instants import AGO, UNITS, lasted
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve.answers import Warehouse, instant_in
from groupledger.jobs.serve.axis import Window
from groupledger.jobs.serve.capacity_routes import capacity_line
from groupledger.jobs.serve.group_rows import GroupRows, read_groups
from groupledger.jobs.serve.group_values import OWNERS_MAX, group_values
from groupledger.jobs.serve.heat import heat_of
from groupledger.jobs.serve.shown import link, place_path, topic_path
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.words import GroupType, Source
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

REBALANCES_MAX = 50
EPISODES_MAX = 50
DAY = timedelta(days=1)
USUAL = ("15m", "1h", "2h")
WINDOWS = (*USUAL, "6h", "1d", "7d")
OF_ENDED = "1h"
# A message names the instant at which an episode began, and a person one beside it.
BESIDE = timedelta(minutes=2)


def routes(warehouse: Warehouse, environment: Environment) -> APIRouter:
    """Returns the route of the page."""
    pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

    @pages.get("/clusters/{cluster}/groups/{group}")
    def group(
        cluster: str, group: str, at: str | None = None, until: str | None = None, window: str | None = None
    ) -> Response:
        tables, name, asked = warehouse.rows(cluster), name_in(group), instant_in(at)
        history = read_history(tables, name)
        text = window or usual_window(history, asked)
        within = window_of(history, asked, instant_in(until), length(text))
        instant = min(max(asked or within.until, within.since), within.until)
        (rows,) = read_groups(tables, [history], within.since, within.until, instant)
        rows = replace(rows, heat=heat_of(tables, rows, within))
        values = group_values(rows, within, instant, REBALANCES_MAX)
        return HTMLResponse(
            environment.get_template("group.html").render(
                cluster=tables.cluster,
                windows=WINDOWS,
                window=text,
                is_now=asked is None and until is None,
                now=instant_of_ms(now_ms()),
                to_topic=partial(topic_path, tables.cluster),
                to_place=partial(place_path, tables.cluster),
                to_instant=lambda at: link("", at=iso(at), until=iso(within.until), window=text),
                to_episode=lambda at: link("", at=iso(at), window=text),
                is_mirrored=tables.exists("offset_syncs"),
                searched_until=sources_known(tables)[Source.INCIDENTS],
                is_well=values["standing"] is None or severity_of(values["standing"].status) is None,
                **judged(warehouse, tables, rows, within),
                **verdict_values(verdict_of(warehouse, tables, name, within), asked),
                **values,
            )
        )

    return pages


def judged(warehouse: Warehouse, tables: ClusterRows, rows: GroupRows, within: Window) -> dict[str, Any]:
    """Returns the values of `from_rounds`. They are cached as the verdict is, since they need many rounds."""
    key = ("rounds", rows.history.group["group_id"], within.until, rows.sampled_at)
    no_commit = warehouse.settings.lag.no_commit
    return warehouse.verdicts.get(key, tables, lambda: from_rounds(tables, rows, no_commit, within.until))


def from_rounds(tables: ClusterRows, rows: GroupRows, no_commit: str, until: datetime) -> dict[str, Any]:
    """Returns two values for the template: `capacity`, sentences about capacity, and `coming`, sentences about
    forecasts. To make them, each partition is read in many rounds; for a group with more partitions than a page shows,
    they are None and empty."""
    if len(rows.standing) > OWNERS_MAX:
        return {"capacity": None, "coming": []}
    capacity = capacity_line(tables, rows.history.group["group_id"], no_commit, until)
    return {"capacity": capacity, "coming": coming(tables, rows)}


def coming(tables: ClusterRows, rows: GroupRows) -> list[str]:
    """Returns sentences about the forecasts of a group in the round at `rows.sampled_at`. Returns an empty list for a
    share group, for a group without a round, and for one without rows in it."""
    if rows.sampled_at is None or not rows.standing or rows.history.group["group_type"] == GroupType.SHARE:
        return []
    return sentences(forecasts(tables, rows.history.group["group_id"], rows.sampled_at)[1])


@dataclass(frozen=True, slots=True)
class DaysVerdict:
    """Holds the verdict of a group since an instant. `lasts` is the length of that time in words. `episodes` are the
    summaries of episodes that did harm; only if there are none, `mild` has those that did none."""

    since: datetime
    lasts: str
    verdict: Answer
    episodes: Sequence[EpisodeSummary]
    mild: Sequence[EpisodeSummary]


def verdict_of(warehouse: Warehouse, tables: ClusterRows, name: str, within: Window) -> DaysVerdict:
    """Returns the verdict of the 24 hours that end with a window, or of the window if it is longer. The verdict is
    cached, because it is most of the work of a page."""

    def made() -> DaysVerdict:
        _, verdict = why(tables, name, since, within.until + timedelta(milliseconds=1))
        episodes = summaries(verdict)
        return DaysVerdict(since, lasts, verdict, episodes, () if episodes else mild(verdict)[:EPISODES_MAX])

    since = min(within.since, within.until - DAY)
    lasts = f"the {lasted(within.until - since)}" if within.until - since > DAY else "the 24 h"
    return warehouse.verdicts.get(("verdict", name, since, within.until), tables, made)


def verdict_values(found: DaysVerdict, asked: datetime | None) -> dict[str, Any]:
    """Returns the values of a verdict for the template. Its episodes come in the order of harm, those in progress at
    `asked` before the others."""
    episodes = found.episodes if asked is None else sorted(found.episodes, key=lambda each: not _is_of(each, asked))
    return {
        "verdict": found.verdict,
        "episodes": episodes[:EPISODES_MAX],
        "mild": found.mild,
        "episodes_left_out": max(len(episodes) - EPISODES_MAX, 0),
        "verdict_of": found.lasts,
        "verdict_since": found.since,
    }


def _is_of(each: EpisodeSummary, at: datetime) -> bool:
    return each.since - BESIDE <= at and (each.until is None or at <= each.since + each.lasts + BESIDE)


def has_ended(history: GroupHistory) -> bool:
    return history.group["is_alive"] is False


def usual_window(history: GroupHistory, at: datetime | None) -> str:
    """Returns the length of the window if the request has none. For a group that has ended it is an hour, unless the
    request has an instant. For others it is the shortest of USUAL that covers the time since the group's creation, or
    the longest."""
    if has_ended(history) and at is None:
        return OF_ENDED
    return shortest_window(USUAL, history.group["first_seen_at"], history.known_until)


def shortest_window(windows: Sequence[str], begun: datetime | None, end: datetime | None) -> str:
    """Returns the first of `windows`, which are in ascending order, that is at least as long as the time from `begun`
    to `end`. Returns the last one if none is, or if one of the instants is not known."""
    if begun is None or end is None:
        return windows[-1]
    return next((each for each in windows if end - begun <= length(each)), windows[-1])


def length(text: str) -> timedelta:
    """Returns the length of a window such as `30m`, `2h` or `7d`. Raises InputError for any other text, and for more
    than 366 days."""
    found = AGO.fullmatch(text)
    lasts = found and timedelta(**{UNITS[found[2]]: min(int(found[1]), 10_000_000)})
    if not lasts or lasts > 366 * DAY:
        raise InputError("A window is written as 30m, 2h or 7d, and is at most a year.")
    return lasts


def window_of(history: GroupHistory, at: datetime | None, until: datetime | None, lasts: timedelta) -> Window:
    """Returns the window of a page, which is `lasts` long. It ends at `until`, unless that is missing or `at` lies
    outside. Otherwise it is centred on `at`, or ends earlier, at the last known instant or at `at`, whichever is later.
    Without `at` it ends at the last known instant."""
    end = history.group["last_seen_at"] if has_ended(history) else None
    last = end or history.known_until or history.group["last_seen_at"]
    if at is not None and until is not None and not until - lasts <= at <= until:
        until = None
    until = until or (last if at is None else min(at + lasts / 2, max(last, at)))
    return Window(until - lasts, until)
