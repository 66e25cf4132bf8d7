"""Serves the page of a client or of a host. It lists all groups that the client or host is a member of, or lately was,
which shows that one bad node affects many groups."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse

from groupledger.jobs.ask.answers import last_known
from groupledger.jobs.ask.places import CLIENT, HOST, RECENT, broker_names, host_name
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve.answers import Warehouse, known_of
from groupledger.jobs.serve.episodes import episodes_of, incidents_within
from groupledger.jobs.serve.shown import group_path, place_path
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.serve.diagnoses import Diagnoses

COLUMNS = ("group_id", "member_id", "client_id", "client_host", "joined_at", "left_at", "leave_cause")
EPISODES_MAX = 50
GROUPS_MAX = 1_000


def routes(warehouse: Warehouse, environment: Environment) -> APIRouter:
    """Returns the routes of the two pages."""
    pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

    def shown(cluster: str, kind: str, place: str) -> HTMLResponse:
        tables, name = warehouse.rows(cluster), name_in(place)
        groups = {row["group_id"]: row for row in warehouse.groups(tables)}
        text = environment.get_template("place.html").render(
            cluster=tables.cluster,
            kind=kind,
            name=name,
            now=instant_of_ms(now_ms()),
            to_group=partial(group_path, tables.cluster),
            to_place=partial(place_path, tables.cluster),
            **known_of(tables, (Source.HISTORY,)),
            **place_values(tables, kind, name, groups, warehouse.diagnoses),
        )
        return HTMLResponse(text)

    @pages.get("/clusters/{cluster}/clients/{name}")
    def client(cluster: str, name: str) -> HTMLResponse:
        return shown(cluster, CLIENT, name)

    @pages.get("/clusters/{cluster}/hosts/{name}")
    def host(cluster: str, name: str) -> HTMLResponse:
        return shown(cluster, HOST, name)

    return pages


def place_values(
    tables: ClusterRows, kind: str, name: str, groups: dict[str, Answer], diagnoses: Diagnoses
) -> dict[str, Any]:
    """Returns the values for the template of a client or a host, by name. The groups that it left last come first. The
    episodes are those of the last week with an incident that names the client or host."""
    column = "client_id" if kind == CLIENT else "client_host"
    names = [name] if kind == CLIENT else broker_names(name)
    last = last_known(tables)
    since = None if last is None else last - RECENT
    of_groups: defaultdict[str, list[Answer]] = defaultdict(list)
    for row in _members(tables, (column, "in", names), () if since is None else (("left_at", ">=", since),)):
        of_groups[row["group_id"]].append(row)
    rows = sorted((_row(group, members, groups.get(group)) for group, members in of_groups.items()), key=_order)
    found = [] if since is None else incidents_within(tables, since, None, names=[*of_groups])
    named = {each["episode_id"] for each in found if _names(each, kind, name)}
    episodes = episodes_of([row for row in found if row["episode_id"] in named])
    return {
        "rows": rows[:GROUPS_MAX],
        "count": len(rows),
        "episodes": diagnoses.of(tables, episodes[:EPISODES_MAX]),
        "episodes_left_out": max(len(episodes) - EPISODES_MAX, 0),
    }


def _members(tables: ClusterRows, of_place: Filter, lately: Sequence[Filter]) -> list[Answer]:
    """Returns tenures that go on, and those that ended lately."""
    now = tables.rows_if_any("members", ("is_open", "=", 1), of_place, columns=COLUMNS)
    return [*now, *tables.rows_if_any("members", ("is_open", "=", 0), of_place, *lately, columns=COLUMNS)]


def _row(group_id: str, members: Sequence[Answer], group: Answer | None) -> Answer:
    gone = sorted((row for row in members if row["left_at"] is not None), key=lambda row: row["left_at"])
    return {
        "group_id": group_id,
        "status": group and group["status"],
        "lag_sum": group and group["lag_sum"],
        "members": sum(row["left_at"] is None for row in members),
        "departures": len(gone),
        "left_at": gone[-1]["left_at"] if gone else None,
        "leave_cause": gone[-1]["leave_cause"] if gone else None,
        "beside": sorted({(row["client_id"] or "", host_name(row["client_host"] or "")) for row in members}),
    }


def _order(row: Answer) -> tuple[Any, ...]:
    left = row["left_at"]
    return left is None, -(left.timestamp() if left else 0), row["group_id"]


def _names(incident: Answer, kind: str, name: str) -> bool:
    named = incident["client_id"] if kind == CLIENT else host_name(incident["client_host"] or "")
    return bool(named == name)
