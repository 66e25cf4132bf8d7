"""Finds the signs that lag shows, in the first and the last round of an episode.

Only the partitions with the worst status at the end are judged: a group is as bad as its worst partition, and the other
partitions make progress as they should. A single round shows no progress.

A consumer with a backlog works it off partition by partition: a poll returns what is left of one fetch before it takes
the next one. So partitions without progress are judged together with the partition that their owner works off
meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.group_states import CLASSIC_REBALANCING, EMPTY, MODERN_REBALANCING
from groupledger.schemas.kinds import signs
from groupledger.schemas.kinds.incidents import PARTITION_NOT_READ
from groupledger.schemas.words import LagStatus
from groupledger.transforms.incidents.diagnosis.commit_rhythm import LEAVES_WITHIN
from groupledger.transforms.incidents.diagnosis.runs import is_between_runs
from groupledger.transforms.lag.rules.status import SEVERITY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from groupledger.schemas.kinds.signs import Sign
    from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows, TroubleEpisode

    Row = Mapping[str, Any]
    Place = tuple[str, int]

MOST = 0.8  # of the lag
MORE = 2.0  # times what others get or have
PARTITIONS_MIN = 3
KAFKA_BEGAN = datetime(2011, 1, 1, tzinfo=timezone.utc)
CLOCK_MAX = timedelta(days=1)
WAITS_FOR_LONG = timedelta(seconds=30)  # a transaction that ends as it should is shorter
STANDS_FOR_LONG = timedelta(minutes=1)  # a restart takes less
# Java's client, librdkafka with what is built on it, and kafka-python, as the request log names them.
LEAVE_UNPOLLED = ("apache-kafka-java", "librdkafka", "confluent-kafka-", "kafka-python")
LATE_S = 30  # an owner that is later than this in a partition has a backlog there
RHYTHM_MAX = 1.5  # of an interval between commits, which a busy process keeps late
_TROUBLED = {LagStatus.GROWING, LagStatus.WAITING_FOR_TRANSACTION, LagStatus.STALLED, LagStatus.STOPPED}
GROWS_FOR_LONG = timedelta(minutes=1)  # a burst is over before
GREW_MIN = 10  # records: lag goes up and down by some between two commits
_STANDING = {LagStatus.STOPPED, LagStatus.STALLED, LagStatus.WAITING_FOR_TRANSACTION, LagStatus.AHEAD_OF_LOG}


@dataclass(frozen=True, kw_only=True, slots=True)
class LagSeen:
    """Holds the lag of an episode. `rows` are the rows of its last round, and `lagging` those of them that are judged.
    `committed` and `produced` say, by topic and partition, how far commits and ends advanced to the last round from the
    first one that shows the pace of the present members, which took `lasted`; they are None if there is only one round.
    `began_at` is the first round of the episode that is known."""

    rows: Sequence[Row] = ()
    lagging: Sequence[Row] = ()
    committed: Mapping[Place, int] | None = None
    produced: Mapping[Place, int] | None = None
    lasted: timedelta = timedelta(0)
    began_at: datetime | None = None

    @property
    def worst(self) -> Row | None:
        return max(self.lagging, key=lambda row: (row["lag"] or 0, row["topic"], -row["partition"]), default=None)

    @property
    def records(self) -> int:
        return sum(row["lag"] or 0 for row in self.lagging)

    @property
    def troubled(self) -> list[Row]:
        """Returns the rows that are judged, and the others whose status is trouble."""
        return [row for row in self.rows if row in self.lagging or row["status"] in _TROUBLED]


def lag_seen(episode: TroubleEpisode, rows: DiagnosisRows) -> LagSeen:
    """Returns the lag in the rounds of an episode; without rows if the episode has no rounds."""
    if not episode.rounds:
        return LagSeen()
    last = episode.rounds[-1]["sampled_at"]
    found = rows.lag_at(last)
    worst = max((SEVERITY[row["status"]] for row in found), default=0)
    lagging = [row for row in found if worst and SEVERITY[row["status"]] == worst]
    if episode.is_change and not worst:
        lagging = [row for row in found if row["lag"]]
    places = {_place(row) for row in lagging}
    began_at = _first_known(episode.rounds, rows, places)
    first = _first_known(_since_members(episode.rounds), rows, places)
    if first == last:
        return LagSeen(rows=found, lagging=lagging, began_at=began_at)
    before = {_place(row): row for row in rows.lag_at(first)}
    committed = _went_on(found, before, "committed_offset")
    return LagSeen(
        rows=found,
        lagging=[*lagging, *_worked_off_first(found, lagging, committed)],
        committed=committed,
        produced=_went_on(found, before, "high_watermark"),
        lasted=last - first,
        began_at=began_at,
    )


def _first_known(rounds: Sequence[Row], rows: DiagnosisRows, places: AbstractSet[Place]) -> datetime:
    """Returns the first of some rounds in which commits and ends of some partitions are of one time, or else the last
    round."""

    def is_known(at: datetime) -> bool:
        return not any(row["status"] == LagStatus.UNKNOWN for row in rows.lag_at(at) if _place(row) in places)

    instants: list[datetime] = [each["sampled_at"] for each in rounds]
    return next(filter(is_known, instants), instants[-1])


def _since_members(rounds: Sequence[Row]) -> Sequence[Row]:
    """Returns the rounds after those in which the group had no members: what was produced until then says nothing of
    the pace of the members that it has now. Returns all rounds if it has none, or has had them for a short time only.
    The sums say so: no lag is read for it."""
    since = [*takewhile(lambda each: each["group_state"] != EMPTY, reversed(rounds))]
    is_long = bool(since) and since[0]["sampled_at"] - since[-1]["sampled_at"] >= STANDS_FOR_LONG
    return since[::-1] if is_long else rounds


def owners_went_on(episode: TroubleEpisode, seen: LagSeen, rows: DiagnosisRows) -> bool:
    """Returns whether, in the round after an episode, the owners of the lagging partitions had made progress in all of
    them. The owners must have been members since before the episode, and still be members: one that has just started
    has held up nothing. A row of lag names the owner that the history knew in its round."""
    after = next((row["sampled_at"] for row in rows.rounds if row["sampled_at"] > episode.last_seen_at), None)
    if after is None or episode.until is None or not seen.lagging:
        return False
    then = {_place(row): row for row in rows.lag_at(after)}
    joined = {
        row["member_id"]: row["joined_at"]
        for row in rows.members
        if row["joined_at"] is not None and (row["left_at"] is None or row["left_at"] > after)
    }
    advanced = _went_on(list(then.values()), {_place(row): row for row in seen.lagging}, "committed_offset")
    return all(
        row["owner"] in joined
        and joined[row["owner"]] <= episode.since
        and row["owner"] == then.get(_place(row), {}).get("owner")
        and advanced.get(_place(row), 0) > 0
        for row in seen.lagging
    )


def _worked_off_first(found: Sequence[Row], lagging: Sequence[Row], committed: Mapping[Place, int]) -> list[Row]:
    """Returns the partitions with a backlog in which the owners of those that lag go on; none unless all of them do."""
    others = [
        row
        for row in found
        if row not in lagging
        and committed.get(_place(row))
        and (row["lag_seconds"] or 0) >= LATE_S
        and not _stands_for(row, WAITS_FOR_LONG)
    ]
    owners = {row["owner"] for row in lagging}
    is_so = None not in owners and owners == {row["owner"] for row in others}
    return others if is_so else []


def signs_of_lag(seen: LagSeen, rows: DiagnosisRows) -> Iterator[Sign]:
    """Yields the signs that the lag of an episode shows."""
    lagging = seen.lagging
    if any(_is_absurd(row) for row in seen.rows):
        yield signs.COMMIT_TIME_ABSURD
    if not lagging:
        return
    if any(row["lag"] for row in lagging if row["status"] != LagStatus.UNSUBSCRIBED):
        yield signs.RECORDS_WAIT
    if all(row["owned"] is False for row in lagging):
        yield signs.NOBODY_OWNS
    stands_since = [row["no_progress_since"] for row in lagging]
    if not rows.members and not rows.tenures and all(_stands_for(row, STANDS_FOR_LONG) for row in lagging):
        yield signs.OUTSIDER_STOPPED
    if _commit_rarely(seen, rows):
        yield signs.COMMITS_RARELY
    if is_between_runs(rows.tenures, stands_since, lagging[0]["sampled_at"]):
        yield signs.BETWEEN_RUNS
    if lagging[0]["group_state"] in CLASSIC_REBALANCING | MODERN_REBALANCING:
        yield signs.IN_REBALANCE
    stable = [row["last_stable_offset"] for row in lagging]
    if all(
        each is not None
        and each == row["committed_offset"]
        and each < (row["high_watermark"] or 0)
        and _stands_for(row, WAITS_FOR_LONG)
        for each, row in zip(stable, lagging, strict=True)
    ):
        yield signs.AT_LAST_STABLE_OFFSET
    yield from _of_pace(seen)
    yield from _of_owners(seen, rows)
    yield from _of_spread(seen, rows)


def _of_pace(seen: LagSeen) -> Iterator[Sign]:
    places = [_place(row) for row in seen.lagging]
    if seen.committed is None or seen.produced is None:
        if all(row["status"] in _STANDING for row in seen.lagging):
            yield signs.OFFSETS_STAND
        return
    committed, produced = (sum(each.get(place, 0) for place in places) for each in (seen.committed, seen.produced))
    is_standing = all(not seen.committed.get(place) for place in places)
    yield signs.OFFSETS_STAND if is_standing else signs.OFFSETS_GO_ON
    if produced > committed:
        yield signs.LAG_GROWS
    elif produced < committed:
        yield signs.LAG_SHRINKS
    if not is_standing and produced - committed >= GREW_MIN and seen.lasted >= GROWS_FOR_LONG:
        yield signs.PRODUCERS_FASTER
    if produced == 0:
        yield signs.PRODUCERS_IDLE
        if all(row["raw_lag"] == 1 for row in seen.lagging):
            yield signs.ONE_RECORD_LEFT
            if len(seen.rows) >= PARTITIONS_MIN and all(row["raw_lag"] == 1 for row in seen.rows):
                yield signs.ONE_LEFT_EVERYWHERE


def _of_owners(seen: LagSeen, rows: DiagnosisRows) -> Iterator[Sign]:
    """Yields the signs of the owners of partitions that stand still."""
    if _goes_on_elsewhere(seen, rows):
        yield signs.OWNER_GOES_ON
    new = [row for row in seen.lagging if row["status"] == LagStatus.NO_COMMIT]
    if new and all(_commits_elsewhere(row, seen) for row in new):
        yield signs.OWNER_COMMITS_ELSEWHERE
        if seen.lasted >= STANDS_FOR_LONG and {_place(row) for row in new} <= _passed_over(rows):
            yield signs.PASSED_OVER
    if all(_has_passed_its_interval(row, rows) for row in seen.lagging):
        yield signs.INTERVAL_PASSED
    yield from _of_owners_in_turn(seen, rows)


def _goes_on_elsewhere(seen: LagSeen, rows: DiagnosisRows) -> bool:
    """Returns whether the owner of a partition without progress commits in its others and has read those to the end."""
    owners = {row["owner"] for row in seen.lagging}
    others = [row for row in seen.rows if row["owner"] in owners and row not in seen.lagging]
    return (
        None not in owners
        and owners == {row["owner"] for row in others}
        and all(_stands_for(row, STANDS_FOR_LONG) for row in seen.lagging)
        and not any(_joined_within(seen, owner, rows) for owner in owners)
        and all(row["status"] == LagStatus.OK and (seen.committed or {}).get(_place(row)) for row in others)
    )


def _commits_elsewhere(lag: Row, seen: LagSeen) -> bool:
    return lag["owner"] is not None and any(
        row["owner"] == lag["owner"] and (seen.committed or {}).get(_place(row)) for row in seen.rows
    )


def _passed_over(rows: DiagnosisRows) -> set[Place]:
    """Returns the new partitions whose first commit lies after records that they had before anybody took them."""
    found = (row["partitions"] for row in rows.incidents if row["kind"] == PARTITION_NOT_READ.name)
    return {(each["topic"], each["partition"]) for partitions in found for each in partitions or ()}


def _commit_rarely(seen: LagSeen, rows: DiagnosisRows) -> bool:
    """Returns whether the owners of the partitions with lag commit at intervals about as long as these stood. Several
    commits since then have to show it: one that is late says nothing of the others."""
    latest = {_place(row): row for row in rows.lag_at(rows.rounds[-1]["sampled_at"])}
    joined = {row["member_id"]: row["joined_at"] for row in rows.members}
    for row in seen.lagging:
        now = latest.get(_place(row), {})
        since = row["no_progress_since"] or joined.get(row["owner"])
        if since is None or now.get("owner") != row["owner"] or not now["commit_interval_ms"]:
            return False
        interval = timedelta(milliseconds=now["commit_interval_ms"])
        if row["sampled_at"] - since > RHYTHM_MAX * interval or now["sampled_at"] - row["sampled_at"] < 2 * interval:
            return False
    return True


def _has_passed_its_interval(lag: Row, rows: DiagnosisRows) -> bool:
    """Returns whether a partition has stood still in its owner's hands for longer than the owner's poll interval
    allows. Only some clients leave in that case, and join with that interval as their rebalance timeout."""
    since = lag["no_progress_since"]
    owner = next((row for row in reversed(rows.members) if row["member_id"] == lag["owner"]), None)
    if since is None or owner is None or not owner["rebalance_timeout_ms"] or owner["left_at"] is not None:
        return False
    software = {row["client_software_name"] or "" for row in rows.requests if row["member_id"] == lag["owner"]}
    if not software or not all(name.startswith(LEAVE_UNPOLLED) for name in software):
        return False
    there = max(since, owner["joined_at"] or since)
    may_take = timedelta(milliseconds=owner["rebalance_timeout_ms"]) + LEAVES_WITHIN
    return bool(lag["sampled_at"] - there > may_take)


def _of_owners_in_turn(seen: LagSeen, rows: DiagnosisRows) -> Iterator[Sign]:
    """Yields a sign where several owners, one after the other, got no further in a partition. Where that is so in
    several, and in no other the group gets on, its owners are too slow or end, whatever the record."""
    standing = [row for row in seen.lagging if _stands_in_all_hands(row, seen, rows)]
    if len(standing) == 1 or (standing and any((seen.committed or {}).values())):
        yield signs.OWNERS_STOP_AT_ONE_OFFSET


def _stands_in_all_hands(lag: Row, seen: LagSeen, rows: DiagnosisRows) -> bool:
    since = lag["no_progress_since"]
    if since is None or (seen.committed or {}).get(_place(lag)) or not _stands_for(lag, STANDS_FOR_LONG):
        return False
    owners = {
        row["member_id"]
        for row in rows.assignments
        if (row["topic"], row["partition"]) == _place(lag)
        and row["valid_from"] < lag["sampled_at"]
        and (row["valid_to"] is None or row["valid_to"] > since)
    }
    return len(owners) > 1


def _joined_within(seen: LagSeen, owner: str, rows: DiagnosisRows) -> bool:
    """Returns whether a member came while the lag was there already: it has that of others."""
    joined = [row["joined_at"] for row in rows.members if row["member_id"] == owner and row["joined_at"] is not None]
    return bool(joined and seen.began_at is not None and max(joined) > seen.began_at)


def _of_spread(seen: LagSeen, rows: DiagnosisRows) -> Iterator[Sign]:
    """Yields how the lag is spread over partitions and members."""
    lag = {_place(row): row["lag"] or 0 for row in seen.rows}
    total, produced = sum(lag.values()), seen.produced or {}
    if not total:
        return
    top = max(lag, key=lambda place: (lag[place], place))
    others = [place for place in lag if place != top]
    is_one = len(lag) >= PARTITIONS_MIN and lag[top] >= MOST * total
    if is_one and produced.get(top, 0) > MORE * _mean([produced.get(place, 0) for place in others]):
        yield signs.ONE_PARTITION_BEHIND
    yield from _of_one_owner(seen, rows, lag)


def _of_one_owner(seen: LagSeen, rows: DiagnosisRows, lag: Mapping[Place, int]) -> Iterator[Sign]:
    """Yields the signs of the owner with most of the lag, if it makes progress, and was present from the beginning."""
    total, produced = sum(lag.values()), seen.produced or {}
    of_owner: defaultdict[str, list[Place]] = defaultdict(list)
    for row in seen.rows:
        if row["owner"] is not None:
            of_owner[row["owner"]].append(_place(row))
    if len(of_owner) <= 1:
        return
    owner = max(of_owner, key=lambda each: (sum(lag[place] for place in of_owner[each]), each))
    theirs = [place for each, places in of_owner.items() if each != owner for place in places]
    if sum(lag[place] for place in of_owner[owner]) < MOST * total:
        return
    stands = all(_stands_for(row, WAITS_FOR_LONG) for row in seen.rows if row["owner"] == owner and row["lag"])
    if stands or _joined_within(seen, owner, rows):
        return
    if len(of_owner[owner]) >= MORE * len(theirs) / (len(of_owner) - 1):
        yield signs.UNEVEN_ASSIGNMENT
    got = [_mean([produced.get(place, 0) for place in places]) for places in (of_owner[owner], theirs)]
    if seen.produced is not None and got[0] <= MORE * got[1]:
        yield signs.ONE_MEMBER_BEHIND


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def _stands_for(row: Row, least: timedelta) -> bool:
    since = row["no_progress_since"]
    return since is not None and bool(row["sampled_at"] - since >= least)


def _place(row: Row) -> Place:
    return row["topic"], row["partition"]


def _went_on(rows: Sequence[Row], before: Mapping[Place, Row], column: str) -> dict[Place, int]:
    found = {}
    for row in rows:
        earlier = before.get(_place(row), {}).get(column)
        if earlier is not None and row[column] is not None:
            found[_place(row)] = row[column] - earlier
    return found


def _is_absurd(row: Row) -> bool:
    at = row["committed_at"]
    return at is not None and (at < KAFKA_BEGAN or at > row["sampled_at"] + CLOCK_MAX)
