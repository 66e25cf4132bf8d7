"""Makes of a group's rows what the simulation of a what-if plays, and what the ledger observed of the same figures.

What the tables do not hold is taken as Kafka's default unless it is told: heartbeat.interval.ms, and
group.initial.rebalance.delay.ms. Groups of which a replay can't be true are refused with a sentence: other types than
consumers, assignors of the application's own, holes in what the ledger knows, a change of type or protocol meanwhile.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.what_if.answer import Interval
from groupledger.coordinator.what_if.setting import ASSIGNED_BY, CONSUMER, CONSUMER_HEARTBEAT_MS, Setting, changed
from groupledger.coordinator.what_if.workload import LEFT, REPLACED, SILENT, TOO_SLOW, Growth, Tenure, Workload
from groupledger.schemas.kinds.changes import GROUP_STARTED, MEMBER_LEFT, PARTITIONS_ADDED
from groupledger.schemas.kinds.triggers import LEFT_POLL_TIMEOUT, SESSION_EXPIRED
from groupledger.schemas.words import GroupType, HoleCause, LeaveCause, PauseScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Row = Mapping[str, Any]

EPOCH: Final = datetime.fromtimestamp(0, timezone.utc)
MILLISECOND: Final = timedelta(milliseconds=1)
ENDS: Final = {
    SESSION_EXPIRED.name: SILENT,
    LEFT_POLL_TIMEOUT.name: TOO_SLOW,
    LeaveCause.REPLACED: REPLACED,
}
HEARTBEATS_PER_SESSION: Final = 3


class NotReplayableError(Exception):
    """Says in one sentence why a group can't be replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows:
    """The rows of one group, with aware instants. `rebalances` are those within [since, until), with the columns of
    `transforms.logs.rules.triggers` if a log was imported."""

    members: Sequence[Row]
    generations: Sequence[Row]
    rebalances: Sequence[Row]
    assignments: Sequence[Row]
    since: datetime
    until: datetime


def workload_of(rows: GroupRows, told: Iterable[str] = (), records_per_second: float | None = None) -> Workload:
    """Returns what happened to the group. `told` is what its setting has and no record tells. Raises
    NotReplayableError, and SettingError if `told` is no setting."""
    # Rounds that no leader ended are known, and counted.
    if any(row["is_hole"] and row["hole_cause"] != HoleCause.NOT_SYNCED for row in rows.rebalances):
        raise NotReplayableError("The ledger has holes in this time: some generations are not known.")
    members = [row for row in rows.members if _is_of(rows, row["joined_at"], row["left_at"])]
    generations = [row for row in rows.generations if _is_of(rows, row["started_at"], row["ended_at"])]
    actual = changed(_actual(generations, members), told)
    topics, growths = _topics(rows)
    return Workload(
        actual=actual,
        tenures=tuple(_tenure(row, rows) for row in members),
        topics=tuple(topics.items()),
        growths=tuple(growths),
        births=sum(map(_is_birth, rows.rebalances)),
        records_per_second=records_per_second,
    )


def _actual(generations: Sequence[Row], members: Sequence[Row]) -> Setting:
    """Returns what the group is set to, as far as its records say it. Raises NotReplayableError."""
    types = {row["group_type"] or GroupType.CLASSIC for row in generations}
    if len(types) > 1:
        raise NotReplayableError("The group changed its type meanwhile: ask for the time before or after.")
    if not members:
        raise NotReplayableError("The group had no members in this time.")
    if types <= {GroupType.CONSUMER}:
        assigned_by = CONSUMER
    else:
        kinds = {row["protocol_type"] for row in generations if row["member_count"]}
        protocols = {row["protocol"] for row in generations if row["member_count"]}
        if types != {GroupType.CLASSIC} or kinds != {"consumer"}:
            raise NotReplayableError("Only groups of consumers can be replayed.")
        if len(protocols) > 1:
            raise NotReplayableError("The group changed its assignor meanwhile: ask for the time before or after.")
        (assigned_by,) = protocols
        if assigned_by not in ASSIGNED_BY:
            raise NotReplayableError("The assignor is the application's own, which can't be replayed.")
    statics = {row["group_instance_id"] is not None for row in members}
    if len(statics) > 1:
        raise NotReplayableError("Some of its members are static and some are not, which can't be replayed.")
    session_ms = _usual(members, "session_timeout_ms", Setting().session_ms)
    usual_heartbeat_ms = CONSUMER_HEARTBEAT_MS if assigned_by == CONSUMER else Setting().heartbeat_ms
    return Setting(
        assigned_by=assigned_by,
        is_static=statics == {True},
        session_ms=session_ms,
        heartbeat_ms=min(usual_heartbeat_ms, session_ms // HEARTBEATS_PER_SESSION),
        max_poll_interval_ms=_usual(members, "rebalance_timeout_ms", Setting().max_poll_interval_ms),
    )


def _usual(members: Sequence[Row], column: str, default: int) -> int:
    values = Counter(row[column] for row in members if row[column] is not None and row[column] > 0)
    return values.most_common(1)[0][0] if values else default


def _tenure(row: Row, rows: GroupRows) -> Tenure:
    left_at = row["left_at"]
    is_left = left_at is not None and left_at < rows.until
    return Tenure(
        member_id=row["member_id"],
        joined_ms=_ms(row["joined_at"]) if row["joined_at"] >= rows.since else None,
        left_ms=_ms(left_at) if is_left else None,
        end=_end(row, rows.rebalances) if is_left else "",
        instance_id=row["group_instance_id"],
        client_id=row["client_id"] or "",
        client_host=row["client_host"] or "",
    )


def _end(row: Row, rebalances: Sequence[Row]) -> str:
    """Returns how a tenure ended: as the server log tells it of a rebalance that took nobody else, or else as the
    records do."""
    for rebalance in rebalances:
        if rebalance["kafka_offset"] == row["to_offset"] and rebalance.get("trigger") in ENDS:
            gone = [change for change in rebalance["changes"] or () if change["kind"] == MEMBER_LEFT.name]
            if len(gone) == 1:
                return ENDS[rebalance["trigger"]]
    return ENDS.get(row["leave_cause"], LEFT)


def _topics(rows: GroupRows) -> tuple[dict[str, int], list[Growth]]:
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
                    growths.append(Growth(_ms(rebalance["happened_at"]), change["topic"], counts[change["topic"]]))
                    counts[change["topic"]] = before
    return counts, growths


def observed_of(rebalances: Sequence[Row]) -> dict[str, Interval | None]:
    """Returns what the ledger knows of the figures: of pauses between which bounds they lie, and of records that were
    processed twice nothing."""
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


def _ms(at: datetime) -> int:
    return (at - EPOCH) // MILLISECOND


def _is_of(rows: GroupRows, begin: datetime, end: datetime | None) -> bool:
    return begin < rows.until and (end is None or end >= rows.since)


def _is_birth(rebalance: Row) -> bool:
    return any(change["kind"] == GROUP_STARTED.name for change in rebalance["changes"] or ())
