"""Finds the signs that members, generations and rebalances show: which members there are, which left and why, which
come and go.

Why a member left is stated by the server log, or else is a guess. A guess that is not certain enough leaves every
departure possible, so that a cause which needs one of them stays a rival and is not proved.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from groupledger.schemas.instants import EPOCH
from groupledger.schemas.kafka.group_states import CLASSIC_REBALANCING, COMPLETING_REBALANCE, EMPTY
from groupledger.schemas.kafka.names import is_made_for_one_use
from groupledger.schemas.kinds import roots, signs
from groupledger.schemas.kinds.changes import PARTITIONS_ADDED, SUBSCRIPTION_CHANGED, TOPOLOGY_NOT_READY, TOPOLOGY_READY
from groupledger.schemas.kinds.triggers import (
    ADMIN_REMOVED,
    LEFT,
    LEFT_POLL_TIMEOUT,
    SESSION_EXPIRED,
    trigger_of_departure,
)
from groupledger.schemas.words import LagStatus, OffsetEventCause
from groupledger.transforms.history.rules.departures import has_left_by, is_cause_known
from groupledger.transforms.incidents.diagnosis.evidence import AROUND
from groupledger.transforms.lookups import grouped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from groupledger.schemas.kinds.signs import Sign
    from groupledger.transforms.history.rules.turnovers import Turnover
    from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows, Seen, TroubleEpisode

    Row = Mapping[str, Any]
    Who = tuple[str | None, str | None, str | None]

RETURNS_MIN = 3
TOGETHER = timedelta(minutes=1)
EXPIRED_TOGETHER = timedelta(seconds=10)
LAST_SIGNS = {
    LEFT.name: signs.LAST_LEFT,
    SESSION_EXPIRED.name: signs.LAST_EXPIRED,
    LEFT_POLL_TIMEOUT.name: signs.LAST_POLL_TIMEOUT,
}
WENT_SIGNS = {
    LEFT.name: signs.WENT_BY_LEAVING,
    SESSION_EXPIRED.name: signs.WENT_BY_EXPIRY,
    LEFT_POLL_TIMEOUT.name: signs.WENT_BY_POLL_TIMEOUT,
}
MOVES_MIN = 3
MOST = 0.8
SURE_OF_INTERVALS = 0.85  # a supervisor may stop a process as regularly, without a commit
AFTER_INTERVAL = 0.1  # of the interval, and a second: a client looks at it now and then
REBALANCE_MIN = timedelta(minutes=2)  # one in good order ends within seconds
SURE_BY_LOG = 1.0  # as `with_logged_causes` says it; the history is never so sure


def identity(row: Row) -> Who:
    """Returns the identity by which a process is recognized: its instance id, or else its client id and host."""
    if row["group_instance_id"] is not None:
        return None, None, row["group_instance_id"]
    return row["client_id"], row["client_host"], None


def restless(episode: TroubleEpisode, rows: DiagnosisRows) -> tuple[Who, list[Row]] | None:
    """Returns the process that joined and left again and again in the episode, with these tenures. Processes of one
    client id on one host can't be distinguished: as many of them as were present at once count as one round of
    restarts."""
    ended = grouped(rows.within(episode, "members", "left_at"), identity)
    often = {who: gone for who, gone in ended.items() if len(gone) >= RETURNS_MIN}
    tenures = grouped(rows.members, identity) if often else {}
    found = [(who, [*gone]) for who, gone in often.items() if len(gone) >= RETURNS_MIN * _at_once(tenures[who])]
    return max(found, key=lambda each: (len(each[1]), str(each[0])), default=None)


def last_departures(episode: TroubleEpisode, rows: DiagnosisRows) -> list[Row]:
    """Returns the last members of a group that has none at the end of an episode; the group became empty when they
    left."""
    gone = [
        row for row in rows.members if row["left_at"] is not None and row["left_at"] <= episode.last_seen_at + AROUND
    ]
    if not gone or members_at(rows, episode.last_seen_at):
        return []
    last = max(row["left_at"] for row in gone)
    return [row for row in gone if last - row["left_at"] <= TOGETHER]


def members_at(rows: DiagnosisRows, at: datetime) -> list[Row]:
    """Returns the members at the instant `at`. A member whose beginning is not known counts as present at any earlier
    time."""
    begun = [row for row in rows.members if row["joined_at"] is None or row["joined_at"] <= at]
    return [row for row in begun if row["left_at"] is None or row["left_at"] > at]


def is_rebalancing(lag_round: Row) -> bool:
    return lag_round["status"] == LagStatus.REBALANCING and lag_round["group_state"] in CLASSIC_REBALANCING


def is_one_rebalance(rounds: Sequence[Row], rows: DiagnosisRows) -> bool:
    """Returns whether the group, a classic one, was in one and the same rebalance in all of these rounds, for at least
    REBALANCE_MIN."""
    if not rounds or not all(map(is_rebalancing, rounds)):
        return False
    since, last = rounds[0]["sampled_at"], rounds[-1]["sampled_at"]
    is_one = not any(since <= row["started_at"] <= last for row in rows.generations)
    return bool(is_one and last - since >= REBALANCE_MIN)


def subscribe_apart(members: Sequence[Row]) -> bool:
    """Returns whether members subscribe to different sets of topics, if no topic is in all sets, and no client id
    subscribes to two of them."""
    topics: defaultdict[frozenset[str], set[str]] = defaultdict(set)
    for row in members:
        topics[frozenset(row["subscribed_topics"] or ())].add(row["client_id"])
    apart = [*topics]
    return len(apart) > 1 and all(apart) and not frozenset.intersection(*apart) and _are_apart([*topics.values()])


def topics_beside(rows: DiagnosisRows, at: datetime) -> set[str]:
    """Returns the subscribed topics that the brokers do not have, if the members own partitions of other topics;
    otherwise an empty set."""
    wanted = {topic for row in members_at(rows, at) for topic in row["subscribed_topics"] or ()}
    owned = {row["topic"] for row in rows.assignments if row["valid_to"] is None}
    return (wanted - owned).intersection(rows.unseen_topics(at)) if wanted & owned and wanted - owned else set()


def see_members(episode: TroubleEpisode, rows: DiagnosisRows, seen: Seen) -> None:
    """Adds the signs that the group's members and rebalances show in the episode to `seen`."""
    gone = rows.within(episode, "members", "left_at")
    logged = {
        event["member_id"]
        for event in rows.events
        if trigger_of_departure(event["kind"], event["reason"], event["client_reason"]) is not None
    }
    last = last_departures(episode, rows)
    if any(row["member_id"] in logged for row in (*gone, *last)):
        seen.add(signs.DEPARTURES_LOGGED.name, is_logged=True)
    found = (
        *_of_names(episode, rows),
        *_of_presence(episode, rows),
        *_of_rounds(episode, rows),
        *_of_turnover(episode, rows, gone),
    )
    for sign in found:
        seen.add(sign.name)
    if last:
        _add_causes(seen, last, LAST_SIGNS)
        if len(last) > 1 and all(has_left_by(row, LEFT.name) for row in last):
            seen.add(signs.LAST_LEFT_TOGETHER.name)
    loop = restless(episode, rows)
    if loop is not None:
        seen.add(signs.ONE_CAME_AND_WENT.name)
        if _is_fenced(episode, rows, loop[0]):
            seen.add(signs.CAME_AND_WENT_BY_FENCING.name)
        gone = loop[1]
        if sum(map(_lasted_its_interval, gone)) >= max(RETURNS_MIN, MOST * len(gone)):
            for sign in (signs.TENURES_OF_ONE_INTERVAL, signs.WENT_BY_POLL_TIMEOUT):
                seen.add(sign.name, SURE_OF_INTERVALS)
    if gone:
        _add_causes(seen, gone, WENT_SIGNS)


