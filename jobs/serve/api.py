"""Serves what the pages show to programs as JSON: `/api/v1/...`, with the fields that the command line prints with
--json.

Names in paths are percent-encoded, slashes too. Instants in answers are ISO 8601 in UTC; a question may also write
14:03 or 2h. `known_until` has for each source the instant up to which it was read; in an answer about one group, up to
which the group's partition of `__consumer_offsets` was read. `not_known` is a sentence if the question reaches beyond
the sources that it needs. Lists of groups, partitions, members and incidents come in pages (`jobs.serve.cursors`), with
the `count` of all rows. `jobs.serve.answer_models` describes the answers.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from groupledger.jobs.ask.answers import group_row, known_until
from groupledger.jobs.ask.group_activity import nearest_topics, readers, rebalances_of
from groupledger.jobs.ask.group_diff import group_diff
from groupledger.jobs.ask.group_list import GroupFilter, chosen
from groupledger.jobs.ask.group_timeline import group_timeline, owners_now
from groupledger.jobs.ask.incidents import incidents_of
from groupledger.jobs.ask.lag_answers import answer, lag_at
from groupledger.jobs.ask.offsets_at import offsets_at
from groupledger.jobs.ask.owner import owner as owner_of
from groupledger.jobs.ask.owners import owners_of
from groupledger.jobs.ask.what_if_savings import with_numbers
from groupledger.jobs.ask.what_if_stored import stored_of_group
from groupledger.jobs.ask.why import WINDOW, why
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve import answer_models as models
from groupledger.jobs.serve import capacity_routes, forecast_routes, inventory_routes, objective_routes, query_routes
from groupledger.jobs.serve.answers import Warehouse, instant_in, json_answer, known_answer
from groupledger.jobs.serve.cursors import (
    PLACES_MAX,
    Cursor,
    Limit,
    PlacesLimit,
    page_by_number,
    page_of,
    page_of_incidents,
    page_of_members,
    page_of_places,
)
from groupledger.jobs.serve.described import (
    CLUSTERS,
    GROUPS,
    LAG,
    SEVERITY,
    InCluster,
    OfGroup,
    OneOf,
    answering,
    described_router,
)
from groupledger.jobs.serve.described import HISTORY as HISTORY_TAG
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.schemas.words import GroupType, LagStatus, NoCommit, Severity, Source, words_of
from groupledger.transforms.coverage.rules.known import Time
from groupledger.transforms.lag.rules import lag_to_scale_by

# The sources that answers rest on.
TOPIC, HISTORY, INCIDENTS, SAMPLES = (Source.TOPIC,), (Source.HISTORY,), (Source.INCIDENTS,), (Source.SAMPLES,)
OF_WHY = (*HISTORY, *INCIDENTS)
PARTITION_MAX = 2**31 - 1

OfTopic = Annotated[str, Path(description="The topic.", examples=["orders.shipping-labels"])]
At = Annotated[str | None, Query(description="The instant: 2026-01-31T14:03:00Z, 14:03, or 2h; now if left out.")]
AtGiven = Annotated[str, Query(description="The instant, as 2026-01-31T14:03:00Z, 14:03 or 2h.", examples=["2h"])]
Since = Annotated[str | None, Query(description="Only from then on: 2026-01-31T14:03:00Z, 14:03, or 2h.")]
Until = Annotated[str | None, Query(description="Only before then.")]
Last = Annotated[
    int, Query(ge=1, le=PLACES_MAX, description="Only the last N; left_out is the number of earlier ones.")
]
OfStatus = Annotated[str, OneOf("status", words_of(LagStatus))]
OfType = Annotated[str, OneOf("type", words_of(GroupType))]
OfKind = Annotated[str, OneOf("kind", tuple(kind.name for kind in INCIDENT_KINDS))]
AtLeast = Annotated[str, SEVERITY, Query(description="Only this severity or higher.")]
OpenOnly = Annotated[bool, Query(alias="open", description="Only incidents that are open.")]
Policy = Annotated[str, OneOf("no_commit", words_of(NoCommit))]


def routes(warehouse: Warehouse) -> APIRouter:
    """Returns the routes of `/api/v1`, except those of acts, deployments and events, which their own modules have."""
    api = described_router()
    of_clusters(api, warehouse)
    of_a_group(api, warehouse)
    of_times(api, warehouse)
    of_causes(api, warehouse)
    of_lag(api, warehouse)
    objective_routes.api_routes(api, warehouse)
    capacity_routes.api_routes(api, warehouse)
    inventory_routes.api_routes(api, warehouse)
    query_routes.api_routes(api, warehouse)
    forecast_routes.api_routes(api, warehouse)
    return api


def of_clusters(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get("/clusters", summary="The clusters of the warehouse", **answering("clusters", CLUSTERS, models.Clusters))
    def clusters() -> Response:
        """The names of the clusters whose groups the ledger follows."""
        return json_answer({"clusters": warehouse.clusters()})

    @api.get(
        "/clusters/{cluster}/groups",
        summary="Groups, those in trouble first, page by page",
        **answering("groups", GROUPS, models.Groups),
    )
    def groups(  # noqa: PLR0913, PLR0917 - one for each parameter
        cluster: InCluster,
        q: Annotated[str | None, Query(description="A part of the name, or the whole with * in it.")] = None,
        status: Annotated[list[OfStatus] | None, Query(description="Only with one of these statuses of lag.")] = None,
        type: Annotated[list[OfType] | None, Query(description="Only of one of these types.")] = None,  # noqa: A002
        team: Annotated[str | None, Query(description="Only of this team of the settings.")] = None,
        all: Annotated[bool, Query(description="Also groups that have ended.")] = False,  # noqa: A002
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        """Each group as it is now: its generation, members and commits, the sums of its lag in the newest sampling
        round, and how many incidents are open."""
        refuse_other_teams(warehouse, team)
        wanted = GroupFilter(pattern=q, statuses=status or (), group_types=type or (), team=team, with_ended=all)
        tables = warehouse.rows(cluster)
        found = chosen(warehouse.groups(tables), wanted)
        page, following = page_of(found, limit, cursor)
        answer = {"count": len(found), "groups": page, "next": following}
        return known_answer(answer, tables, HISTORY)

    @api.get(
        "/clusters/{cluster}/topics/{topic}/readers",
        summary="The groups that read a topic, owners first",
        **answering("readers", CLUSTERS, models.Readers),
    )
    def readers_of_topic(cluster: InCluster, topic: OfTopic) -> Response:
        """The groups that own partitions of the topic now, have members that subscribe to it, or have committed offsets
        in it. If the ledger never saw the topic, the answer has the names that are most like it."""
        tables, name = warehouse.rows(cluster), name_in(topic)
        found = readers(tables, name)
        nearest = [] if found else nearest_topics(tables, name)
        return known_answer({"readers": found, "nearest_names": nearest}, tables, TOPIC)

    @api.get(
        "/clusters/{cluster}/incidents",
        summary="What went wrong in a cluster",
        **answering("incidents", CLUSTERS, models.Incidents),
    )
    def incidents(
        cluster: InCluster,
        since: Since = None,
        kind: Annotated[OfKind | None, Query(description="Only of this kind (docs/causes.md).")] = None,
        severity: AtLeast = Severity.WARNING,
        open_only: OpenOnly = False,
        limit: PlacesLimit = PLACES_MAX,
        cursor: Cursor = None,
    ) -> Response:
        """Incidents of all groups that were last seen at `since` or later, in the order in which they began."""
        tables = warehouse.rows(cluster)
        begin = instant_in(since)
        found = incidents_of(tables, None, begin, kind, severity, open_only=open_only)
        return known_answer(page_of_incidents(found, limit, cursor), tables, INCIDENTS, Time(since=begin))


def of_a_group(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get(
        "/clusters/{cluster}/groups/{group}",
        summary="A group: its row, and who owns what",
        **answering("group", GROUPS, models.GroupThen),
    )
    def group(
        cluster: InCluster, group: OfGroup, at: At = None, limit: PlacesLimit = PLACES_MAX, cursor: Cursor = None
    ) -> Response:
        """The group as it is now, and who owned each partition at the instant."""
        tables, name = warehouse.rows(cluster), name_in(group)
        row = group_row(tables, name)
        asked = instant_in(at)
        instant, owners = owners_of(tables, name, asked)
        answer = {"group": row, "at": instant, **page_of_places(owners, "owners", limit, cursor)}
        return known_answer(answer, tables, HISTORY, Time.at(asked), [name])

    @api.get(
        "/clusters/{cluster}/groups/{group}/owners",
        summary="Who owned each partition at an instant",
        **answering("owners", GROUPS, models.Owners),
    )
    def owners(
        cluster: InCluster, group: OfGroup, at: At = None, limit: PlacesLimit = PLACES_MAX, cursor: Cursor = None
    ) -> Response:
        """Each partition that the group ever owned, with its owner at the instant. The status is owned, or else
        reserved, unowned, not_born, ended or unknown."""
        tables, name = warehouse.rows(cluster), name_in(group)
        asked = instant_in(at)
        instant, found = owners_of(tables, name, asked)
        answer = {"at": instant, **page_of_places(found, "owners", limit, cursor)}
        return known_answer(answer, tables, HISTORY, Time.at(asked), [name])

    @api.get(
        "/clusters/{cluster}/groups/{group}/owner",
        summary="Who owned one partition at an instant, and why nobody did",
        **answering("owner", GROUPS, models.OwnersOfPartition),
    )
    def owner(
        cluster: InCluster,
        group: OfGroup,
        topic: Annotated[str, Query(description="The topic.", examples=["orders.shipping-labels"])],
        partition: Annotated[int, Query(ge=0, le=PARTITION_MAX, description="The partition.")],
        at: AtGiven,
    ) -> Response:
        """The owner, or several owners that shared the partition. If no owner is named, the answer has the reason. If
        the ledger never saw the group, the topic or the partition, the answer says which, with the names most like
        it."""
        instant = given("at", at)
        tables, name = warehouse.rows(cluster), name_in(group)
        found = owner_of(tables, name, topic, partition, instant)
        return known_answer({"owners": found}, tables, HISTORY, Time.at(instant), [name])

    @api.get(
        "/clusters/{cluster}/groups/{group}/members",
        summary="The present members, with what they own",
        **answering("members", GROUPS, models.Members),
    )
    def members(cluster: InCluster, group: OfGroup, limit: PlacesLimit = PLACES_MAX, cursor: Cursor = None) -> Response:
        """Each member with its client, host and instance, what it owns, and what is reserved for it while it is
        away."""
        tables, name = warehouse.rows(cluster), name_in(group)
        group_row(tables, name)
        answer = page_of_members(owners_now(tables, name), limit, cursor)
        return known_answer(answer, tables, HISTORY, names=[name])


def of_times(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get(
        "/clusters/{cluster}/groups/{group}/timeline",
        summary="What happened, record by record",
        **answering("timeline", HISTORY_TAG, models.Timeline),
    )
    def timeline(
        cluster: InCluster, group: OfGroup, since: Since = None, until: Until = None, limit: Limit = 100
    ) -> Response:
        """The last records that changed something: generations, members that came and went, partitions that moved,
        triggers of rebalances, and pauses."""
        tables, name = warehouse.rows(cluster), name_in(group)
        time = Time(since=instant_in(since), until=instant_in(until))
        _, entries, left_out = group_timeline(tables, name, time.since, time.until, limit)
        return known_answer({"entries": entries, "left_out": left_out}, tables, HISTORY, time, [name])

    @api.get(
        "/clusters/{cluster}/groups/{group}/rebalances",
        summary="The last rebalances",
        **answering("rebalances", HISTORY_TAG, models.Rebalances),
    )
    def rebalances(
        cluster: InCluster, group: OfGroup, since: Since = None, until: Until = None, limit: Limit = 100
    ) -> Response:
        """The last rebalances in the order of the log, each with what started it and what it cost."""
        tables, name = warehouse.rows(cluster), name_in(group)
        time = Time(since=instant_in(since), until=instant_in(until))
        found = rebalances_of(tables, name, time.since, time.until, limit)
        return known_answer({"rebalances": found}, tables, HISTORY, time, [name])

    @api.get(
        "/clusters/{cluster}/groups/{group}/diff",
        summary="Differences between two instants",
        **answering("diff", HISTORY_TAG, models.Differences),
    )
    def differences(
        cluster: InCluster,
        group: OfGroup,
        then: Annotated[
            str, Query(alias="from", description="The first instant: 2h, or 2026-01-31T14:03:00Z.", examples=["2h"])
        ],
        to: Annotated[str | None, Query(description="The second instant; the last that is known if left out.")] = None,
        limit: PlacesLimit = PLACES_MAX,
        cursor: Cursor = None,
    ) -> Response:
        """A row for each difference between the two instants in the group's generation, members, owners and lag."""
        begin = given("from", then)
        tables, name = warehouse.rows(cluster), name_in(group)
        now, found = group_diff(tables, name, begin, instant_in(to))
        answer = {"from": begin, "to": now, **page_by_number(found, "differences", limit, cursor)}
        return known_answer(answer, tables, HISTORY, names=[name])


