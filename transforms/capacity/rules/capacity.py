"""Computes a group's capacity: hot partitions, uneven pace, idle or stuck members, and whether more members help, or
fewer suffice.

For other numbers of members, all members are assumed to be alike: their pace is the median of the known paces. If no
member had a backlog, only a lower bound of the pace is known: the highest rate that any member processed. The computed
number of members is then an upper bound. The finding `more_wont_help` says that no number of members carries the load,
since a partition has one owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from groupledger.schemas.words import CapacityFinding
from groupledger.transforms.capacity.rules.deal import LOAD_MAX, heaviest_per_s, members_needed
from groupledger.transforms.capacity.rules.pace import Pace, has_backlog, paces
from groupledger.transforms.capacity.rules.seen import produced_per_s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from groupledger.schemas.kafka.topic_partition import TopicPartition
    from groupledger.transforms.capacity.rules.seen import CapacityRound

HOT_TIMES = 3
"""A partition is hot if it gets more than this many times the median rate of its topic's partitions."""
SLOW_TIMES = 1.5
"""Pace is uneven if the fastest member is at least this many times as fast as the slowest, and the error of measurement
does not explain the difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLoad:
    """Holds one member of the last round: how many partitions it owns, the rate of production in them (None if any of
    them has no known rate), and its pace. `is_stuck`: the member has partitions with lag, and makes no progress in any
    of them."""

    member_id: str
    partitions: int
    produced_per_s: float | None
    pace: Pace
    is_stuck: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """Holds how a group would do with a given number of members. `heaviest_per_s` is the rate of production for the
    most loaded member, and `load` that rate as a fraction of a member's pace; None if the pace is not known.
    `catch_up_seconds` is the time in which the members work off the backlog; None if they never do, or if it is not
    known."""

    members: int
    idle_members: int
    heaviest_per_s: float
    load: float | None
    catch_up_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Holds a group's capacity; None is unknown. If the pace is known, `members_needed` is exact, and also None if no
    number of members suffices. Otherwise `is_bound` is True, and `members_needed` is an upper bound."""

    partitions: int
    members: list[MemberLoad]
    idle_members: int
    rates: Mapping[TopicPartition, float | None]
    produced_per_s: float | None
    pace: Pace
    members_needed: int | None
    is_bound: bool
    hot: list[TopicPartition]
    findings: list[str]

    def with_members(self, members: int, assignor: str | None, lag: int | None) -> Deal:
        """Returns how the group would do with `members` members, each at the group's typical pace, if `assignor`
        divides the partitions among them. `lag` is the number of offsets that they have to catch up with; None if
        unknown."""
        rates = _known(self.rates)
        heaviest = heaviest_per_s(rates, members, assignor)
        pace = self.pace.per_s
        working = min(members, self.partitions)
        spare = None if pace is None or self.produced_per_s is None else pace * working - self.produced_per_s
        catches_up = pace is not None and heaviest < pace and spare is not None and spare > 0
        return Deal(
            members=members,
            idle_members=max(members - self.partitions, 0),
            heaviest_per_s=heaviest,
            load=None if not pace else heaviest / pace,
            catch_up_seconds=lag / spare if catches_up and lag is not None and spare is not None else None,
        )


def capacity(rounds: Sequence[CapacityRound], member_count: int | None, assignor: str | None) -> Capacity:
    """Returns the capacity of a group from its rounds, at least one. `member_count` is the number of members in the
    last round; None if it is not known, and then only members that own a partition count."""
    last, rates, found = rounds[-1], produced_per_s(rounds), paces(rounds)
    owners = sorted({seen.owner for seen in last.places.values() if seen.owner is not None})
    members = [_member(owner, last, rates, found[owner]) for owner in owners]
    pace = typical([each.pace for each in members])
    known = _known(rates)
    is_bound = pace.per_s is None
    per_s = pace.per_s if pace.per_s is not None else pace.at_least
    all_known = bool(rates) and len(known) == len(rates)
    needed = members_needed(known, per_s, assignor) if all_known and per_s else None
    if is_bound and members and all_known and keeps_up(rounds):
        needed = min(needed or len(members), len(members))  # so many carry it now
    judged = Capacity(
        partitions=len(last.places),
        members=members,
        idle_members=max((member_count or 0) - len(owners), 0),
        rates=rates,
        produced_per_s=sum(known.values()) if all_known else None,
        pace=pace,
        members_needed=needed,
        is_bound=is_bound,
        hot=hot_partitions(known, per_s if not is_bound else None),
        findings=[],
    )
    judged.findings.extend(_findings(judged))
    return judged


