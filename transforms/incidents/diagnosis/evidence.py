"""Holds the input of a diagnosis: rows of one group, episodes of symptoms, and the signs seen in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import TurnoverKind
from groupledger.transforms.history.rules.departures import KNOWN_FROM
from groupledger.transforms.history.rules.turnovers import turnovers
from groupledger.transforms.lookups import InOrder, as_given

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from groupledger.schemas.kinds.symptoms import Symptom
    from groupledger.transforms.history.rules.turnovers import Turnover

    Row = Mapping[str, Any]

# Evidence may lie a little outside its episode: a departure comes before the record that it led to.
AROUND = timedelta(seconds=60)
RIGHT_BESIDE = timedelta(seconds=1)
FOR_EVER = datetime.max.replace(tzinfo=timezone.utc)
PROCESS = ("client_id", "client_host", "group_instance_id")
SURE_OF_ROWS = 0.95  # no line of a log says so


@dataclass(frozen=True, kw_only=True)
class DiagnosisRows:
    """Holds the rows of the ledger's tables about one group; instants are datetimes.

    `members` have the causes of a server log (`with_logged_causes`), and `rebalances` have its triggers. If the group
    has no members, `tenures` has its tenures from before the time in question, too. `rounds` are the sums of lag by
    round, in order, and `lag_at(instant)` returns the rows of `lag` of the round at that instant. Only the API, the
    member's id, its host and its client library are needed of `requests`. `throttled(client_id, since, until)` returns
    the fetches of a client that brokers throttled between two instants, and `offsets_in_transactions(since, until)` the
    TxnOffsetCommit requests of the group. `unseen_topics(instant)` returns the
    subscribed topics that brokers were asked for by name, and did not return, in the last two rounds by that instant.
    `acts()` returns who moved or removed the group's committed offsets (`transforms.offsets.rules.authors`).
    A share group has `deliveries`, the batches of its state as they were written, and rounds of `share_rounds`.
    """

    group_type: str | None
    group_id: str = ""
    incidents: Sequence[Row] = ()
    rebalances: Sequence[Row] = ()
    members: Sequence[Row] = ()
    tenures: Sequence[Row] = ()
    generations: Sequence[Row] = ()
    assignments: Sequence[Row] = ()
    offset_events: Sequence[Row] = ()
    acts: Callable[[], Sequence[Row]] = lambda: ()
    deliveries: Sequence[Row] = ()
    events: Sequence[Row] = ()
    requests: Sequence[Row] = ()
    rounds: Sequence[Row] = ()
    lag_at: Callable[[datetime], Sequence[Row]] = lambda _: ()
    throttled: Callable[[str, datetime, datetime], Sequence[Row]] = lambda *_: ()
    offsets_in_transactions: Callable[[datetime, datetime], Sequence[Row]] = lambda *_: ()
    unseen_topics: Callable[[datetime], Collection[str]] = lambda _: ()
    known_until: datetime | None = None

    @cached_property
    def turnovers(self) -> Sequence[Turnover]:
        """Returns the times in which members came and went. The group's beginning is left out. A time in which members
        came and went again and again is left out, too, if they were the same processes. If each of them was another
        process, the time is included, because an autoscaler may be unable to decide."""
        return [
            each
            for each in turnovers(self.members, self.known_until or FOR_EVER)
            if each.kind not in {TurnoverKind.BEGAN, TurnoverKind.RESTLESS}
            or (each.kind == TurnoverKind.RESTLESS and each.after and _are_others(each))
        ]

    @cached_property
    def _in_time(self) -> dict[tuple[str, str], InOrder[tuple[int, Row]]]:
        return {}

    def within(self, episode: TroubleEpisode, table: str, column: str) -> list[Row]:
        """Returns the rows of a table whose instant in `column` lies in an episode, or shortly before or after it, in
        the order of the table."""
        in_time = self._in_time.get((table, column))
        if in_time is None:
            numbered = (each for each in enumerate(getattr(self, table)) if each[1][column] is not None)
            in_time = self._in_time[table, column] = InOrder(numbered, lambda each: each[1][column].timestamp())
        begin, end = episode.since - episode.around, episode.last_seen_at + episode.around
        return as_given(in_time.between(begin.timestamp(), end.timestamp()))


@dataclass(frozen=True, kw_only=True, slots=True)
class TroubleEpisode:
    """Holds a span of time in which symptoms showed. `until` is None while they still show. `is_change`: nothing was
    wrong by itself; the group only changed, for example because a member came or left, or it is in a state that one may
    ask about, such as lag. `moves` are the offset events that the episode consists of: only it counts their records."""

    symptoms: tuple[Symptom, ...]
    since: datetime
    last_seen_at: datetime
    until: datetime | None
    incidents: tuple[Row, ...] = ()
    rounds: tuple[Row, ...] = ()
    moves: tuple[Row, ...] = ()
    is_change: bool = False

    @property
    def around(self) -> timedelta:
        return RIGHT_BESIDE if self.is_change else AROUND

    def holds(self, at: datetime | None) -> bool:
        return at is not None and self.since - self.around <= at <= self.last_seen_at + self.around

    def holds_any(self, began_at: datetime, ended_at: datetime) -> bool:
        """Returns whether the episode and a time overlap, or nearly do."""
        return began_at <= self.last_seen_at + self.around and ended_at >= self.since - self.around


@dataclass(slots=True)
class Seen:
    """Holds the names of the signs that were seen in an episode: `known` signs with their confidence, signs that are
    only `possible`, and those of the known signs that a broker's log shows (`logged`)."""

    known: dict[str, float] = field(default_factory=dict)
    possible: set[str] = field(default_factory=set)
    logged: set[str] = field(default_factory=set)

    def add(self, name: str, confidence: float = SURE_OF_ROWS, *, is_logged: bool = False) -> None:
        if confidence < KNOWN_FROM:
            self.possible.add(name)
            return
        found = 1.0 if is_logged else min(confidence, SURE_OF_ROWS)
        self.known[name] = max(found, self.known.get(name, 0.0))
        if is_logged:
            self.logged.add(name)


def _are_others(change: Turnover) -> bool:
    """Returns whether each member that came was another process, also than those that were there before."""
    every = (*change.before, *change.came)
    return len({tuple(row[name] for name in PROCESS) for row in every}) == len(every)
