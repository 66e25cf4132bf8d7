"""Counts the harm of an episode: records never read, records read twice, records of lag, and time without an owner.

Unknown values are null. Incidents and offset events both give bounds, and both count the same records. So the highest
bound is taken, and nothing is counted twice. Episodes of one time overlap. So each counts only what it consists of:
offset events count in the episode of these events, incidents where their symptom shows, and lag in no episode of
offsets alone.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.instants import ms_of
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds.symptoms import GROUP_GONE, OFFSET_MOVED, READ_TWICE_OR_NEVER, symptom_of_kind
from groupledger.transforms.incidents.diagnosis.deliveries import delivered_in_vain, given_up_in
from groupledger.transforms.offsets.rules.read_again import Move, read_again, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows, TroubleEpisode
    from groupledger.transforms.incidents.diagnosis.lag_signs import LagSeen

    Row = Mapping[str, Any]

HARM_COLUMNS = ("never_read_max", "duplicates_max", "duplicates_min", "records_behind", "unowned_partition_seconds")
COUNTED = (*HARM_COLUMNS, "partitions_behind")
OF_OFFSETS = {OFFSET_MOVED, READ_TWICE_OR_NEVER, GROUP_GONE}


def harm_of(episode: TroubleEpisode, rows: DiagnosisRows, lag: LagSeen) -> dict[str, int | None]:
    """Returns the harm of an episode, by COUNTED."""
    behind = lag.troubled if lag.rows and not OF_OFFSETS.issuperset(episode.symptoms) else None
    certain, repeated = read_again_in(episode.moves) or (None, None)
    skipped = _sum(row["records_skipped"] for row in episode.moves)
    incidents = [row for row in episode.incidents if symptom_of_kind(row["kind"]) in episode.symptoms]
    given_up, in_vain = given_up_in(episode, rows) or None, delivered_in_vain(episode, rows) or None
    return {
        "never_read_max": _max([skipped, given_up, *(row["never_read_max"] for row in incidents)]),
        "duplicates_max": _max([repeated, in_vain, *(row["duplicates_max"] for row in incidents)]),
        "duplicates_min": _max([certain, *(row["duplicates_min"] for row in incidents)]),
        "records_behind": None if behind is None else sum(row["lag"] or 0 for row in behind),
        "partitions_behind": None if behind is None else len(behind),
        "unowned_partition_seconds": unowned_seconds(rows.assignments, episode.since, episode.last_seen_at),
    }


def read_again_in(events: Iterable[Row]) -> tuple[int, int] | None:
    """Returns how many records are read again because offsets went back, at least and at most; None if no offset in
    `events` went back. `events` are rows of `offset_events`."""
    moves = (
        Move(
            TopicPartition(row["topic"], row["partition"]),
            row["kafka_offset"],
            ms_of(row["happened_at"]),
            row["offset_before"],
            row["offset_after"],
        )
        for row in events
        if row["records_repeated"]
    )
    return total(read_again(moves))


def read_anew_or_never(events: Iterable[Row]) -> list[Row]:
    """Returns the offset events by which records are read twice or never."""
    return [row for row in events if row["records_repeated"] or row["records_skipped"]]


def is_harmful(harm: Mapping[str, Any]) -> bool:
    return any(harm[name] for name in HARM_COLUMNS)


def unowned_seconds(assignments: Iterable[Row], since: datetime, last: datetime) -> int | None:
    """Returns for how many seconds partitions had no owner between two owners, summed over all partitions; None if no
    interval of ownership is known in the time from `since` to `last`."""
    owned: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in assignments:
        if row["valid_from"] <= last and (row["valid_to"] or since) >= since:
            owned[row["topic"], row["partition"]].append(row)
    gaps = 0.0
    for intervals in owned.values():
        intervals.sort(key=itemgetter("valid_from"))
        for before, after in pairwise(intervals):
            if before["valid_to"] is not None:
                gaps += max((after["valid_from"] - before["valid_to"]).total_seconds(), 0.0)
    return round(gaps) if owned else None


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _max(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
