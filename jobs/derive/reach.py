"""Decides how far back a pass looks for the groups that it judges, and which incidents it leaves as they are.

An incident that ended `incidents.final_after_s` before the last pass is final: the pass neither reads it nor computes
it again. For all others a pass reads what the ledger knows of the group since as long before, by the end of each row.
So the cost of a group that has incidents for years depends on the last weeks. Three things make a pass look back
further, for these groups alone:

- an episode that goes on began earlier, or the group has come back for an offset that was lost earlier: it reads as
  long before that,
- a row of long ago is new, as a log that is imported late: it reads and judges all of the group's past,
- a member has an incident again in the generation of one before all that the pass reads: both are one incident.

All of the past is judged after a new release or other settings. Incidents that are older than the history, since
retention has removed it, stay.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from groupledger.jobs.process.chunks import chunks
from groupledger.jobs.warehouse.delta_log import properties_of
from groupledger.jobs.warehouse.ledger import ingested_since
from groupledger.jobs.warehouse.retention import read_history_floor_ms
from groupledger.jobs.warehouse.tables import NAMED_MAX, ended_since, every_row, is_among
from groupledger.schemas.instants import instant_of_ms, ms_of
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.schemas.tables.watermarks import WATERMARKS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from groupledger.jobs.derive.judged_groups import Judged
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.tables import Condition
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.incidents.rules.coordinator_faults import CoordinatorFault

_EPISODE = ("group_id", "episode_id", "incident_id", "first_seen_at", "last_seen_at", "is_open")
_OF_LOGS = {REQUESTS: "happened_at", COORDINATOR_EVENTS: "logged_at"}


def time_column(table: Table) -> str | None:
    """Returns the column that says when a row ended, or when it happened; None if a table has the present only."""
    return _OF_LOGS.get(table, table.retention_column)


@dataclass(frozen=True)
class Reach:
    """Says that a pass reads what did not end before `since_ms`, and judges the incidents that did not end before
    `final_ms`. None stands for all of the past, of which retention has removed what ended before `floor_ms`."""

    since_ms: int | None = None
    final_ms: int | None = None
    floor_ms: int = 0

    def within(self, table: Table) -> Condition:
        """Returns the condition for the rows of a table to be read."""
        if self.since_ms is None:
            return every_row
        if table == COORDINATOR_RECORDS:
            return ingested_since(self.since_ms)
        if table.end_column is not None:
            return ended_since(table, self.since_ms)
        since = instant_of_ms(self.since_ms)
        if table == WATERMARKS:
            return lambda column: column("sample_date") >= since.date()
        name = time_column(table)
        return every_row if name is None else lambda column: column(name) >= since

    def faults(self, faults: Iterable[CoordinatorFault]) -> list[CoordinatorFault]:
        return [fault for fault in faults if self.since_ms is None or fault.until_ms >= self.since_ms]

    def replaced(self, incidents: Collection[str]) -> pc.Expression:
        """Returns the condition for rows of the table that a pass replaces: those that it judges, and those with the
        ids of the `incidents` that it found, as far back as it reads."""
        is_same = is_among("incident_id", incidents)
        if self.final_ms is None:
            return is_same | _goes_on_after(self.floor_ms)
        is_read = pc.field("last_seen_at") >= instant_of_ms(self.since_ms or 0)
        return is_read & (is_same | _goes_on_after(self.final_ms))

    def judged(self, rows: pa.Table) -> pa.Table:
        """Returns those incidents that a pass judges, of all that it computed."""
        return rows if self.final_ms is None else rows.filter(_goes_on_after(self.final_ms))


def _goes_on_after(at_ms: int) -> pc.Expression:
    return pc.field("is_open") | (pc.field("last_seen_at") >= instant_of_ms(at_ms))


@dataclass(frozen=True)
class Piece:
    """Groups that are judged together, by names; None stands for all groups except `others`."""

    reach: Reach
    names: Sequence[str] | None
    others: Collection[str] = ()


@dataclass(frozen=True)
class ToJudge:
    """The names of the groups to judge, of those of which the whole past is judged, and of those that have come back
    for a lost offset. None stands for all groups."""

    names: Collection[str] | None = None
    whole: Collection[str] | None = None
    back: Collection[str] = ()


class Plan:
    """Says in which pieces groups are judged, if incidents are final after `after_ms`."""

    def __init__(self, ledger: Ledger, groups: ToJudge, before: Judged, after_ms: int) -> None:
        self._ledger, self._groups, self._before, self._after_ms = ledger, groups, before, after_ms
        self._final_ms = max(before.until_ms - after_ms, 0)
        self._near = Reach(max(self._final_ms - after_ms, 0), self._final_ms)

    @cached_property
    def whole(self) -> Reach:
        properties = (properties_of(self._ledger.warehouse, table) for table in (GENERATIONS, MEMBERS, ASSIGNMENTS))
        return Reach(floor_ms=read_history_floor_ms(properties, self._ledger.storage, self._ledger.cluster) or 0)

    @cached_property
    def _stored(self) -> pa.Table:
        """Returns the incidents of the groups that did not end before the nearest reach."""
        is_near = pc.field("last_seen_at") >= instant_of_ms(self._near.since_ms or 0)
        names = self._groups.names
        if names is not None and len(names) <= NAMED_MAX:
            is_near &= is_among("group_id", names)
        return self._ledger.arrow(INCIDENTS, is_near, _EPISODE)

    def pieces(self) -> Iterator[Piece]:
        names, whole = self._groups.names, self._groups.whole
        if whole is None:
            yield Piece(self.whole, None)
            return
        if names is not None and not names:
            return
        far: defaultdict[int, set[str]] = defaultdict(set)
        for name, first_ms in self._needed_ms().items():
            if first_ms < self._final_ms and name not in whole and (names is None or name in names):
                far[self._since_ms(first_ms)].add(name)
        others = {*whole}.union(*far.values())
        if names is None:
            yield Piece(self._near, None, others)
        else:
            yield from _by_name(self._near, {*names} - others)
        for since_ms, of_reach in sorted(far.items()):
            yield from _by_name(Reach(since_ms, self._final_ms), of_reach)
        if whole:
            yield from _by_name(self.whole, whole)

    def _needed_ms(self) -> dict[str, int]:
        """Returns, by group, when the first episode began that is not final, or its first offset was lost that somebody
        came back for."""
        episodes = self._near.judged(self._stored)["episode_id"].to_pylist()
        rows = self._stored.filter(is_among("episode_id", episodes))
        first = rows.group_by("group_id").aggregate([("first_seen_at", "min")]).to_pylist()
        begun = {row["group_id"]: ms_of(row["first_seen_at_min"]) for row in first if row["group_id"] is not None}
        for name in self._before.away.keys() & {*self._groups.back}:
            lost_ms = min(at_ms for *_, at_ms in self._before.away[name])
            begun[name] = min(lost_ms, begun.get(name, lost_ms))
        return begun

    def _since_ms(self, first_ms: int) -> int:
        """Returns an instant at least `after_ms` before another one: few different ones, since each of them takes
        queries of its own."""
        span_ms = self._after_ms
        while self._final_ms - span_ms > first_ms - self._after_ms:
            span_ms *= 2
        return max(self._final_ms - span_ms, 0)

    def met_before(self, rows: pa.Table, reach: Reach) -> set[str]:
        """Returns the groups with a new incident, among the rows that a pass computed, whose id one has that ended
        before all that the pass read. Only episodes of members can have such: all other ids have a time or a place."""
        if reach.since_ms is None:
            return set()
        of_members = rows.filter(pc.field("member_id").is_valid())["episode_id"].to_pylist()
        found = rows.filter(is_among("episode_id", of_members))["incident_id"].to_pylist()
        new = {*found} - {*self._stored["incident_id"].to_pylist()}
        if not new:
            return set()
        is_older = pc.field("last_seen_at") < instant_of_ms(reach.since_ms)
        older = self._ledger.arrow(INCIDENTS, is_older & is_among("incident_id", new), ["group_id"])
        return {*older["group_id"].to_pylist()}


def _by_name(reach: Reach, names: Collection[str]) -> Iterator[Piece]:
    for chunk in chunks(sorted(names), NAMED_MAX):
        yield Piece(reach, chunk)
