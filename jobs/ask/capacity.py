"""`groupledger capacity`: whether a group has enough members, by its rounds of lag over some time.

The rules are those of `transforms.capacity.rules`; this module reads the rounds, and puts the findings into sentences.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import group_row
from groupledger.jobs.ask.lag_answers import lag_rows, no_round
from groupledger.jobs.ask.rounds import last_round, of_round
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.output import number_of
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.words import CapacityFinding, LagFlag
from groupledger.transforms.capacity.rules.capacity import capacity
from groupledger.transforms.capacity.rules.deal import LOAD_MAX, even_members
from groupledger.transforms.capacity.rules.seen import rounds_of
from groupledger.transforms.lag.rules import lag_to_scale_by
from groupledger.transforms.lag.rules.status import REBALANCING_STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer
    from groupledger.transforms.capacity.rules.capacity import Capacity, MemberLoad
    from groupledger.transforms.capacity.rules.pace import Pace
    from groupledger.transforms.lag.rules import LagRow

WINDOW = timedelta(hours=1)
"""How long before the last round the window of a question begins, if the question does not say when it begins."""
MEMBER_COLUMNS = (
    *("member_id", "client_id", "client_host", "partitions", "produced_per_second", "pace_per_second"),
    *("pace_at_least_per_second", "is_stuck"),
)
MEMBER_OPTIONAL = ("client_host", "client_id", "is_stuck")
EVEN_MAX = 12
PLACES_MAX = 20
HOT_NAMED = 3


def capacity_of(
    tables: ClusterRows,
    name: str,
    no_commit: str,
    since: datetime | None = None,
    until: datetime | None = None,
    asked: Sequence[int] = (),
) -> Answer:
    """Returns a group's capacity by the rounds in [since, until], and the load with other numbers of members (`asked`).
    `no_commit` is what a partition without a commit counts as (`lag.no_commit`). Raises UnknownNameError for an unknown
    group, InputError if there is no round."""
    group_row(tables, name)
    last = last_round(tables, "lag", until)
    if last is None:
        raise InputError(no_round(tables, until))
    return capacity_within(tables, name, no_commit, since or last - WINDOW, last, asked)


def capacity_within(
    tables: ClusterRows, name: str, no_commit: str, begin: datetime, last: datetime, asked: Sequence[int] = ()
) -> Answer:
    """Returns the same as `capacity_of` for a known group, by the rounds from `begin` to the round at `last`."""
    filters: list[Filter] = [("sample_date", ">=", begin.date()), ("sampled_at", ">=", begin)]
    rows = lag_rows(tables.rows("lag", *filters, ("sampled_at", "<=", last), ("group_id", "=", name)))
    rounds = rounds_of(rows)
    if not rounds:
        return _nothing(name, begin, last, no_commit)
    now = [row for row in rows if row.sampled_at_ms == rounds[-1].at_ms]
    state = _state(tables, name, now[0].sampled_at_ms)
    assignor = state.get("protocol")
    found = capacity(rounds, state.get("member_count"), assignor)
    return {
        **_nothing(name, begin, instant_of_ms(rounds[-1].at_ms), no_commit),
        "findings": found.findings,
        "partitions": found.partitions,
        "members": len(found.members),
        "idle_members": found.idle_members,
        "produced_per_second": _rounded(found.produced_per_s),
        **_pace(found.pace),
        "members_needed": None if found.is_bound else found.members_needed,
        "members_needed_at_most": found.members_needed,
        "hot_partitions": [
            {"topic": place.topic, "partition": place.partition, "produced_per_second": _rounded(found.rates[place])}
            for place in found.hot[:PLACES_MAX]
        ],
        "by_member": [_member(each, now) for each in found.members],
        "asked": [_with_members(found, members, assignor, now) for members in asked],
        **scaler_facts(now, no_commit),
    }


def scaler_facts(rows: Sequence[LagRow], no_commit: str) -> Answer:
    """Returns the values of one round that an autoscaler may act on: sums of lag, counts of partitions, and numbers of
    members that divide the partitions evenly. `rows` are those of one group in the round."""
    counted = [row for row in rows if LagFlag.UNSUBSCRIBED not in row.flags]
    rates = {place: 0.0 for each in rounds_of(counted) for place in each.places}
    return {
        "lag": lag_to_scale_by(rows, no_commit).lag,
        "lag_without_stuck": lag_to_scale_by(rows, no_commit, without_persistent=True).lag,
        "partitions_with_lag": sum(bool(row.lag) for row in counted),
        "partitions_without_lag": sum(row.lag is None for row in counted),
        "partitions_without_commit": sum(LagFlag.NO_COMMIT in row.flags for row in counted),
        "no_commit": no_commit,
        "even_members": even_members(rates),
    }


def sentences(answer: Answer) -> Iterator[str]:
    """Yields one sentence for each finding."""
    for name in answer["findings"]:
        yield SENTENCES[name].format_map(_words(answer))


SENTENCES: Mapping[str, str] = {
    CapacityFinding.STUCK: "A member's committed offsets do not move, although records wait: more members will not move"
    " them.",
    CapacityFinding.HOT_PARTITION: "Hot partitions: {hot}. A partition has one owner: only other keys, or more"
    " partitions, spread its records.",
    CapacityFinding.UNEVEN_PACE: "Members that had work left all the time process at different paces: look at the slow"
    " ones' hosts.",
    CapacityFinding.IDLE_MEMBERS: "{idle} no partition: there are {all_members} and {all_partitions}.",
    CapacityFinding.MORE_WONT_HELP: "More members will not be enough: even then one would have to process more than"
    " {load_max} of what it can.",
    CapacityFinding.MORE_NEEDED: "{needed} would be enough, and there {are}: each then has to process at most"
    " {load_max} of what it can ({pace} records/s).",
    CapacityFinding.FEWER_WOULD_DO: "{needed} would be enough, and there {are}.",
    CapacityFinding.ENOUGH: "{carry} the load.",
    CapacityFinding.UNKNOWN: "Whether more members would help is not known: no member's pace was seen, or what is"
    " produced is not known.",
}


def _words(answer: Answer) -> Answer:
    hot = [
        f"{each['topic']} {each['partition']} ({_rate(each['produced_per_second'])} records/s)"
        for each in answer["hot_partitions"]
    ]
    more = f" and {len(hot) - HOT_NAMED:,} more" if len(hot) > HOT_NAMED else ""
    members, idle, needed = (answer[name] or 0 for name in ("members", "idle_members", "members_needed_at_most"))
    return {
        "hot": ", ".join(hot[:HOT_NAMED]) + more,
        "load_max": f"{LOAD_MAX:.0%}",
        "pace": _rate(answer["pace_per_second"]),
        "needed": number_of(needed, "member"),
        "are": f"is {members:,}" if members == 1 else f"are {members:,}",
        "carry": f"{number_of(members, 'member')} {'carries' if members == 1 else 'carry'}",
        "idle": f"{number_of(idle, 'member')} {'has' if idle == 1 else 'have'}",
        "all_members": number_of(members + idle, "member"),
        "all_partitions": number_of(answer["partitions"] or 0, "partition"),
    }


def _rate(per_second: float | None) -> str | None:
    return None if per_second is None else f"{per_second:,.1f}"


def _nothing(name: str, since: datetime, until: datetime, no_commit: str) -> Answer:
    """Returns the answer where the group had no partition in any round."""
    return {
        "group_id": name,
        "since": since,
        "until": until,
        "findings": [CapacityFinding.UNKNOWN],
        **dict.fromkeys(("partitions", "members", "idle_members", "produced_per_second")),
        **_pace(None),
        **dict.fromkeys(("members_needed", "members_needed_at_most")),
        "hot_partitions": [],
        "by_member": [],
        "asked": [],
        **scaler_facts([], no_commit),
    }


def _state(tables: ClusterRows, name: str, at_ms: int) -> Answer:
    """Returns what the coordinator reported in a round. While a group rebalances, its members are not those to whom the
    partitions were assigned, and so their number is not known."""
    columns = ("protocol", "member_count", "state")
    asked = (*of_round(instant_of_ms(at_ms)), ("group_id", "=", name))
    found = tables.rows_if_any("group_states", *asked, columns=columns)
    if not found:
        return {}
    return found[0] | ({"member_count": None} if found[0]["state"] in REBALANCING_STATES else {})


def _pace(pace: Pace | None) -> Answer:
    return {
        "pace_per_second": None if pace is None else _rounded(pace.per_s),
        "pace_low_per_second": None if pace is None else _rounded(pace.low),
        "pace_high_per_second": None if pace is None else _rounded(pace.high),
        "pace_at_least_per_second": None if pace is None else _rounded(pace.at_least),
    }


def _member(each: MemberLoad, rows: Sequence[LagRow]) -> Answer:
    of_member = next(row for row in rows if row.owner == each.member_id)
    return {
        "member_id": each.member_id,
        "client_id": of_member.client_id,
        "client_host": of_member.client_host,
        "partitions": each.partitions,
        "produced_per_second": _rounded(each.produced_per_s),
        **_pace(each.pace),
        "is_stuck": each.is_stuck,
    }


def _with_members(found: Capacity, members: int, assignor: str | None, rows: Sequence[LagRow]) -> Answer:
    lags = [row.lag for row in rows if LagFlag.UNSUBSCRIBED not in row.flags]
    lag = None if None in lags else sum(each or 0 for each in lags)
    deal = asdict(found.with_members(members, assignor, lag))
    names = {"heaviest_per_s": "heaviest_per_second"}
    return {names.get(name, name): _rounded(value) for name, value in deal.items()}


def _rounded(value: float | None) -> float | None:
    return round(value, 3) if isinstance(value, float) else value