def of_causes(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get(
        "/clusters/{cluster}/groups/{group}/incidents",
        summary="What went wrong, why, and what to change",
        **answering("incidents_of_group", HISTORY_TAG, models.Incidents),
    )
    def incidents_of_group(
        cluster: InCluster,
        group: OfGroup,
        since: Since = None,
        severity: AtLeast = Severity.WARNING,
        open_only: OpenOnly = False,
        limit: PlacesLimit = PLACES_MAX,
        cursor: Cursor = None,
    ) -> Response:
        """Incidents of the group that were last seen at `since` or later, in the order in which they began."""
        tables, name = warehouse.rows(cluster), name_in(group)
        group_row(tables, name)
        begin = instant_in(since)
        every = incidents_of(tables, [name], begin, None, severity, open_only=open_only)
        found = page_of_incidents(every, limit, cursor)
        return known_answer(found, tables, INCIDENTS, Time(since=begin), [name])

    @api.get(
        "/clusters/{cluster}/groups/{group}/why",
        summary="All of a group's troubles in order of time",
        **answering("why", HISTORY_TAG, models.Why),
    )
    def reasons(
        cluster: InCluster, group: OfGroup, since: Since = None, until: Until = None, limit: Last = PLACES_MAX
    ) -> Response:
        """What is wrong with the group, whose fault it is and what to change; and its incidents, rebalances, owners,
        offsets and lag in one order of time. Without `since`, the two hours before `until` or, without `until`, before
        the last instant that is known."""
        tables, name = warehouse.rows(cluster), name_in(group)
        time = Time(since=instant_in(since), until=instant_in(until))
        begin = time.since or (time.until or known_until(tables)) - WINDOW
        entries, verdict = why(tables, name, begin, time.until)
        found = {"entries": entries[-limit:], "left_out": len(entries[:-limit]), "verdict": verdict}
        return known_answer(found, tables, OF_WHY, time, [name])

    @api.get(
        "/clusters/{cluster}/groups/{group}/what-if",
        summary="Effect of other settings on rebalances, as last kept",
        **answering("what_if", HISTORY_TAG, models.WhatIfs),
    )
    def kept_what_ifs(cluster: InCluster, group: OfGroup) -> Response:
        """The answers from the newest run of `groupledger what-if --keep` that has the group, those that save most
        first."""
        tables, name = warehouse.rows(cluster), name_in(group)
        group_row(tables, name)
        answer = {"answers": with_numbers(stored_of_group(tables, name))}
        return known_answer(answer, tables, HISTORY, names=[name])


def of_lag(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get(
        "/clusters/{cluster}/groups/{group}/lag",
        summary="Lag by partition, in the last round by an instant",
        **answering("lag", LAG, models.Lag),
    )
    def lag(
        cluster: InCluster, group: OfGroup, at: At = None, limit: PlacesLimit = PLACES_MAX, cursor: Cursor = None
    ) -> Response:
        """Committed offset, end of the log, lag in records and in seconds, status and owner of each partition."""
        tables, name, asked = warehouse.rows(cluster), name_in(group), instant_in(at)
        sampled_at, rows = lag_at(tables, name, asked)
        page = page_of_places([answer(row) for row in rows], "lag", limit, cursor)
        found = {"sampled_at": sampled_at, **page}
        return known_answer(found, tables, SAMPLES, Time.at(asked), [name])

    @api.get(
        "/clusters/{cluster}/groups/{group}/lag/total",
        summary="Lag as one number, for autoscalers",
        **answering("lag_total", LAG, models.LagTotal),
    )
    def total(
        cluster: InCluster,
        group: OfGroup,
        topic: Annotated[str | None, Query(description="Only of it.")] = None,
        no_commit: Annotated[
            Policy | None, Query(description="What a partition without a commit counts as; else as the settings say.")
        ] = None,
        exclude_persistent: Annotated[bool, Query(description="Leave out lag where commits do not advance.")] = False,
    ) -> Response:
        """The lag of the newest sampling round, without partitions that the group no longer subscribes to. If no lag is
        known at all, the answer is an error with status 400, so that nobody scales by a guess."""
        policy = no_commit or warehouse.settings.lag.no_commit
        tables, name = warehouse.rows(cluster), name_in(group)
        sampled_at, every = lag_at(tables, name, None)
        rows = [row for row in every if topic in {None, row.topic}]
        found = lag_to_scale_by(rows, policy, without_persistent=exclude_persistent)
        if policy == NoCommit.ERROR and found.partitions_without_lag:
            raise InputError(
                f"The lag of {found.partitions_without_lag:,} partitions is not known, and no_commit is `error`: see"
                " the flags of the group's lag, or choose another no_commit."
            )
        if not rows:
            raise InputError(
                "The newest round has no committed offset of the group: it has ended, or has not committed there. Ask"
                " for another group or topic."
            )
        if found.lag is None:
            raise InputError(
                "No lag of the group is known: the newest round lacks the ends of its topics. Ask again after the next."
            )
        return known_answer({**asdict(found), "sampled_at": sampled_at}, tables, SAMPLES, names=[name])

    @api.get(
        "/clusters/{cluster}/groups/{group}/offsets",
        summary="The committed offsets of an instant",
        **answering("offsets", LAG, models.Offsets),
    )
    def offsets(
        cluster: InCluster, group: OfGroup, at: AtGiven, limit: PlacesLimit = PLACES_MAX, cursor: Cursor = None
    ) -> Response:
        """The committed offset of each partition, as OffsetFetch would have answered then."""
        instant = given("at", at)
        tables, name = warehouse.rows(cluster), name_in(group)
        found = {"at": instant, **page_of_places(offsets_at(tables, [name], instant), "offsets", limit, cursor)}
        return known_answer(found, tables, TOPIC, Time.at(instant), [name])


def given(parameter: str, text: str) -> datetime:
    """Returns the instant in a required parameter. Raises InputError, which names the parameter, if `text` is empty."""
    found = instant_in(text)
    if found is None:
        raise InputError(f"Give an instant: {parameter}=2h.")
    return found


def refuse_other_teams(warehouse: Warehouse, team: str | None) -> None:
    """Raises InputError for a team that is not in the settings."""
    teams = warehouse.settings.team_patterns()
    if team is not None and team not in teams:
        raise InputError(f"team is one of {', '.join(teams)}." if teams else "The settings have no teams.")
