"""The JSON of the pages, for programs: `/api/v1/...`, with the fields that the command line prints with --json.

Names in paths are percent-encoded, slashes too. Instants are ISO 8601 in UTC in answers, and in questions
also 14:03 or 2h. `known_until` has for each source the instant until which it was read (of a group its partition of
the log), and `not_known` a sentence where the question reaches beyond the sources that it needs.
Lists of groups, and those by partition or member of a group, come in pages (`jobs.serve.cursors`), with the `count` of
all rows.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from groupledger.jobs.ask.answers import group_row, known_until
from groupledger.jobs.ask.group_activity import nearest_topics, readers, rebalances_of
from groupledger.jobs.ask.group_diff import group_diff
from groupledger.jobs.ask.group_list import Wanted, chosen
from groupledger.jobs.ask.group_timeline import group_timeline, owners_now
from groupledger.jobs.ask.incidents import incidents_of
from groupledger.jobs.ask.lag_answers import answer, lag_at
from groupledger.jobs.ask.offsets_at import offsets_at
from groupledger.jobs.ask.owners import owners_of
from groupledger.jobs.ask.what_if_kept import kept_of_group
from groupledger.jobs.ask.what_if_spared import with_numbers
from groupledger.jobs.ask.why import WINDOW, why
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve import capacity_routes, objective_routes
from groupledger.jobs.serve.answers import Warehouse, instant_in, json_answer, known_answer
from groupledger.jobs.serve.cursors import (
    PLACES_MAX,
    Cursor,
    Limit,
    PlacesLimit,
    page_by_number,
    page_of,
    page_of_members,
    page_of_places,
)
from groupledger.schemas.words import NoCommit, Severity, Source, words_of
from groupledger.transforms.coverage.rules.known import Time
from groupledger.transforms.lag.rules import lag_to_scale_by

# The sources that answers rest on.
TOPIC, HISTORY, INCIDENTS = (Source.TOPIC,), (Source.HISTORY,), (Source.INCIDENTS,)
OF_WHY = (*HISTORY, *INCIDENTS)
At = Annotated[str | None, Query(description="The instant: 2026-01-31T14:03:00Z, 14:03, or 2h; now if left out.")]
Since = Annotated[str | None, Query(description="Only from then on.")]
Until = Annotated[str | None, Query(description="Only before then.")]


def routes(warehouse: Warehouse) -> APIRouter:
    """Returns the routes of a warehouse."""
    api = APIRouter(prefix="/api/v1", default_response_class=Response)
    of_clusters(api, warehouse)
    of_a_group(api, warehouse)
    of_times(api, warehouse)
    of_lag(api, warehouse)
    objective_routes.api_routes(api, warehouse)
    capacity_routes.api_routes(api, warehouse)
    return api


def of_clusters(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get("/clusters", summary="The clusters of the warehouse")
    def clusters() -> Response:
        return json_answer({"clusters": warehouse.clusters()})

    @api.get("/clusters/{cluster}/groups", summary="Groups, those in trouble first, page by page")
    def groups(  # noqa: PLR0913, PLR0917 - one for each parameter
        cluster: str,
        q: Annotated[str | None, Query(description="A part of the name, or the whole with * in it.")] = None,
        status: Annotated[list[str] | None, Query(description="Only with one of these statuses of lag.")] = None,
        type: Annotated[list[str] | None, Query(description="Only of one of these types.")] = None,  # noqa: A002
        team: str | None = None,
        all: Annotated[bool, Query(description="Also groups that have ended.")] = False,  # noqa: A002
        limit: Limit = 100,
        cursor: str | None = None,
    ) -> Response:
        wanted = Wanted(pattern=q, statuses=status or (), group_types=type or (), team=team, with_ended=all)
        tables = warehouse.rows(cluster)
        found = chosen(warehouse.groups(tables), wanted)
        page, following = page_of(found, limit, cursor)
        answer = {"count": len(found), "groups": page, "next": following}
        return known_answer(answer, tables, HISTORY)

    @api.get("/clusters/{cluster}/topics/{topic}/readers", summary="The groups that read a topic, owners first")
    def readers_of_topic(cluster: str, topic: str) -> Response:
        tables, name = warehouse.rows(cluster), name_in(topic)
        found = readers(tables, name)
        nearest = [] if found else nearest_topics(tables, name)
        return known_answer({"readers": found, "nearest_names": nearest}, tables, TOPIC)

    @api.get("/clusters/{cluster}/incidents", summary="What went wrong in a cluster")
    def incidents(
        cluster: str, since: Since = None, kind: str | None = None, severity: str = Severity.WARNING
    ) -> Response:
        tables = warehouse.rows(cluster)
        begin = instant_in(since)
        found = incidents_of(tables, None, begin, kind, known(severity))
        return known_answer({"incidents": found}, tables, INCIDENTS, Time(since=begin))


def of_a_group(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get("/clusters/{cluster}/groups/{group}", summary="A group: its row, its lag, and who owns what")
    def group(
        cluster: str, group: str, at: At = None, limit: PlacesLimit = PLACES_MAX, cursor: Cursor = None
    ) -> Response:
        tables, name = warehouse.rows(cluster), name_in(group)
        row = group_row(tables, name)
        asked = instant_in(at)
        instant, owners = owners_of(tables, name, asked)
        answer = {"group": row, "at": instant, **page_of_places(owners, "owners", limit, cursor)}
        return known_answer(answer, tables, HISTORY, Time.at(asked), [name])

    @api.get("/clusters/{cluster}/groups/{group}/owners", summary="Who owned each partition at an instant")
    def owners(
        cluster: str, group: str, at: At = None, limit: PlacesLimit = PLACES_MAX, cursor: Cursor = None
    ) -> Response:
        tables, name = warehouse.rows(cluster), name_in(group)
        asked = instant_in(at)
        instant, found = owners_of(tables, name, asked)
        answer = {"at": instant, **page_of_places(found, "owners", limit, cursor)}
        return known_answer(answer, tables, HISTORY, Time.at(asked), [name])

    @api.get("/clusters/{cluster}/groups/{group}/members", summary="The present members, with what they own")
    def members(cluster: str, group: str, limit: PlacesLimit = PLACES_MAX, cursor: Cursor = None) -> Response:
        tables, name = warehouse.rows(cluster), name_in(group)
        group_row(tables, name)
        answer = page_of_members(owners_now(tables, name), limit, cursor)
        return known_answer(answer, tables, HISTORY, names=[name])


def of_times(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get("/clusters/{cluster}/groups/{group}/timeline", summary="What happened, record by record")
    def timeline(cluster: str, group: str, since: Since = None, until: Until = None, limit: Limit = 100) -> Response:
        tables, name = warehouse.rows(cluster), name_in(group)
        time = Time(since=instant_in(since), until=instant_in(until))
        _, entries, left_out = group_timeline(tables, name, time.since, time.until, limit)
        return known_answer({"entries": entries, "left_out": left_out}, tables, HISTORY, time, [name])

    @api.get("/clusters/{cluster}/groups/{group}/rebalances", summary="The last rebalances")
    def rebalances(cluster: str, group: str, since: Since = None, until: Until = None, limit: Limit = 100) -> Response:
        tables, name = warehouse.rows(cluster), name_in(group)
        time = Time(since=instant_in(since), until=instant_in(until))
        found = rebalances_of(tables, name, time.since, time.until, limit)
        return known_answer({"rebalances": found}, tables, HISTORY, time, [name])

    @api.get("/clusters/{cluster}/groups/{group}/incidents", summary="What went wrong, why, and what to change")
    def incidents_of_group(cluster: str, group: str, since: Since = None, severity: str = Severity.WARNING) -> Response:
        tables, name = warehouse.rows(cluster), name_in(group)
        group_row(tables, name)
        begin = instant_in(since)
        found = incidents_of(tables, [name], begin, None, known(severity))
        return known_answer({"incidents": found}, tables, INCIDENTS, Time(since=begin), [name])

    @api.get(
        "/clusters/{cluster}/groups/{group}/what-if", summary="What other settings would have spared, as last kept"
    )
    def kept_what_ifs(cluster: str, group: str) -> Response:
        tables, name = warehouse.rows(cluster), name_in(group)
        group_row(tables, name)
        answer = {"answers": with_numbers(kept_of_group(tables, name))}
        return known_answer(answer, tables, HISTORY, names=[name])

    @api.get("/clusters/{cluster}/groups/{group}/diff", summary="What is different between two instants")
    def differences(
        cluster: str,
        group: str,
        then: Annotated[str, Query(alias="from", description="The one instant: 2h, or 2026-01-31T14:03:00Z.")],
        to: Annotated[str | None, Query(description="The other; the last that is known if left out.")] = None,
        limit: PlacesLimit = PLACES_MAX,
        cursor: Cursor = None,
    ) -> Response:
        begin = instant_in(then)
        if begin is None:
            raise InputError("Give an instant: from=2h.")
        tables, name = warehouse.rows(cluster), name_in(group)
        now, found = group_diff(tables, name, begin, instant_in(to))
        answer = {"from": begin, "to": now, **page_by_number(found, "differences", limit, cursor)}
        return known_answer(answer, tables, HISTORY, names=[name])

    @api.get("/clusters/{cluster}/groups/{group}/why", summary="All of a group's trouble in the order of time")
    def reasons(cluster: str, group: str, since: Since = None, until: Until = None) -> Response:
        tables, name = warehouse.rows(cluster), name_in(group)
        time = Time(since=instant_in(since), until=instant_in(until))
        begin = time.since or (time.until or known_until(tables)) - WINDOW
        entries, verdict = why(tables, name, begin, time.until)
        return known_answer({"entries": entries, "verdict": verdict}, tables, OF_WHY, time, [name])


def of_lag(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get("/clusters/{cluster}/groups/{group}/lag", summary="Lag by partition, in the last round by an instant")
    def lag(
        cluster: str, group: str, at: At = None, limit: PlacesLimit = PLACES_MAX, cursor: Cursor = None
    ) -> Response:
        tables, name, asked = warehouse.rows(cluster), name_in(group), instant_in(at)
        sampled_at, rows = lag_at(tables, name, asked)
        page = page_of_places([answer(row) for row in rows], "lag", limit, cursor)
        found = {"sampled_at": sampled_at, **page}
        return known_answer(found, tables, (Source.SAMPLES,), Time.at(asked), [name])

    @api.get("/clusters/{cluster}/groups/{group}/lag/total", summary="Lag as one number, for autoscalers")
    def total(
        cluster: str,
        group: str,
        topic: Annotated[str | None, Query(description="Only of it.")] = None,
        no_commit: Annotated[
            str | None, Query(description="What a partition without a commit counts as; else as the settings say.")
        ] = None,
        exclude_persistent: Annotated[bool, Query(description="Leave out lag that stays while commits stand.")] = False,
    ) -> Response:
        policy = known_policy(no_commit or warehouse.settings.lag.no_commit)
        sampled_at, every = lag_at(warehouse.rows(cluster), name_in(group), None)
        rows = [row for row in every if topic in {None, row.topic}]
        found = lag_to_scale_by(rows, policy, without_persistent=exclude_persistent)
        if policy == NoCommit.ERROR and found.partitions_without_lag:
            raise InputError(
                f"The lag of {found.partitions_without_lag:,} partitions is not known, and no_commit is error: see the"
                " flags of the group's lag."
            )
        if found.lag is None:
            raise InputError("No lag of the group is known: a round has not seen the ends of its topics.")
        return json_answer({**asdict(found), "sampled_at": sampled_at})

    @api.get("/clusters/{cluster}/groups/{group}/offsets", summary="The committed offsets of an instant")
    def offsets(
        cluster: str,
        group: str,
        at: Annotated[str, Query(description="The instant, as 2026-01-31T14:03:00Z or 2h.")],
        limit: PlacesLimit = PLACES_MAX,
        cursor: Cursor = None,
    ) -> Response:
        instant = instant_in(at)
        if instant is None:
            raise InputError("Give an instant: at=2h.")
        tables, name = warehouse.rows(cluster), name_in(group)
        found = {"at": instant, **page_of_places(offsets_at(tables, [name], instant), "offsets", limit, cursor)}
        return known_answer(found, tables, TOPIC, Time.at(instant), [name])


def known_policy(no_commit: str) -> str:
    if no_commit not in words_of(NoCommit):
        raise InputError(f"no_commit is one of {', '.join(words_of(NoCommit))}.")
    return no_commit


def known(severity: str) -> str:
    if severity not in words_of(Severity):
        raise InputError(f"A severity is one of {', '.join(words_of(Severity))}.")
    return severity