def _is_fenced(episode: TroubleEpisode, rows: DiagnosisRows, who: Who) -> bool:
    """Returns whether an incident in or near the episode says that two processes use the instance id of `who`."""
    *_, instance_id = who
    return instance_id is not None and any(
        row["probable_root"] == roots.INSTANCE_STARTED_TWICE.name
        and row["group_instance_id"] == instance_id
        and episode.holds_any(row["first_seen_at"], row["last_seen_at"])
        for row in rows.incidents
    )


def _of_names(episode: TroubleEpisode, rows: DiagnosisRows) -> Iterator[Sign]:
    if is_made_for_one_use(rows.group_id):
        yield signs.NAME_GENERATED
    if topics_beside(rows, episode.last_seen_at):
        yield signs.ONE_TOPIC_UNSEEN


def _of_presence(episode: TroubleEpisode, rows: DiagnosisRows) -> Iterator[Sign]:
    there = members_at(rows, episode.last_seen_at)
    state = episode.rounds[-1]["group_state"] if episode.rounds else None
    if state is not None or rows.members:
        is_empty = state == EMPTY if state is not None else not there
        yield signs.NO_MEMBERS if is_empty else signs.HAS_MEMBERS
    if any(
        row["group_instance_id"] is not None
        for row in (*there, *rows.within(episode, "members", "left_at"), *episode.incidents)
    ):
        yield signs.STATIC_MEMBERS
    if any(row["subscribed_regex"] for row in there):
        yield signs.REGEX_SUBSCRIPTION
    if subscribe_apart(there):
        yield signs.SUBSCRIPTIONS_APART
    at = episode.last_seen_at
    if any(
        row["member_count"] and row["owned_count"] == 0
        for row in rows.generations
        if row["started_at"] <= at and (row["ended_at"] is None or row["ended_at"] >= at)
    ):
        yield signs.NOTHING_ASSIGNED
        if rows.unseen_topics(at):
            yield signs.SUBSCRIBED_TOPIC_UNSEEN
    if _began_well(episode, rows):
        yield signs.BEGAN_WELL
    changes = [change["kind"] for row in rows.generations for change in row["changes"] or ()]
    ready = [kind for kind in changes if kind in {TOPOLOGY_READY.name, TOPOLOGY_NOT_READY.name}]
    if ready and ready[-1] == TOPOLOGY_NOT_READY.name:
        yield signs.TOPOLOGY_NOT_READY


