"""Converts a group's rows into the input of a what-if simulation, and computes the figures that the ledger observed, to
compare with.

Settings that the tables do not hold are taken as Kafka's defaults unless they are given: heartbeat.interval.ms, and
group.initial.rebalance.delay.ms. Groups that can't be replayed truthfully are refused with a sentence: groups of other
types than consumers, with an assignor of the application's own, with holes in coverage, or with a change of type or
protocol in this time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.what_if.answer import Interval
from groupledger.coordinator.what_if.setting import ASSIGNED_BY, CONSUMER, CONSUMER_HEARTBEAT_MS, Setting, changed
from groupledger.coordinator.what_if.workload import (
    LEFT,
    OTHERWISE,
    PAUSED,
    REPLACED,
    SILENT,
    TOO_SLOW,
    MemberSilence,
    Tenure,
    TopicGrowth,
    Workload,
)
from groupledger.schemas.instants import ms_of
from groupledger.schemas.kinds.changes import GROUP_STARTED, PARTITIONS_ADDED
from groupledger.schemas.kinds.triggers import LEFT_POLL_TIMEOUT, REBALANCE_TIMEOUT, SESSION_EXPIRED
from groupledger.schemas.words import GroupType, HoleCause, LeaveCause, PauseScope
from groupledger.transforms.history.rules.events import SESSION_DEFAULT_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    Row = Mapping[str, Any]

ENDS: Final = {
    SESSION_EXPIRED.name: SILENT,
    LEFT_POLL_TIMEOUT.name: TOO_SLOW,
    REBALANCE_TIMEOUT.name: TOO_SLOW,
    LeaveCause.REPLACED: REPLACED,
}
# By type, protocol type or protocol.
OTHERS: Final[Mapping[str, str]] = {
    GroupType.SHARE: "share consumers",
    GroupType.STREAMS: "Kafka Streams",
    "stream": "Kafka Streams",
    "connect": "Kafka Connect",
}
UNIFORM: Final = frozenset({None, "", "uniform"})  # the assignor that brokers use if a member asks for none
HEARTBEATS_PER_SESSION: Final = 3
SILENT_HEARTBEATS: Final = 2
SLACK_MS: Final = 2_000
HEARTBEATS: Final = frozenset({"HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT"})
HEARTBEATS_MIN: Final = 5


class NotReplayableError(Exception):
    """Says in one sentence why a group can't be replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRows:
    """The rows of one group, with aware instants. `rebalances` are those within [since, until), with the columns of
    `transforms.logs.rules.triggers` if a log was imported, and `requests` are those of the request log, if one was
    imported. `consumer_session_ms` is the session timeout of KIP-848 groups by which the ledger inferred how members
    left, since no record has it."""

    members: Sequence[Row]
    generations: Sequence[Row]
    rebalances: Sequence[Row]
    assignments: Sequence[Row]
    since: datetime
    until: datetime
    requests: Sequence[Row] = ()
    consumer_session_ms: int = SESSION_DEFAULT_MS


def workload_of(rows: WhatIfRows, given: Iterable[str] = (), records_per_second: float | None = None) -> Workload:
    """Returns the input of the simulation: the group's settings, tenures of members and topics. `given` are settings of
    the group that no record has. Raises NotReplayableError, and SettingError if `given` has an invalid setting."""
    # Rounds that no leader ended are known, and counted.
    if any(row["is_hole"] and row["hole_cause"] != HoleCause.NOT_SYNCED for row in rows.rebalances):
        raise NotReplayableError("The ledger has holes in this time: some generations are not known.")
    members = [row for row in rows.members if _is_of(rows, row["joined_at"], row["left_at"])]
    generations = [row for row in rows.generations if _is_of(rows, row["started_at"], row["ended_at"])]
    actual = changed(_actual(generations, members, rows), given)
    topics, growths = _topics(rows)
    tenures = [_tenure(row, rows, actual.session_ms) for row in members]
    silences = silences_of(tenures, rows, actual)
    if silences is not None:
        tenures = [_paused(_heard(each, rows, actual), silences, actual.session_ms) for each in tenures]
    return Workload(
        actual=actual,
        tenures=tuple(tenures),
        topics=tuple(topics.items()),
        growths=tuple(growths),
        births=sum(map(_is_birth, rows.rebalances)),
        records_per_second=records_per_second,
        silences=silences,
    )


