"""Finds what became of deliveries in a share group: records that wait for a further delivery, and records that were
given up, by the records of `__share_group_state`; and makes rounds of lag of the passes that read this state.

A broker writes a batch of the state when its records are acknowledged, given back (by a member, or since their lock was
over) or given up. A snapshot repeats batches that were written before.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.group_states import EMPTY
from groupledger.schemas.kafka.share_states import ARCHIVED, AVAILABLE
from groupledger.schemas.kinds import signs
from groupledger.schemas.kinds.symptoms import READ_TWICE_OR_NEVER
from groupledger.schemas.words import GroupType, LagStatus
from groupledger.transforms.incidents.diagnosis.evidence import AROUND, TroubleEpisode
from groupledger.transforms.incidents.diagnosis.lag_signs import STANDS_FOR_LONG
from groupledger.transforms.lag.rules.status import SEVERITY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows, Seen

    Row = Mapping[str, Any]
    Place = tuple[str, int]

AGAIN_MIN = 2  # a record may be released once when a member closes
TOGETHER = 5 * AROUND


def of_deliveries(rows: DiagnosisRows) -> Iterator[TroubleEpisode]:
    """Yields the times in which records were delivered in vain, or given up."""
    together: list[Row] = []
    for row in sorted(failed(rows.deliveries), key=lambda row: row["happened_at"]):
        if together and row["happened_at"] - together[-1]["happened_at"] > TOGETHER:
            yield _episode(rows, together)
            together = []
        together.append(row)
    if together:
        yield _episode(rows, together)


def _episode(rows: DiagnosisRows, found: Sequence[Row]) -> TroubleEpisode:
    since, last = found[0]["happened_at"], found[-1]["happened_at"]
    goes_on = rows.known_until is None or rows.known_until - last <= TOGETHER
    return TroubleEpisode(
        symptoms=(READ_TWICE_OR_NEVER,), since=since, last_seen_at=last, until=None if goes_on else last, incidents=()
    )


def failed(deliveries: Iterable[Row]) -> list[Row]:
    return [row for row in deliveries if _is_given_up(row) or _waits_again(row)]


def _is_given_up(row: Row) -> bool:
    return bool(row["delivery_state"] == ARCHIVED)


def _waits_again(row: Row) -> bool:
    return bool(row["delivery_state"] == AVAILABLE and row["delivery_count"] >= AGAIN_MIN)


def see_deliveries(episode: TroubleEpisode, rows: DiagnosisRows, seen: Seen) -> None:
    if rows.group_type != GroupType.SHARE:
        return
    seen.add(signs.OF_SHARE_GROUP.name)
    found = rows.within(episode, "deliveries", "happened_at")
    given_up = [row for row in found if _is_given_up(row)]
    if given_up:
        seen.add(signs.RECORDS_ARCHIVED.name)
        if all(row["delivery_count"] == 1 for row in given_up):
            seen.add(signs.REJECTED_AT_ONCE.name)
    if any(_waits_again(row) for row in found):
        seen.add(signs.DELIVERED_AGAIN.name)


def given_up_in(episode: TroubleEpisode, rows: DiagnosisRows) -> int:
    """Returns how many records were given up in an episode."""
    return sum(map(_records, filter(_is_given_up, rows.within(episode, "deliveries", "happened_at"))))


def delivered_in_vain(episode: TroubleEpisode, rows: DiagnosisRows) -> int:
    """Returns how many deliveries of records in an episode were followed by another one."""
    return sum(map(_records, filter(_waits_again, rows.within(episode, "deliveries", "happened_at"))))


def names_of(episode: TroubleEpisode, rows: DiagnosisRows) -> dict[str, str]:
    """Returns the place and the number of deliveries for a sentence; empty if no delivery failed."""
    found = failed(rows.within(episode, "deliveries", "happened_at"))
    if not found:
        return {}
    counts: Counter[Place] = Counter()
    for row in found:
        counts[row["topic"], row["partition"]] += _records(row)
    (topic, partition), _ = max(counts.items(), key=lambda item: (item[1], item[0]))
    times = max(row["delivery_count"] for row in found)
    return {"place": f"{topic} {partition}", "times": "once" if times == 1 else f"{times:,} times"}


def _records(row: Row) -> int:
    return int(row["last_offset"] - row["first_offset"] + 1)


def share_rounds(passes: Iterable[Row], members: Sequence[Row]) -> dict[datetime, list[dict[str, Any]]]:
    """Returns rows of `share_partitions` in the form of rows of `lag`, by the instant of their pass, in order. The
    committed offset is the start offset plus the number of later records that need no delivery any more."""
    found: dict[datetime, list[dict[str, Any]]] = {}
    before: dict[Place, dict[str, Any]] = {}
    for row in sorted(passes, key=lambda row: (row["sampled_at"], row["topic"], row["partition"])):
        at, place = row["sampled_at"], (row["topic"], row["partition"])
        made = _as_lag(row, before.get(place), _is_anybody_there(members, at))
        found.setdefault(at, []).append(made)
        before[place] = made
    return found


def _as_lag(row: Row, before: Row | None, is_owned: bool | None) -> dict[str, Any]:
    lag, start = row["lag"], row["start_offset"]
    done = None if start is None else start + (row["delivery_complete_count"] or 0)
    since = None
    if before is not None and lag and before["committed_offset"] == done:
        since = before["no_progress_since"] or before["sampled_at"]
    status = LagStatus.OK
    if since is not None and row["sampled_at"] - since >= STANDS_FOR_LONG:
        status = LagStatus.STOPPED
    elif before is not None and (lag or 0) > (before["lag"] or 0):
        status = LagStatus.GROWING
    return {
        **{name: row[name] for name in ("sampled_at", "topic", "partition", "high_watermark", "lag")},
        **dict.fromkeys(("last_stable_offset", "owner", "client_id", "client_host", "committed_at")),
        **dict.fromkeys(("commit_interval_ms", "lag_seconds")),
        "committed_offset": done,
        "raw_lag": lag,
        "status": status,
        "flags": [],
        "no_progress_since": since,
        "owned": is_owned,
        "group_state": EMPTY if is_owned is False else None,
    }


def _is_anybody_there(members: Sequence[Row], at: datetime) -> bool | None:
    """Returns whether the group has a member; None if none is known of it."""
    if not members:
        return None
    return any(
        (row["joined_at"] is None or row["joined_at"] <= at) and (row["left_at"] is None or row["left_at"] > at)
        for row in members
    )


def sums_of(rounds: Mapping[datetime, Sequence[Row]]) -> list[dict[str, Any]]:
    """Returns the sums of `share_rounds` that a diagnosis needs of each round."""
    return [
        {
            "sampled_at": at,
            "status": max((row["status"] for row in rows), key=SEVERITY.__getitem__),
            "group_state": rows[0]["group_state"],
            "partitions_unsubscribed": 0,
            "lag_seconds_max": None,
        }
        for at, rows in rounds.items()
    ]