def _of_rounds(episode: TroubleEpisode, rows: DiagnosisRows) -> Iterator[Sign]:
    if any(row["group_state"] == EMPTY for row in episode.rounds):
        yield signs.MEMBERS_AWAY
    if is_one_rebalance(episode.rounds, rows):
        yield signs.REBALANCE_LASTS


def _began_well(episode: TroubleEpisode, rows: DiagnosisRows) -> bool:
    """Returns whether the episode lies at the group's start, and somebody owned something soon after it: generations
    that are overtaken before their first assignment are normal while members come."""
    first = next(iter(rows.generations), None)
    if first is None or not episode.holds(first["started_at"]):
        return False
    soon = episode.last_seen_at + AROUND
    return any(row["owned_count"] for row in rows.generations if row["started_at"] <= soon)


def _of_turnover(episode: TroubleEpisode, rows: DiagnosisRows, gone: Sequence[Row]) -> Iterator[Sign]:
    changes = [each for each in rows.turnovers if episode.holds_any(each.began_at, each.ended_at)]
    if any(each.before and each.after and (each.passing or len(each.before) != len(each.after)) for each in changes):
        yield signs.MEMBER_COUNT_CHANGED
    if any(each.is_deploy for each in changes):
        yield signs.ALL_REPLACED
    if any(map(_has_other_instances, changes)):
        yield signs.INSTANCES_REPLACED
    expired = sorted(
        (row for row in gone if row["leave_cause"] == SESSION_EXPIRED.name), key=lambda row: row["left_at"]
    )
    if any(
        second["left_at"] - first["left_at"] <= EXPIRED_TOGETHER and first["client_host"] != second["client_host"]
        for first, second in pairwise(expired)
    ):
        yield signs.HOSTS_EXPIRED_TOGETHER
    if any(has_left_by(row, ADMIN_REMOVED.name) for row in gone):
        yield signs.REMOVED_BY_ADMIN
    turns = rows.within(episode, "rebalances", "happened_at")
    if turns and turns[-1]["members_idle"]:
        yield signs.MEMBERS_WITHOUT_PARTITIONS
    states = [row["group_state"] for row in episode.rounds if row["group_state"] in CLASSIC_REBALANCING]
    if 2 * states.count(COMPLETING_REBALANCE) > len(states):
        yield signs.AWAITS_ASSIGNMENT
    yield from _of_changes(turns)
    if turns and 2 * sum(row["caused_by_generation"] is not None for row in turns) >= len(turns):
        yield signs.FOLLOW_UPS
    moves = {row["happened_at"] for row in rows.offset_events if row["cause"] == OffsetEventCause.NO_MEMBER}
    if len(moves) >= MOVES_MIN:
        yield signs.MOVED_REPEATEDLY


