"""Finds the times in which a symptom showed: episodes of incidents, of lag, of offsets that moved, and of members
without partitions.

Lag is a symptom from the round on in which its status is one that is judged over time (`transforms.lag.rules.status`);
rounds that only rebalance or are rewound lengthen such a stretch but do not begin one. The stretch begins when the
committed offset last advanced, which may be before the first available round.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.symptoms import (
    BEHIND,
    GROUP_GONE,
    NO_PROGRESS,
    NOBODY_HAS_PARTITIONS,
    OFFSET_MOVED,
    READ_TWICE_OR_NEVER,
    REBALANCES_GO_ON,
    symptom_of_kind,
)
from groupledger.schemas.words import GroupType, LagStatus, OffsetEventKind, Severity, words_of
from groupledger.transforms.incidents.diagnosis.deliveries import of_deliveries
from groupledger.transforms.incidents.diagnosis.evidence import AROUND, TroubleEpisode
from groupledger.transforms.incidents.diagnosis.harm import read_anew_or_never
from groupledger.transforms.incidents.diagnosis.member_signs import (
    is_one_rebalance,
    is_rebalancing,
    members_at,
    topics_beside,
)
from groupledger.transforms.incidents.diagnosis.turnover import turnovers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from groupledger.schemas.kinds.symptoms import Symptom
    from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows

    Row = Mapping[str, Any]

SYMPTOM_OF_STATUS = {
    LagStatus.WAITING_FOR_TRANSACTION: NO_PROGRESS,
    LagStatus.NO_COMMIT: NO_PROGRESS,
    LagStatus.UNSUBSCRIBED: BEHIND,
    LagStatus.GROWING: BEHIND,
    LagStatus.AHEAD_OF_LOG: NO_PROGRESS,
    LagStatus.STALLED: NO_PROGRESS,
    LagStatus.STOPPED: NO_PROGRESS,
}
# A group that is unsubscribed as a whole is well otherwise: what it does not read shows by itself (`_while_well`).
SYMPTOMS_OF_ROUNDS = {*SYMPTOM_OF_STATUS} - {LagStatus.UNSUBSCRIBED}
LENGTHENS = {LagStatus.REBALANCING, LagStatus.REWOUND, LagStatus.UNKNOWN}
GONE_EVENTS = {OffsetEventKind.GROUP_DELETED, OffsetEventKind.EXPIRED, OffsetEventKind.TOPIC_DELETED}
STRETCHES_TOGETHER = timedelta(seconds=30)  # after a longer time without the symptom, a new stretch begins
OF_A_MOMENT = {LagStatus.NO_COMMIT, LagStatus.GROWING, LagStatus.WAITING_FOR_TRANSACTION}
LATE_S = 30
MOMENT_MAX = timedelta(minutes=1)
WITHOUT_PARTITIONS_MIN = timedelta(minutes=1)  # a group that starts has none for some seconds
CONSUMERS = "consumer"  # the protocol type of those whose assignments are partitions of topics


def episodes(rows: DiagnosisRows) -> Iterator[TroubleEpisode]:
    yield from _of_incidents(rows)
    yield from _of_lag(rows)
    yield from _in_one_rebalance(rows)
    yield from _of_offsets(rows)
    yield from of_deliveries(rows)
    yield from _without_partitions(rows)
    yield from _without_a_topic(rows)
    yield from turnovers(rows)
    yield from _while_well(rows, _is_late)
    yield from _while_well(rows, _is_unsubscribed)


def _of_incidents(rows: DiagnosisRows) -> Iterator[TroubleEpisode]:
    """Yields the episodes that have an incident of a warning or more, or one that may have cost records. Kinds that
    only a newer release knows show no symptom."""
    by_episode: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows.incidents:
        by_episode[row["episode_id"]].append(row)
    for of_episode in by_episode.values():
        if all(row["severity"] == words_of(Severity)[0] and not row["never_read_max"] for row in of_episode):
            continue
        found = [symptom for row in of_episode if (symptom := symptom_of_kind(row["kind"])) is not None]
        if not found:
            continue
        since = min(row["first_seen_at"] for row in of_episode)
        last = max(row["last_seen_at"] for row in of_episode)
        yield TroubleEpisode(
            symptoms=tuple(dict.fromkeys(found)),
            since=since,
            last_seen_at=last,
            until=None if any(row["is_open"] for row in of_episode) else last,
            incidents=tuple(of_episode),
            rounds=tuple(row for row in rows.rounds if since - AROUND <= row["sampled_at"] <= last + AROUND),
        )


def _of_lag(rows: DiagnosisRows) -> Iterator[TroubleEpisode]:
    stretch: list[Row] = []
    for row in rows.rounds:
        is_symptom = row["status"] in SYMPTOMS_OF_ROUNDS
        if stretch and row["sampled_at"] - stretch[-1]["sampled_at"] > STRETCHES_TOGETHER and not is_symptom:
            yield from _stretches(rows, stretch)
            stretch = []
        if is_symptom or (stretch and row["status"] in LENGTHENS):
            stretch.append(row)
    if stretch:
        yield from _stretches(rows, stretch)


def _until(rows: DiagnosisRows, last: datetime) -> datetime | None:
    """Returns the end of a time whose last round was at `last`. It goes on if that was the group's last round, and the
    group was not deleted afterwards."""
    is_deleted = any(
        row["kind"] == OffsetEventKind.GROUP_DELETED and row["happened_at"] >= last for row in rows.offset_events
    )
    return None if last == rows.rounds[-1]["sampled_at"] and not is_deleted else last


def _while_well(rows: DiagnosisRows, is_so: Callable[[Row], bool]) -> Iterator[TroubleEpisode]:
    """Yields the times in which a group is well, and has lag that one may ask about."""
    for is_it, found in groupby(rows.rounds, key=is_so):
        rounds = tuple(found)
        if is_it and len(rounds) > 1:
            last = rounds[-1]["sampled_at"]
            yield TroubleEpisode(
                symptoms=(BEHIND,),
                since=rounds[0]["sampled_at"],
                last_seen_at=last,
                until=_until(rows, last),
                rounds=rounds,
                is_change=True,
            )


def _is_late(row: Row) -> bool:
    """Returns whether lag is worked off that is older than the time between two commits."""
    return bool(row["status"] == LagStatus.OK and (row["lag_seconds_max"] or 0) >= LATE_S)


def _is_unsubscribed(row: Row) -> bool:
    """Returns whether all lag is in topics that no member subscribes to any more, which no sum includes."""
    return bool(row["status"] in {LagStatus.OK, LagStatus.UNSUBSCRIBED} and row["partitions_unsubscribed"])


def _stretches(rows: DiagnosisRows, rounds: Sequence[Row]) -> Iterator[TroubleEpisode]:
    """Yields the stretch, unless it is soon over: a group that has not committed yet, a burst, a transaction of some
    seconds."""
    found = _stretch(rows, rounds)
    lasted = found.last_seen_at - found.since
    if lasted >= MOMENT_MAX or any(row["status"] not in {*LENGTHENS, *OF_A_MOMENT} for row in rounds):
        yield found


def _stretch(rows: DiagnosisRows, rounds: Sequence[Row]) -> TroubleEpisode:
    first, last = rounds[0]["sampled_at"], rounds[-1]["sampled_at"]
    lagging = [row for row in rows.lag_at(last) if row["status"] in SYMPTOM_OF_STATUS]
    begun = [row["no_progress_since"] for row in rows.lag_at(first) if row["status"] in SYMPTOM_OF_STATUS]
    symptoms = [SYMPTOM_OF_STATUS[row["status"]] for row in rounds if row["status"] in SYMPTOM_OF_STATUS]
    if lagging and all(row["owned"] is False for row in lagging):
        symptoms.insert(0, NOBODY_HAS_PARTITIONS)
    return TroubleEpisode(
        symptoms=tuple(dict.fromkeys(symptoms)),
        since=min([first, *(at for at in begun if at is not None)]),
        last_seen_at=last,
        until=_until(rows, last),
        incidents=tuple(
            row
            for row in rows.incidents
            if row["first_seen_at"] <= last
            and row["last_seen_at"] >= first - AROUND
            and symptom_of_kind(row["kind"]) != OFFSET_MOVED  # these have an episode of their own
        ),
        rounds=tuple(rounds),
    )


def _in_one_rebalance(rows: DiagnosisRows) -> Iterator[TroubleEpisode]:
    """Yields the times in which a classic group with records to read was in one rebalance for long: all of it stands
    then, and most rebalances of that kind are over before the status of its partitions says so."""
    for is_it, found in groupby(rows.rounds, key=is_rebalancing):
        rounds = tuple(found)
        since, last = rounds[0]["sampled_at"], rounds[-1]["sampled_at"]
        if is_it and is_one_rebalance(rounds, rows):
            yield TroubleEpisode(
                symptoms=(REBALANCES_GO_ON,),
                since=since,
                last_seen_at=last,
                until=_until(rows, last),
                rounds=rounds,
            )


def _of_offsets(rows: DiagnosisRows) -> Iterator[TroubleEpisode]:
    """Yields an episode for the offset events that come together; those of one kind have one cause."""
    together: list[Row] = []
    for row in sorted(rows.offset_events, key=lambda row: (row["kind"], row["happened_at"])):
        before = together[-1] if together else None
        if before is not None and (
            row["kind"] != before["kind"] or row["happened_at"] - before["happened_at"] > AROUND
        ):
            yield _moved(rows, together)
            together = []
        together.append(row)
    if together:
        yield _moved(rows, together)


def _moved(rows: DiagnosisRows, events: Sequence[Row]) -> TroubleEpisode:
    since, last = events[0]["happened_at"], events[-1]["happened_at"]
    symptoms: list[Symptom] = [GROUP_GONE] if events[0]["kind"] in GONE_EVENTS else [OFFSET_MOVED]
    if read_anew_or_never(events):
        symptoms.append(READ_TWICE_OR_NEVER)
    return TroubleEpisode(
        symptoms=tuple(symptoms),
        since=since,
        last_seen_at=last,
        until=last,
        incidents=tuple(
            row
            for row in rows.incidents
            if row["first_seen_at"] <= last + AROUND
            and row["last_seen_at"] >= since - AROUND
            and symptom_of_kind(row["kind"]) in {OFFSET_MOVED, READ_TWICE_OR_NEVER}
        ),
        rounds=tuple(row for row in rows.rounds if since - AROUND <= row["sampled_at"] <= last + AROUND),
        moves=tuple(events),
    )


def _without_partitions(rows: DiagnosisRows) -> Iterator[TroubleEpisode]:
    """Yields the generations of consumers that had members and gave nobody a partition, where that lasted."""
    if rows.group_type == GroupType.SHARE:
        return
    for row in rows.generations:
        until = row["ended_at"] or rows.known_until
        is_empty = row["member_count"] and row["owned_count"] == 0 and row["is_ownership_known"]
        is_of_consumers = row["protocol_type"] in (CONSUMERS, None)
        if is_empty and is_of_consumers and until is not None and until - row["started_at"] >= WITHOUT_PARTITIONS_MIN:
            yield TroubleEpisode(
                symptoms=(NOBODY_HAS_PARTITIONS,),
                since=row["started_at"],
                last_seen_at=until,
                until=row["ended_at"],
                rounds=tuple(each for each in rows.rounds if row["started_at"] <= each["sampled_at"] <= until),
            )


def _without_a_topic(rows: DiagnosisRows) -> Iterator[TroubleEpisode]:
    """Yields the time since which members own partitions of some of their topics, and another one does not exist. No
    samples are read for groups that have a partition of each."""
    at = rows.rounds[-1]["sampled_at"] if rows.rounds else None
    if at is not None and topics_beside(rows, at):
        joined = [row["joined_at"] for row in members_at(rows, at) if row["joined_at"] is not None]
        yield TroubleEpisode(
            symptoms=(NOBODY_HAS_PARTITIONS,),
            since=max(joined, default=at),
            last_seen_at=at,
            until=None,
            is_change=True,
        )
