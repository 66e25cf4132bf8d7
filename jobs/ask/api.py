"""Offers the questions of the command line and of `serve` to programs in Python.

    import groupledger

    ledger = groupledger.Ledger("/data/ledger")
    for diagnosis in ledger.why("shipping-labels", since="2h").diagnoses:
        print(diagnosis.severity, diagnosis.explanation)

The API only reads, needs neither Java nor Spark, and answers by the functions of `jobs.ask`, as commands and pages do.
Each question opens the tables anew. Each result has the time until which each source was read (`known_until`), and a
sentence, `not_known`, if the question asks about a later time. Errors are `JobError`s with one sentence: InputError for
a wrong name or place, NotKnownError if nothing was read, OutsideError if the tables can't be read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Generic, TypeVar

from groupledger.jobs.ask.answers import group_row
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.clusters import clusters_of
from groupledger.jobs.ask.group_activity import rebalances_of
from groupledger.jobs.ask.group_list import GroupFilter, group_list
from groupledger.jobs.ask.incidents import incidents_of
from groupledger.jobs.ask.known import sources_known
from groupledger.jobs.ask.lag_answers import answer, lag_at
from groupledger.jobs.ask.offsets_at import offsets_at
from groupledger.jobs.ask.owner import owner
from groupledger.jobs.ask.rows_of_answers import (
    CommittedOffset,
    Diagnosis,
    Entry,
    Episode,
    Group,
    Incident,
    LastRound,
    Owner,
    PartitionLag,
    QuietTopic,
    Rebalance,
    Row,
    typed,
)
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.ask.why import WINDOW, why
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import InputError, NotKnownError, UnknownNameError
from groupledger.jobs.process.instants import read_instant
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.words import Severity, Source, words_of
from groupledger.transforms.coverage.rules.known import Time, is_nothing_known, last_instant, why_not_known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from groupledger.transforms.coverage.rules.known import Known

SQL_TIMEOUT_S = 300.0
REBALANCES_MAX = 1_000
When = datetime | timedelta | str
"""An aware datetime, an age, or a text as the command line reads it: `2026-01-31T14:03`, `14:03` or `2h`, in UTC."""
Kind = TypeVar("Kind", bound=Row)


class Rows(list[Kind], Generic[Kind]):
    """A list of rows. `known_until` has the time until which each source was read. `not_known` is a sentence if the
    question asks about a later time, else None."""

    known_until: Known = {}  # noqa: RUF012 - each has its own
    not_known: str | None = None


@dataclass(frozen=True, kw_only=True)
class Why:
    """The verdict on a group: `diagnoses` and `episodes`, the most harmful first. Without any trouble, `quiet_topics`
    are its topics that get no records any more. `last_round` is how the group was at the end, and `entries` are what
    happened to it, in the order of time."""

    diagnoses: list[Diagnosis]
    episodes: list[Episode]
    quiet_topics: list[QuietTopic]
    last_round: LastRound | None
    entries: list[Entry]
    root: str | None
    advice: str | None
    setting_to_change: str | None
    known_until: Known
    not_known: str | None


@dataclass(frozen=True, kw_only=True)
class _Question:
    """A question in progress: its tables, and what is known of the time that it is about."""

    tables: ClusterRows
    known: Known
    not_known: str | None

    def rows(self, kind: type[Kind], answers: Sequence[Mapping[str, object]]) -> Rows[Kind]:
        found = Rows(typed(kind, answers))
        found.known_until, found.not_known = self.known, self.not_known
        return found


class Ledger:
    """The ledger of one cluster in a warehouse (a directory or a URI). `cluster` may be left out if the warehouse has
    only one. Raises UnknownNameError if the warehouse has no such cluster, or several and none is given; InputError if
    there are no tables."""

    def __init__(self, warehouse: str | os.PathLike[str], cluster: str | None = None) -> None:
        self.warehouse = os.fspath(warehouse)
        snapshots = Snapshots(self.warehouse)
        snapshots.refuse_nothing()
        there = clusters_of(snapshots)
        if cluster is None and len(there) == 1:
            (cluster,) = there
        if cluster not in there:
            names = ", ".join(map(printable, there)) or "none yet"
            asked = "Which cluster?" if cluster is None else f"There is no cluster {printable(cluster)}:"
            raise UnknownNameError(f"{asked} The warehouse has {names}.")
        self.cluster = cluster

    def __repr__(self) -> str:
        return f"Ledger({self.warehouse!r}, cluster={self.cluster!r})"

    def groups(self, pattern: str | None = None, *, with_ended: bool = False) -> Rows[Group]:
        """Returns the groups, those in trouble first; with `with_ended`, also those that have ended. `pattern` is a
        part of the name or, with a * in it, a pattern for the whole name."""
        asked = self._ask(Source.HISTORY)
        return asked.rows(Group, group_list(asked.tables, GroupFilter(pattern=pattern, with_ended=with_ended), {}))

    def why(self, group: str, since: When | None = None, until: When | None = None) -> Why:
        """Returns what is wrong with a group in [since, until), and what happened to it. Without `until`, the window
        has no end. Without `since`, it begins two hours before `until`, or before the last known instant."""
        begin, end = instant_of(since), instant_of(until)
        sources = (Source.HISTORY, Source.INCIDENTS)
        asked = self._ask(*sources, time=Time(since=begin, until=end), group=group)
        last = end or last_instant(asked.known, sources)
        if last is None:
            raise NotKnownError(str(asked.not_known))
        entries, verdict = why(asked.tables, group, begin or last - WINDOW, end)
        last_round = verdict["last_round"]
        return Why(
            diagnoses=typed(Diagnosis, verdict["diagnosis"]),
            episodes=typed(Episode, verdict["episodes"]),
            quiet_topics=typed(QuietTopic, verdict["quiet_topics"]),
            last_round=None if last_round is None else typed(LastRound, [last_round])[0],
            entries=typed(Entry, entries),
            root=verdict["root"],
            advice=verdict["advice"],
            setting_to_change=verdict["setting_to_change"],
            known_until=asked.known,
            not_known=asked.not_known,
        )

    def owner(self, group: str, topic: str, partition: int, at: When) -> Rows[Owner]:
        """Returns who owned a partition at an instant: one row, or one for each member if several shared the
        partition."""
        instant = _given(at)
        asked = self._ask(Source.HISTORY, time=Time.at(instant), group=group)
        return asked.rows(Owner, owner(asked.tables, group, topic, partition, instant))

    def offsets(self, group: str, at: When) -> Rows[CommittedOffset]:
        """Returns the committed offsets of a group at an instant."""
        instant = _given(at)
        asked = self._ask(Source.TOPIC, time=Time.at(instant), group=group)
        return asked.rows(CommittedOffset, offsets_at(asked.tables, [group], instant))

    def lag(self, group: str | None = None, at: When | None = None) -> Rows[PartitionLag]:
        """Returns the lag of each partition of a group, or of all groups, in the last sampling round; with `at`, in the
        last round at or before that instant."""
        instant = instant_of(at)
        asked = self._ask(Source.SAMPLES, time=Time.at(instant), group=group)
        return asked.rows(PartitionLag, [answer(row) for row in lag_at(asked.tables, group, instant)[1]])

    def incidents(
        self,
        group: str | None = None,
        since: When | None = None,
        severity: str = Severity.WARNING,
        *,
        open_only: bool = False,
    ) -> Rows[Incident]:
        """Returns the incidents of a group, or of all groups, in the order in which they began: those that were last
        seen at or after `since` and have at least the given severity (info, warning or error); with `open_only` only
        those that go on."""
        if severity not in words_of(Severity):
            raise InputError(f"A severity is one of {', '.join(words_of(Severity))}.")
        begin = instant_of(since)
        asked = self._ask(Source.INCIDENTS, time=Time(since=begin), group=group)
        names = None if group is None else [group_row(asked.tables, group)["group_id"]]
        return asked.rows(Incident, incidents_of(asked.tables, names, begin, None, severity, open_only=open_only))

    def rebalances(
        self, group: str, since: When | None = None, until: When | None = None, limit: int = REBALANCES_MAX
    ) -> Rows[Rebalance]:
        """Returns the last `limit` rebalances of a group in [since, until), in the order of the log."""
        time = Time(since=instant_of(since), until=instant_of(until))
        asked = self._ask(Source.HISTORY, time=time, group=group)
        return asked.rows(Rebalance, rebalances_of(asked.tables, group, time.since, time.until, limit))

    def sql(
        self, query: str, parameters: Mapping[str, str] | None = None, timeout_s: float = SQL_TIMEOUT_S
    ) -> pa.Table:
        """Returns DuckDB's result of a query over all tables, of all clusters of the warehouse, like `groupledger sql`.
        The query can only read, and can't reach anything outside the warehouse. `:name` in it takes its value from
        `parameters`. Raises InputError if it takes longer than `timeout_s` seconds."""
        from groupledger.jobs.ask.query_client import ask

        return ask(self.warehouse, query, parameters or {}, timeout_s=timeout_s)

    def _ask(self, *sources: str, time: Time | None = None, group: str | None = None) -> _Question:
        tables, time = ClusterRows(self.warehouse, self.cluster), time or Time()
        known = sources_known(tables, () if group is None else (group,))
        not_known = why_not_known(known, sources, time)
        if is_nothing_known(known, sources, time):
            if group is not None:
                group_row(tables, group)
            raise NotKnownError(str(not_known))
        return _Question(tables=tables, known=known, not_known=not_known)


def instant_of(when: When | None) -> datetime | None:
    """Returns `when` as an instant in UTC, or None for None; an age counts back from now. Raises InputError for an
    invalid text, and for a datetime without a zone."""
    return None if when is None else _given(when)


def _given(when: When) -> datetime:
    now = instant_of_ms(now_ms())
    if isinstance(when, timedelta):
        return now - when
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise InputError(f"{when} names no zone: give an aware datetime, as datetime.now(timezone.utc) is.")
        return when.astimezone(timezone.utc)
    try:
        return read_instant(when, now, timezone.utc)
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{printable(when)} is not a valid time: write one as 2026-01-31T14:03:00Z, 14:03, or 2h for two hours ago."
        ) from error
