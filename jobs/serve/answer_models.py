"""Describes the answers of `/api/v1` (`jobs.serve.api`) as models. An answer has rows (`jobs.ask.answer_models`) and
the instants up to which the ledger's sources were read. A list that comes in pages also has the cursor of the next
page."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from groupledger.jobs.ask import answer_models as rows
from groupledger.jobs.ask.answer_models import Long, Row, Untrusted


class Problem(Row):
    """Problem details (RFC 9457): why a question is not answered."""

    type: str
    title: str
    status: int
    detail: Untrusted
    """What is wrong and what to do, in a sentence."""


class Answer(Row):
    """An answer from the ledger."""

    known_until: rows.Known
    not_known: str | None
    """A sentence about the part of the question that the ledger can't know; null if it knows all of it."""


class Page(Answer):
    """A page of a list."""

    count: int
    """The number of rows on all pages."""
    next: str | None
    """The cursor of the next page; null on the last page."""


class Clusters(Row):
    clusters: list[str]


class QueryParameter(Row):
    name: str
    value: str | None
    """The default of the parameter; null if a request must give a value."""
    meaning: str


class Query(Row):
    name: str
    summary: str
    parameters: list[QueryParameter]


class Queries(Row):
    queries: list[Query]


class QueryRows(Row):
    columns: list[str]
    rows: list[Annotated[dict[str, Any], Field(json_schema_extra={"x-untrusted": True})]]
    """The rows of the result, each an object with the values by column."""
    is_cut: bool
    """Whether the query has more rows than this answer."""


class Groups(Page):
    groups: list[rows.ListedGroup]  # type: ignore[valid-type]


class Readers(Answer):
    readers: list[rows.Reader]
    nearest_names: list[Untrusted]
    """If the ledger never saw the topic, the topics whose names are most like it; otherwise empty."""


class Incidents(Page):
    incidents: list[rows.Incident]  # type: ignore[valid-type]


class Owners(Page):
    at: datetime | None
    """The instant at which these were the owners: the one in the request, otherwise the last that is known. Null if
    none is known."""
    owners: list[rows.OwnerOfPartition]


class GroupThen(Owners):
    group: rows.Group  # type: ignore[valid-type]


class OwnersOfPartition(Answer):
    owners: list[rows.Owner]


class Members(Page):
    members: list[rows.PresentMember]


class Timeline(Answer):
    entries: list[rows.TimelineEntry]  # type: ignore[valid-type]
    left_out: int
    """The number of earlier records that are left out."""


class Rebalances(Answer):
    rebalances: list[rows.Rebalance]  # type: ignore[valid-type]


class WhatIfs(Answer):
    answers: list[rows.KeptWhatIf]  # type: ignore[valid-type]


class Differences(Page):
    from_: Annotated[datetime, Field(alias="from")]
    to: datetime
    differences: list[rows.Difference]


class Why(Answer):
    entries: list[rows.Entry]
    left_out: int
    """The number of earlier entries that are left out."""
    verdict: rows.Verdict


class Lag(Page):
    sampled_at: datetime
    lag: list[rows.PartitionLag]  # type: ignore[valid-type]


class LagTotal(Answer):
    """Lag as one number."""

    lag: Long
    persistent_lag: Long
    """The part of the lag in partitions whose committed offset does not advance; more consumers would not reduce it."""
    partitions_without_lag: int
    sampled_at: datetime


class Acts(Answer):
    acts: list[rows.Act]
    left_out: int
    """The number of earlier acts that are left out."""


class Deploys(Answer):
    deploys: list[rows.Deploy]
    left_out: int
    """The number of earlier deployments that are left out."""


class DeployThen(Answer):
    at: datetime
    deploy: rows.Deploy | None
    """The deployment in progress at the instant, or the last one before it; null if none is known."""
    sentences: list[Untrusted]
    """Sentences about the deployment, its cost, and the cost of earlier ones."""
    no_deploy: str | None
    """Why the replacement of members at the instant is not a deployment; null if there was no such replacement."""


class Failover(Answer):
    at: datetime
    """The instant of the commits, which both ledgers know."""
    target: str
    sentence: Untrusted
    partitions: list[rows.FailoverPartition]


class Objectives(Answer):
    counted_until: datetime | None
    """The instant up to which minutes are counted; null if the settings have no objectives."""
    objectives: list[rows.Objective]


class Forecasts(Page):
    sampled_at: datetime
    """The sampling round that the answer is about."""
    forecasts: list[rows.Forecast]
    offsets_expire: rows.ExpiringOffsets | None
    """The offsets of the group that expire first; null if none will expire as things are, or if the request has
    `at`."""


class GroupCapacity(Answer, rows.Capacity):
    sentences: list[Untrusted]
    """One sentence for each finding."""


class Inventory(Answer):
    clients: list[rows.Client]


class Offsets(Page):
    at: datetime
    offsets: list[rows.CommittedOffset]
