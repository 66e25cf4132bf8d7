"""Serves a group's capacity as JSON, and as the sentences about it on the group's page. `groupledger capacity` prints
the same findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from groupledger.jobs.ask.capacity import WINDOW, capacity_of, capacity_within, sentences
from groupledger.jobs.ask.rounds import last_round
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve.answer_models import GroupCapacity
from groupledger.jobs.serve.answers import Warehouse, instant_in, known_answer
from groupledger.jobs.serve.described import LAG, InCluster, OfGroup, answering
from groupledger.schemas.words import CapacityFinding, Source
from groupledger.transforms.coverage.rules.known import Time

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows

MEMBERS_MAX, ASKED_MAX = 1_000, 10
SINCE = Query(description="Rounds from then on; of the hour before the last one if left out.")
UNTIL = Query(description="Rounds up to then.")
MEMBERS = Query(description="Also compute the result for N members; may be given several times.", max_length=ASKED_MAX)


def api_routes(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get(
        "/clusters/{cluster}/groups/{group}/capacity",
        summary="Whether a group has enough members",
        **answering("capacity", LAG, GroupCapacity),
    )
    def capacity(
        cluster: InCluster,
        group: OfGroup,
        since: Annotated[str | None, SINCE] = None,
        until: Annotated[str | None, UNTIL] = None,
        members: Annotated[list[Annotated[int, Query(ge=1, le=MEMBERS_MAX)]] | None, MEMBERS] = None,
    ) -> Response:
        """How many records a second a member processes and the partitions receive, and how many members would be
        enough, or why more members would not help. Also what an autoscaler may use besides the sum of lag."""
        tables, name = warehouse.rows(cluster), name_in(group)
        time = Time(since=instant_in(since), until=instant_in(until))
        policy = warehouse.settings.lag.no_commit
        found = capacity_of(tables, name, policy, time.since, time.until, members or ())
        answer = {**found, "sentences": [*sentences(found)]}
        return known_answer(answer, tables, (Source.SAMPLES,), time, [name])


def capacity_line(tables: ClusterRows, name: str, no_commit: str, until: datetime) -> str | None:
    """Returns sentences about capacity from the rounds of the hour before `until`. Returns None if there is no round,
    if the group had no partition in the rounds, or if they allow no finding."""
    last = last_round(tables, "lag", until) if tables.exists("lag") else None
    if last is None:
        return None
    found = capacity_within(tables, name, no_commit, until - WINDOW, last)
    is_known = found["partitions"] and found["findings"] != [CapacityFinding.UNKNOWN]
    return " ".join(sentences(found)) if is_known else None
