"""Calls the rules of incidents once for each subject, in Spark's tasks.

judged(facts, rules, ...)              the incidents, and a word on each group that was judged
incidents(facts, rules, ...)           the incidents alone
incidents_of_cluster(shared, ...)      the incidents of coordinators' faults as a whole
incidents_of_partitions(samples, ...)  the incidents of partitions of `__consumer_offsets`
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as T

from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.table import PARTITION, TOPIC, column, struct
from groupledger.transforms.by_group import by_group
from groupledger.transforms.incidents.commit_steps import NEXT_COLUMNS
from groupledger.transforms.incidents.incidents import FACT_ORDER, OF_GROUP
from groupledger.transforms.incidents.rules import (
    Commit,
    CommitStep,
    CoordinatorEvent,
    EndSample,
    GroupFacts,
    GroupState,
    HeldPartition,
    LagRound,
    LagStretch,
    OffsetEvent,
    OffsetReturn,
    RebalanceStretch,
    Rules,
    request_fact,
)
from groupledger.transforms.incidents.rules import incidents as incidents_of
from groupledger.transforms.incidents.rules.coordinator_faults import Coordinators
from groupledger.transforms.incidents.rules.settling import settling
from groupledger.transforms.troubles import stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from groupledger.transforms.incidents.rules.coordinator_faults import CoordinatorFault
    from groupledger.transforms.troubles import Report

    Row = dict[str, Any]

OF_TABLE = INCIDENTS.without("cluster")
WORD = (
    column("may_change_until_ms", T.LongType(), "Until then, time alone may change the group's incidents."),
    column("waits_for_commits", T.BooleanType(), "Whether any commit may change them."),
    column(
        "away",
        T.ArrayType(struct(TOPIC, PARTITION, column("at_ms", T.LongType(), "When it was lost."))),
        "The offsets that were lost, and that the group has not come back for.",
    ),
)
"""What `rules.settling` says of a judged group."""
JUDGED = struct(*OF_TABLE, *WORD)


@dataclass(frozen=True, kw_only=True)
class OfCluster:
    """What all groups of a cluster share: until when the topic was read, the coordinators' faults, and which broker
    coordinated when."""

    topic_until_ms: int | None = None
    faults: Sequence[CoordinatorFault] = ()
    coordinators: Coordinators = field(default_factory=Coordinators)


ALONE = OfCluster()


def judged(
    facts: DataFrame, rules: Rules, as_of_ms: int, report: Report = stop, shared: OfCluster = ALONE
) -> DataFrame:
    """Returns the rows of the table, without `cluster`, and a row without `incident_id` for each group that was judged,
    in which the columns of `WORD` are filled."""
    nothing = dict.fromkeys(JUDGED.names)

    def judge(subject: str, of_subject: Iterator[Row]) -> Iterator[Row]:
        of_group = _group_facts(subject, of_subject, as_of_ms)
        of_group.topic_until_ms = shared.topic_until_ms
        of_group.faults, of_group.coordinators = shared.faults, shared.coordinators
        rows = incidents_of(of_group, rules)
        yield from ({**nothing, **row} for row in rows)
        yield {**nothing, "group_id": of_group.group_id, **settling(of_group, rows, rules)}

    return by_group(facts, ["subject"], [*FACT_ORDER], judge, JUDGED, _of_groups(report))


def incidents(
    facts: DataFrame, rules: Rules, as_of_ms: int, report: Report = stop, shared: OfCluster = ALONE
) -> DataFrame:
    """Returns the rows of the table, without `cluster`."""
    found = judged(facts, rules, as_of_ms, report, shared)
    return found.where("incident_id IS NOT NULL").select(*OF_TABLE.names)


def incidents_of_cluster(shared: OfCluster, rules: Rules, as_of_ms: int) -> pa.Table:
    """Returns the incidents that are about a coordinator's fault as a whole, in the columns of `incidents` without
    `cluster`."""
    rows = incidents_of(GroupFacts(None, as_of_ms, faults=shared.faults), rules)
    return pa.Table.from_pylist(rows, arrow_schema(OF_TABLE))


def incidents_of_partitions(samples: Iterable[Mapping[str, Any]], rules: Rules, as_of_ms: int) -> pa.Table:
    """Returns the incidents of partitions of `__consumer_offsets`, by samples that show an open transaction."""
    of_partition: defaultdict[int, list[EndSample]] = defaultdict(list)
    for row in samples:
        of_partition[row["partition"]].append(EndSample(**row))
    rows: list[Row] = []
    for of_one in of_partition.values():
        in_order = sorted(of_one, key=lambda each: each.sampled_at_ms)
        rows += incidents_of(GroupFacts(None, as_of_ms, samples=in_order), rules)
    return pa.Table.from_pylist(rows, arrow_schema(OF_TABLE))


def _of_groups(report: Report) -> Report:
    def report_group(subject: str, error: Exception) -> None:
        report(subject.removeprefix(OF_GROUP), error)

    return report_group


def _group_facts(subject: str, rows: Iterable[Row], as_of_ms: int) -> GroupFacts:
    facts = GroupFacts(subject.removeprefix(OF_GROUP), as_of_ms)
    for row in rows:
        source = row["source"]
        fact = json.loads(row["fact"])
        getattr(facts, source).append(_MAKERS[source](fact) if source in _MAKERS else fact)
    return facts


def _maker(kind: type[Any]) -> Callable[[Row], Any]:
    """Returns a function that makes a dataclass of the columns that have its fields' names."""
    names = [field.name for field in fields(kind)]
    return lambda row: kind(**{name: row[name] for name in names})


_commit = _maker(Commit)


def _step(row: Row) -> CommitStep:
    following = None
    if row["next_kafka_offset"] is not None:
        following = _commit({**row, **{name: row[f"next_{name}"] for name in NEXT_COLUMNS}})
    values = {field.name: row[field.name] for field in fields(CommitStep) if field.name in row}
    return CommitStep(commit=_commit(row), next_commit=following, **values)


def _return(row: Row) -> OffsetReturn:
    following = _commit({**row, **{name: row[f"next_{name}"] for name in NEXT_COLUMNS}})
    values = {field.name: row[field.name] for field in fields(OffsetReturn) if field.name in row}
    return OffsetReturn(commit=following, **values)


_MAKERS: dict[str, Callable[[Row], Any]] = {
    "requests": request_fact,
    "events": _maker(CoordinatorEvent),
    "commits": _commit,
    "steps": _step,
    "records": _maker(GroupState),
    "stretches": _maker(RebalanceStretch),
    "held": _maker(HeldPartition),
    "lag_stretches": _maker(LagStretch),
    "lag_rounds": _maker(LagRound),
    "offset_events": _maker(OffsetEvent),
    "returns": _return,
}
