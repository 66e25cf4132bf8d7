"""Serves the page of a cluster's incidents, by episode and day, and the page of one row that proves an incident.

An episode is shown once, with the incident that probably began it before its other incidents. The window is the last
day that was searched for incidents, unless the request has one. A filter by kind finds an episode by any of its
incidents.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from groupledger.jobs.ask.answers import last_known
from groupledger.jobs.ask.known import sources_known
from groupledger.jobs.ask.proof_rows import proof_row, shown_value
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.path_names import name_in, part
from groupledger.jobs.serve.answers import Warehouse, instant_in
from groupledger.jobs.serve.described import SEVERITY
from groupledger.jobs.serve.episodes import ShownEpisode, episodes_of, incidents_within
from groupledger.jobs.serve.shown import group_path, link
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.words import Severity, Source, words_of
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jinja2 import Environment

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

DAY = timedelta(days=1)
EPISODES_MAX = 100
FACETS_MAX = 40


def routes(warehouse: Warehouse, environment: Environment) -> APIRouter:
    """Returns the routes of the two pages."""
    pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

    @pages.get("/clusters/{cluster}/incidents")
    def incidents(  # noqa: PLR0913, PLR0917 - one for each parameter
        cluster: str,
        since: str | None = None,
        until: str | None = None,
        severity: str = Severity.WARNING,
        kind: str | None = None,
        group: str | None = None,
        team: str | None = None,
        page: Annotated[int, Query(ge=1, le=10_000)] = 1,
    ) -> HTMLResponse:
        tables = warehouse.rows(cluster)
        searched_until = sources_known(tables)[Source.INCIDENTS]
        end = instant_in(until)
        last = end or searched_until or last_known(tables) or instant_of_ms(now_ms())
        begin = instant_in(since) or last - DAY
        asked = {"severity": SEVERITY.known(severity or Severity.WARNING), "kind": kind, "group": group, "team": team}
        within = {"since": since and iso(begin), "until": until and iso(last)}
        team_of = {row["group_id"]: row["team"] for row in warehouse.groups(tables)}
        every = episodes_of(incidents_within(tables, begin, end, asked["severity"] or Severity.WARNING))
        found = [each for each in every if _is_wanted(each, asked, team_of)]
        first = (page - 1) * EPISODES_MAX
        shown = warehouse.diagnoses.of(tables, found[first : first + EPISODES_MAX])
        text = environment.get_template("incidents.html").render(
            cluster=tables.cluster,
            now=instant_of_ms(now_ms()),
            since=begin,
            until=last,
            is_now=end is None and since is None,
            searched_until=searched_until,
            days=_by_day(shown),
            count=len(found) - len(found[first : first + EPISODES_MAX]) + len(shown),
            page=page,
            pages=-(-len(found) // EPISODES_MAX),
            asked=asked,
            severities=words_of(Severity),
            facets=_facets(every, team_of),
            to_page=lambda **changed: link("", **{**within, **asked, **changed}),
            to_window=lambda since, until: link("", **{**asked, "since": iso(since), "until": iso(until)}),
            to_group=lambda name, at: group_path(tables.cluster, name, at),
            to_row=partial(row_path, tables),
        )
        return HTMLResponse(text)

    @pages.get("/clusters/{cluster}/rows/{table}")
    def row(cluster: str, table: str, key: str) -> HTMLResponse:
        tables, name = warehouse.rows(cluster), name_in(table)
        found = proof_row(tables, name, key)
        values = [(column, shown_value(value)) for column, value in found.items() if value is not None]
        text = environment.get_template("row.html").render(
            cluster=tables.cluster, table=name, key=key, values=values, group_id=found.get("group_id"), at=_at(found)
        )
        return HTMLResponse(text)

    return pages


def row_path(tables: ClusterRows, proof: Answer) -> str | None:
    """Returns the URL of the page of a row that proves an incident; None if the warehouse does not have the row's
    table, as in a demo."""
    if not tables.exists(proof["table_name"]):
        return None
    return link(f"/clusters/{part(tables.cluster)}/rows/{part(proof['table_name'])}", key=proof["row_key"])


def _is_wanted(each: ShownEpisode, asked: Mapping[str, str | None], team_of: Mapping[str, str | None]) -> bool:
    return (
        (not asked["kind"] or asked["kind"] in each.kinds)
        and (not asked["group"] or asked["group"] == each.group_id)
        and (not asked["team"] or asked["team"] == team_of.get(each.group_id or ""))
    )


def _facets(every: Sequence[ShownEpisode], team_of: Mapping[str, str | None]) -> dict[str, list[tuple[str, int]]]:
    """Returns the filters for the window, with how many episodes match each."""
    values: dict[str, Callable[[ShownEpisode], Iterable[str | None]]] = {
        "kind": lambda each: each.kinds,
        "group": lambda each: (each.group_id,),
        "team": lambda each: (team_of.get(each.group_id or ""),),
    }
    counted = {name: Counter(word for each in every for word in of(each) if word) for name, of in values.items()}
    return {name: counts.most_common(FACETS_MAX) for name, counts in counted.items() if counts}


def _by_day(found: Iterable[ShownEpisode]) -> list[tuple[datetime, list[ShownEpisode]]]:
    """Returns the episodes by the day, in UTC, on which they began: the last day first, and on it the worst first."""
    days: defaultdict[datetime, list[ShownEpisode]] = defaultdict(list)
    for each in found:
        days[each.summary.since.replace(hour=0, minute=0, second=0, microsecond=0)].append(each)
    return sorted(days.items(), reverse=True)


def _at(row: Mapping[str, Any]) -> datetime | None:
    """Returns an instant of a row at which its group can be looked at."""
    return next((value for value in row.values() if isinstance(value, datetime)), None)