def typical(of_members: Sequence[Pace]) -> Pace:
    """Returns the median of the known paces; if none is known, the highest lower bound."""
    known = [each for each in of_members if each.per_s is not None]
    bounds = [each.at_least for each in of_members if each.at_least is not None]
    if not known:
        return Pace(at_least=max(bounds, default=None))
    return Pace(*(median(getattr(each, name) for each in known) for name in ("per_s", "low", "high", "at_least")))


def hot_partitions(rates: Mapping[TopicPartition, float], pace_per_s: float | None) -> list[TopicPartition]:
    """Returns the hot partitions, the fastest first: those that get far more records than the other partitions of their
    topic, or more than a member processes. `pace_per_s` is a member's pace, None if unknown."""
    found = []
    for place, rate in rates.items():
        others = [each for other, each in rates.items() if other.topic == place.topic]
        is_skewed = len(others) > 1 and rate > HOT_TIMES * median(others) and rate > 0
        if is_skewed or (pace_per_s is not None and rate > pace_per_s):
            found.append(place)
    return sorted(found, key=lambda place: (-rates[place], place))


def _findings(judged: Capacity) -> list[str]:
    pace, members = judged.pace.per_s, len(judged.members)
    known = _known(judged.rates)
    overloaded = pace is not None and any((each.produced_per_s or 0) > pace * LOAD_MAX for each in judged.members)
    too_hot = pace is not None and any(rate > pace for rate in known.values())
    found = {
        CapacityFinding.STUCK: any(each.is_stuck for each in judged.members),
        CapacityFinding.HOT_PARTITION: bool(judged.hot),
        CapacityFinding.UNEVEN_PACE: _is_uneven([each.pace for each in judged.members]),
        CapacityFinding.IDLE_MEMBERS: judged.idle_members > 0,
        CapacityFinding.MORE_WONT_HELP: too_hot or (overloaded and judged.members_needed is None),
        CapacityFinding.MORE_NEEDED: not judged.is_bound and (judged.members_needed or 0) > members,
        CapacityFinding.FEWER_WOULD_DO: judged.members_needed is not None and judged.members_needed < members,
        CapacityFinding.ENOUGH: judged.members_needed == members,
    }
    return [name for name, holds in found.items() if holds] or [CapacityFinding.UNKNOWN]


def _is_uneven(found: Sequence[Pace]) -> bool:
    known = [each for each in found if each.per_s is not None and each.low is not None and each.high is not None]
    if len(known) < 2:  # noqa: PLR2004 - one has nobody to differ from
        return False
    slowest, fastest = (pick(known, key=lambda each: each.per_s or 0.0) for pick in (min, max))
    is_apart = (fastest.per_s or 0.0) >= SLOW_TIMES * (slowest.per_s or 0.0)
    return is_apart and (fastest.low or 0.0) > (slowest.high or 0.0)


def _member(owner: str, last: CapacityRound, rates: Mapping[TopicPartition, float | None], pace: Pace) -> MemberLoad:
    owned = {place: seen for place, seen in last.places.items() if seen.owner == owner}
    produced = [rates[place] for place in owned]
    lagging = [seen for seen in owned.values() if seen.lag]
    return MemberLoad(
        member_id=owner,
        partitions=len(owned),
        produced_per_s=None if None in produced else sum(each or 0.0 for each in produced),
        pace=pace,
        is_stuck=bool(lagging) and all(seen.is_stuck for seen in lagging),
    )


def keeps_up(rounds: Sequence[CapacityRound]) -> bool:
    """Returns whether the members had read all records by the last round, apart from records that are processed but not
    committed yet."""
    if len(rounds) < 2:  # noqa: PLR2004 - the distance of two says how exact times are
        return False
    apart_ms = rounds[-1].at_ms - rounds[-2].at_ms
    return all(
        seen.lag == 0 or (seen.lag_seconds is not None and not has_backlog(seen, apart_ms))
        for seen in rounds[-1].places.values()
    )


def _known(rates: Mapping[TopicPartition, float | None]) -> dict[TopicPartition, float]:
    return {place: rate for place, rate in rates.items() if rate is not None}
