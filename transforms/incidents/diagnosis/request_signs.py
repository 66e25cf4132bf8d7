"""Finds the signs that requests show of the owners of lagging partitions: whether they speak, commit, are throttled, or
send offsets in transactions that are rolled back."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kinds import signs
from groupledger.transforms.incidents.diagnosis.commit_rhythm import SURE_OF_A_RHYTHM, has_ceased

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows, Seen
    from groupledger.transforms.incidents.diagnosis.lag_signs import LagSeen

    Row = Mapping[str, Any]

COMMITS = {ApiKey.OFFSET_COMMIT.name, ApiKey.TXN_OFFSET_COMMIT.name}
HEARD_WITHIN = timedelta(seconds=30)
THROTTLED_WITHIN, THROTTLED_MIN = timedelta(minutes=1), timedelta(seconds=30)
ROLLED_BACK_WITHIN, ROLLED_BACK_FOR = timedelta(minutes=10), timedelta(seconds=30)


def hosts_of_members(requests: Iterable[Row]) -> dict[str, list[str]]:
    """Returns the hosts from which requests came, by the member id in them, in order."""
    hosts: defaultdict[str, set[str]] = defaultdict(set)
    for row in requests:
        if row["member_id"] and row["client_host"]:
            hosts[row["member_id"]].add(row["client_host"])
    return {member_id: sorted(hosts[member_id]) for member_id in sorted(hosts)}


def last_heard(requests: Iterable[Row], member_id: str | None) -> datetime | None:
    """Returns when the last request of a member came; None if there is none."""
    return max((row["happened_at"] for row in requests if row["member_id"] == member_id), default=None)


def see_requests(rows: DiagnosisRows, lag: LagSeen, seen: Seen) -> None:
    """Adds the signs that the request log shows up to the last round of an episode."""
    _see_owners(rows, lag, seen)
    if _is_throttled(rows, lag):
        seen.add(signs.FETCHES_THROTTLED.name, is_logged=True)
    if _are_rolled_back(rows, lag):
        seen.add(signs.OFFSETS_ROLLED_BACK.name, is_logged=True)


def _see_owners(rows: DiagnosisRows, lag: LagSeen, seen: Seen) -> None:
    """Adds whether the request log has requests of the owners of lagging partitions, before the last round."""
    owners = {row["owner"] for row in lag.lagging if row["owner"] is not None}
    if not owners:
        return
    at = lag.lagging[0]["sampled_at"]
    lately = [row for row in rows.requests if at - HEARD_WITHIN <= row["happened_at"] <= at]
    heard = {row["member_id"] for row in lately}
    if owners & heard:
        seen.add(signs.OWNER_HEARD.name)
        if not any(row["api"] == ApiKey.TXN_OFFSET_COMMIT.name for row in rows.requests):
            seen.add(signs.NO_TRANSACTIONS.name)
        if any(row["member_id"] in owners and row["api"] in COMMITS for row in lately):
            seen.add(signs.OWNER_COMMITS.name)
    elif any(heard):
        seen.add(signs.OWNER_SILENT.name)
    if all(has_ceased(rows.requests, owner, at) for owner in owners):
        seen.add(signs.OWNER_CEASED.name, SURE_OF_A_RHYTHM)


def _is_throttled(rows: DiagnosisRows, lag: LagSeen) -> bool:
    """Returns whether a quota held up the owner with the most lag for half of the last minute. A fetch names no member,
    only the client: its id and its host."""
    worst = lag.worst
    if worst is None or not worst["client_id"]:
        return False
    until = worst["sampled_at"]
    host = (worst["client_host"] or "").lstrip("/")
    since = reached = until - THROTTLED_WITHIN
    held_up = timedelta(0)
    fetches = rows.throttled(worst["client_id"], since - THROTTLED_WITHIN, until)
    for fetch in sorted(fetches, key=itemgetter("logged_at")):
        if fetch["client_host"] in {host, None}:
            ends_at = min(until, fetch["logged_at"] + timedelta(milliseconds=fetch["throttle_time_ms"]))
            held_up += max(timedelta(0), ends_at - max(reached, fetch["logged_at"]))
            reached = max(reached, ends_at)
    return held_up >= THROTTLED_MIN


def _are_rolled_back(rows: DiagnosisRows, lag: LagSeen) -> bool:
    """Returns whether offsets of the partition with the most lag were sent in transactions for a while, and none of
    them is committed. A transaction that is still open looks the same, but does not send an offset that is no higher
    than the one before: that is a new attempt, after the records were read again."""
    worst = lag.worst
    if worst is None or worst["high_watermark"] is None:
        return False
    until, committed = worst["sampled_at"], worst["committed_offset"] or 0
    since = max(until - ROLLED_BACK_WITHIN, worst["no_progress_since"] or until - ROLLED_BACK_WITHIN)
    sent = sorted(
        (request["happened_at"], each["committed_offset"])
        for request in rows.offsets_in_transactions(since, until)
        for each in request["partitions"] or ()
        if (each["topic"], each["partition"]) == (worst["topic"], worst["partition"]) and not each["error_code"]
    )
    return (
        bool(sent)
        and sent[-1][0] - sent[0][0] >= ROLLED_BACK_FOR
        and all(offset > committed for _, offset in sent)
        and any(after <= before for (_, before), (_, after) in pairwise(sent))
    )
