"""Serves the pages that answer one question: why a group is in trouble, what changed between two instants, who reads a
topic.

They show what `groupledger why`, `diff` and `readers` print. Each instant in them is a link to the group's page at that
instant.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from groupledger.jobs.ask.answers import known_until
from groupledger.jobs.ask.group_activity import nearest_topics, readers
from groupledger.jobs.ask.group_diff import group_diff
from groupledger.jobs.ask.lag_sums import sums_of_round
from groupledger.jobs.ask.rounds import last_round
from groupledger.jobs.ask.verdict import summaries
from groupledger.jobs.ask.why import why
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve.answers import Warehouse, instant_in, known_of
from groupledger.schemas.words import Source
from groupledger.transforms.coverage.rules.known import Time

if TYPE_CHECKING:
    from jinja2 import Environment

    from groupledger.jobs.ask.cluster_rows import ClusterRows

WINDOW = timedelta(hours=2)
ENTRIES_MAX = 1_000
# The sources that the pages rest on.
TOPIC, HISTORY = (Source.TOPIC,), (Source.HISTORY,)
OF_WHY = (*HISTORY, Source.INCIDENTS)
OF_LAG = ("lag_sum", "partitions_without_lag", "lag_seconds_max", "status")


def routes(warehouse: Warehouse, environment: Environment) -> APIRouter:
    """Returns the routes of the three pages."""
    pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

    def shown(template: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(environment.get_template(template).render(**values))

    @pages.get("/clusters/{cluster}/groups/{group}/why")
    def why_page(cluster: str, group: str, since: str | None = None, until: str | None = None) -> HTMLResponse:
        tables, name = warehouse.rows(cluster), name_in(group)
        end = instant_in(until)
        last = end or known_until(tables)
        begin = instant_in(since) or last - WINDOW
        entries, verdict = why(tables, name, begin, end)
        return shown(
            "why.html",
            cluster=tables.cluster,
            name=name,
            since=begin,
            until=last,
            entries=entries[-ENTRIES_MAX:],
            left_out=max(len(entries) - ENTRIES_MAX, 0),
            verdict=verdict,
            episodes=summaries(verdict),
            **known_of(tables, OF_WHY, Time(since=instant_in(since), until=end), [name]),
        )

    @pages.get("/clusters/{cluster}/groups/{group}/diff")
    def diff_page(
        cluster: str, group: str, then: Annotated[str | None, Query(alias="from")] = None, to: str | None = None
    ) -> HTMLResponse:
        tables, name = warehouse.rows(cluster), name_in(group)
        now = instant_in(to)
        begin = instant_in(then) or (now or known_until(tables)) - WINDOW
        now, rows = group_diff(tables, name, begin, now)
        known = known_of(tables, HISTORY, names=[name])
        return shown("diff.html", cluster=tables.cluster, name=name, then=begin, now=now, rows=rows, **known)

    @pages.get("/clusters/{cluster}/topics/{topic}")
    def topic_page(cluster: str, topic: str) -> HTMLResponse:
        tables, name = warehouse.rows(cluster), name_in(topic)
        return shown(
            "topic.html",
            **known_of(tables, TOPIC),
            cluster=tables.cluster,
            topic=name,
            **readers_with_lag(tables, name),
        )

    return pages


def readers_with_lag(tables: ClusterRows, topic: str) -> dict[str, Any]:
    """Returns the groups that read a topic, each with its lag in the topic in the last sampling round; the time of that
    round; and, if the ledger never saw the topic, the topics with similar names."""
    sampled_at = last_round(tables, "lag") if tables.exists("lag") else None
    sums = [] if sampled_at is None else sums_of_round(tables, sampled_at, None, by_topic=True)
    of_group = {row["group_id"]: row for row in sums if row["topic"] == topic}
    found = [
        {**row, **{name: of_group.get(row["group_id"], {}).get(name) for name in OF_LAG}}
        for row in readers(tables, topic)
    ]
    return {"readers": found, "nearest": [] if found else nearest_topics(tables, topic), "sampled_at": sampled_at}