def _actual(generations: Sequence[Row], members: Sequence[Row], rows: WhatIfRows) -> Setting:
    """Returns the group's actual settings, as far as its records show them. Raises NotReplayableError."""
    types = {row["group_type"] or GroupType.CLASSIC for row in generations}
    if len(types) > 1:
        raise NotReplayableError("The group changed its type meanwhile: ask for the time before or after.")
    if not members:
        raise NotReplayableError("The group had no members in this time.")
    assigned_by = _by_broker(members) if types <= {GroupType.CONSUMER} else _by_leader(types, generations)
    if len({tuple(row["subscribed_topics"]) for row in members if row["subscribed_topics"]}) > 1:
        raise NotReplayableError("Its members subscribe to different topics, which can't be replayed.")
    statics = {row["group_instance_id"] is not None for row in members}
    if len(statics) > 1:
        raise NotReplayableError("Some of its members are static and some are not, which can't be replayed.")
    session_ms = _usual(members, "session_timeout_ms", rows.consumer_session_ms)
    usual_heartbeat_ms = CONSUMER_HEARTBEAT_MS if assigned_by == CONSUMER else Setting().heartbeat_ms
    return Setting(
        assigned_by=assigned_by,
        is_static=statics == {True},
        session_ms=session_ms,
        heartbeat_ms=_heartbeat_ms(rows.requests) or min(usual_heartbeat_ms, session_ms // HEARTBEATS_PER_SESSION),
        max_poll_interval_ms=_usual(members, "rebalance_timeout_ms", Setting().max_poll_interval_ms),
    )


def _by_broker(members: Sequence[Row]) -> str:
    """Returns CONSUMER if the broker assigns to all members, and evenly."""
    if any(row["is_classic"] for row in members):
        raise NotReplayableError("Some of its members speak the classic protocol, which can't be replayed.")
    if any(row["server_assignor"] not in UNIFORM for row in members):
        raise NotReplayableError("Members ask the broker for another assignor than uniform, which can't be replayed.")
    return CONSUMER


def _by_leader(types: Iterable[str], generations: Sequence[Row]) -> str:
    """Returns the assignor of a classic group of consumers."""
    kinds = {row["protocol_type"] for row in generations if row["member_count"]}
    protocols = {row["protocol"] for row in generations if row["member_count"]}
    for kind, others in OTHERS.items():
        if kind in {*types, *kinds, *protocols}:
            raise NotReplayableError(f"It is a group of {others}: only groups of consumers can be replayed.")
    if kinds != {"consumer"}:
        raise NotReplayableError("Its protocol is the application's own: only groups of consumers can be replayed.")
    if len(protocols) > 1:
        raise NotReplayableError("The group changed its assignor meanwhile: ask for the time before or after.")
    assigned_by: str
    (assigned_by,) = protocols
    if assigned_by not in ASSIGNED_BY:
        raise NotReplayableError("The assignor is the application's own, which can't be replayed.")
    return assigned_by


def _heartbeat_ms(requests: Iterable[Row]) -> int | None:
    """Returns how long members usually wait from heartbeat to heartbeat; None if requests do not show it."""
    by_member: dict[str, list[int]] = defaultdict(list)
    for row in requests:
        if row["api"] in HEARTBEATS:
            by_member[row["member_id"]].append(ms_of(row["happened_at"]))
    waits = [after - before for times in by_member.values() for before, after in pairwise(sorted(times))]
    return round(median(waits)) if len(waits) >= HEARTBEATS_MIN else None


def _usual(members: Sequence[Row], column: str, default: int) -> int:
    values = Counter(row[column] for row in members if row[column] is not None and row[column] > 0)
    return values.most_common(1)[0][0] if values else default


def _tenure(row: Row, rows: WhatIfRows, session_ms: int) -> Tenure:
    left_at = row["left_at"]
    is_left = left_at is not None and left_at < rows.until
    end, doubt = _end(row, rows) if is_left else ("", 0.0)
    if doubt and row["session_timeout_ms"] is None and session_ms != rows.consumer_session_ms:
        doubt = 0.5  # the guess took another session for the broker's
    return Tenure(
        member_id=row["member_id"],
        joined_ms=ms_of(row["joined_at"]) if row["joined_at"] >= rows.since else None,
        left_ms=ms_of(left_at) if is_left else None,
        end=end,
        doubt=doubt,
        instance_id=row["group_instance_id"],
        client_id=row["client_id"] or "",
        client_host=row["client_host"] or "",
    )


def _end(row: Row, rows: WhatIfRows) -> tuple[str, float]:
    """Returns how a tenure ended, and the doubt in it: as the server log says for a rebalance that took nobody else,
    or else as the records do. Of a static member it is the same whether it closed or fell silent: it says nothing."""
    if sum(each["to_offset"] == row["to_offset"] for each in rows.members) == 1:
        for rebalance in rows.rebalances:
            if rebalance["kafka_offset"] == row["to_offset"] and rebalance.get("trigger") in ENDS:
                return ENDS[rebalance["trigger"]], 0.0
    end = ENDS.get(row["leave_cause"], LEFT)
    is_guess = end in OTHERWISE and row["group_instance_id"] is None and row["leave_cause_confidence"] is not None
    return end, 1.0 - row["leave_cause_confidence"] if is_guess else 0.0


def _topics(rows: WhatIfRows) -> tuple[dict[str, int], list[TopicGrowth]]:
    """Returns the partitions of each topic when the time began, and how they grew."""
    counts: dict[str, int] = {}
    for row in rows.assignments:
        if _is_of(rows, row["valid_from"], row["valid_to"]):
            counts[row["topic"]] = max(counts.get(row["topic"], 0), row["partition"] + 1)
    growths = []
    for rebalance in sorted(rows.rebalances, key=lambda each: each["kafka_offset"], reverse=True):
        for change in rebalance["changes"] or ():
            if change["kind"] == PARTITIONS_ADDED.name and change["topic"] in counts and change["partitions"]:
                before = min(change["partitions"])
                if before:
                    growths.append(
                        TopicGrowth(ms_of(rebalance["happened_at"]), change["topic"], counts[change["topic"]])
                    )
                    counts[change["topic"]] = before
    return counts, growths


def silences_of(tenures: Sequence[Tenure], rows: WhatIfRows, actual: Setting) -> tuple[MemberSilence, ...] | None:
    """Returns the times in which members sent nothing for longer than some heartbeats. Returns None if requests are
    missing: there are none at all, or a member sent nothing for longer than its session and was not removed for
    that."""
    if not rows.requests:
        return None
    spoke: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in sorted(rows.requests, key=lambda each: each["happened_at"]):
        # A JoinGroup may wait long for its answer; that is not a silence.
        spoke[row["member_id"]].append((ms_of(row["happened_at"]), ms_of(row["logged_at"])))
    found = []
    for tenure in tenures:
        begin = ms_of(rows.since) if tenure.joined_ms is None else tenure.joined_ms
        end = ms_of(rows.until) if tenure.left_ms is None else tenure.left_ms
        requests = [each for each in spoke[tenure.member_id] if each[1] > begin]
        known = [(begin, begin), *(each for each in requests if each[0] < end), (end, end)]
        too_long = sum(asked - answered > actual.session_ms + SLACK_MS for (_, answered), (asked, _) in pairwise(known))
        if too_long > (tenure.end == SILENT):
            return None
        found += [
            MemberSilence(tenure.member_id, answered, asked)
            for (_, answered), (asked, _) in pairwise(requests)
            if asked - answered > SILENT_HEARTBEATS * actual.heartbeat_ms
        ]
    return tuple(found)


def _heard(tenure: Tenure, rows: WhatIfRows, actual: Setting) -> Tenure:
    """Returns a tenure whose end is the one in the member's requests: a leave has its time."""
    if not tenure.doubt or tenure.left_ms is None:
        return tenure
    spoke = [ms_of(row["happened_at"]) for row in rows.requests if row["member_id"] == tenure.member_id]
    silent_ms = tenure.left_ms - max((at for at in spoke if at <= tenure.left_ms), default=0)
    return replace(tenure, end=SILENT if silent_ms > actual.session_ms // 2 else LEFT, doubt=0.0)


def _paused(tenure: Tenure, silences: Iterable[MemberSilence], session_ms: int) -> Tenure:
    """Returns a tenure that ended in silence as one of a member that only paused, if it spoke again."""
    if tenure.end != SILENT:
        return tenure
    is_back = any(each.member_id == tenure.member_id and each.to_ms - each.from_ms >= session_ms for each in silences)
    return replace(tenure, end=PAUSED) if is_back else tenure


def observed_of(rebalances: Sequence[Row]) -> dict[str, Interval | None]:
    """Returns the observed figures of the rebalances as intervals, by name; None is unknown. Rebalances and moves are
    exact, and pauses lie between two bounds. Records that were processed twice are left out, since the ledger does not
    know them."""
    counted = [row for row in rebalances if not _is_birth(row)]
    increments = sum(row["to_generation"] - row["from_generation"] for row in counted)
    moves = [row["partitions_moved"] for row in counted]
    moved = None if None in moves else float(sum(moves))
    return {
        "rebalances": Interval(increments, increments),
        "partitions_moved": None if moved is None else Interval(moved, moved),
        "stopped_partition_seconds": _stopped(counted),
    }


def _stopped(rebalances: Sequence[Row]) -> Interval | None:
    low = high = 0
    for row in rebalances:
        whole = row["pause_scope"] == PauseScope.GROUP
        count = (row["partitions_moved"] or 0) + ((row["partitions_kept"] or 0) if whole else 0)
        pauses = [each["pause_upper_ms"] for each in row["partition_pauses"] or ()]
        if row["pause_scope"] is None or row["pause_lower_ms"] is None or None in pauses or len(pauses) < count:
            return None
        low, high = low + row["pause_lower_ms"] * count, high + sum(pauses)
    return Interval(low / 1_000, high / 1_000)


def _is_of(rows: WhatIfRows, begin: datetime, end: datetime | None) -> bool:
    return begin < rows.until and (end is None or end >= rows.since)


def _is_birth(rebalance: Row) -> bool:
    return any(change["kind"] == GROUP_STARTED.name for change in rebalance["changes"] or ())