def _of_changes(turns: Sequence[Row]) -> Iterator[Sign]:
    """Yields the changes in the members' metadata from one generation to the next."""
    kinds = [{change["kind"] for change in row["changes"] or ()} for row in turns]
    if turns and 2 * sum(PARTITIONS_ADDED.name in each for each in kinds) >= len(turns):
        yield signs.PARTITIONS_ADDED
    changed = Counter(
        change["member_id"]
        for row in turns
        for change in row["changes"] or ()
        if change["kind"] == SUBSCRIPTION_CHANGED.name
    )
    if max(changed.values(), default=0) >= max(RETURNS_MIN, len(turns) / 3):
        yield signs.SUBSCRIPTION_CHANGES


def _has_other_instances(change: Turnover) -> bool:
    """Returns whether static members gave way to as many with other instance ids."""
    gone, came = ({row["group_instance_id"] for row in rows} for rows in (change.gone, change.came))
    return bool(gone) and None not in gone | came and not gone & came and len(change.before) == len(change.after)


def _add_causes(seen: Seen, gone: Sequence[Row], sign_of: Mapping[str, Sign]) -> None:
    """Adds why most of those went; where no cause is certain for half of them, each is possible."""
    for cause, sign in sign_of.items():
        known = [row for row in gone if has_left_by(row, cause)]
        if 2 * len(known) >= len(gone):
            sure = min(row["leave_cause_confidence"] for row in known)
            seen.add(sign.name, sure, is_logged=sure == SURE_BY_LOG)
            return
    if not any(map(is_cause_known, gone)):
        seen.possible.update(sign.name for sign in sign_of.values())


def _lasted_its_interval(row: Row) -> bool:
    """Returns whether a member left for no known reason when its poll interval was over: it had not polled since it
    got its partitions."""
    if row["joined_at"] is None or not row["rebalance_timeout_ms"]:
        return False
    interval = timedelta(milliseconds=row["rebalance_timeout_ms"])
    lasted = row["left_at"] - row["joined_at"]
    return bool(
        not is_cause_known(row) and interval <= lasted <= interval * (1 + AFTER_INTERVAL) + timedelta(seconds=1)
    )


def _are_apart(groups: Sequence[set[str]]) -> bool:
    return sum(map(len, groups)) == len(set().union(*groups))


def _at_once(tenures: Sequence[Row]) -> int:
    """Returns how many tenures there were at one time, at most."""
    steps = [(row["joined_at"] or EPOCH, 1) for row in tenures]
    steps += [(row["left_at"], -1) for row in tenures if row["left_at"] is not None]
    there = most = 0
    for _, step in sorted(steps):
        there += step
        most = max(most, there)
    return max(most, 1)
