"""Finds the signs of an episode: those that rows state directly, and those of lag, members and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kinds import signs
from groupledger.schemas.kinds.causes import CAUSES
from groupledger.schemas.words import CoordinatorEventKind, Evidence
from groupledger.transforms.incidents.diagnosis.authorship import see_authors
from groupledger.transforms.incidents.diagnosis.deliveries import see_deliveries
from groupledger.transforms.incidents.diagnosis.evidence import AROUND, Seen
from groupledger.transforms.incidents.diagnosis.lag_signs import owners_went_on, signs_of_lag
from groupledger.transforms.incidents.diagnosis.member_signs import see_members
from groupledger.transforms.incidents.diagnosis.request_signs import hosts_of_members, see_requests

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from groupledger.schemas.kinds.signs import Sign
    from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows, TroubleEpisode
    from groupledger.transforms.incidents.diagnosis.lag_signs import LagSeen

    Row = Mapping[str, Any]

ALL_SIGNS = {sign.name: sign for cause in CAUSES for sign in cause.signs}
DELETES = {ApiKey.OFFSET_DELETE.name, ApiKey.DELETE_GROUPS.name}
GENERATIONS_MIN = 2
MOVES = {
    CoordinatorEventKind.GROUP_LOADED,
    CoordinatorEventKind.GROUP_UNLOADED,
    CoordinatorEventKind.MODERN_GROUP_UNLOADED,
}


def signs_seen(episode: TroubleEpisode, rows: DiagnosisRows, lag: LagSeen) -> Seen:
    """Returns all signs that are seen in an episode."""
    seen = Seen()
    for sign in ALL_SIGNS.values():
        _see_by_words(sign, episode, rows, lag, seen)
    for sign in signs_of_lag(lag, rows):
        seen.add(sign.name)
    if owners_went_on(episode, lag, rows):
        seen.add(signs.WENT_ON.name)
    see_members(episode, rows, seen)
    see_deliveries(episode, rows, seen)
    see_authors(episode, rows, seen)
    _see_logs(episode, rows, lag, seen)
    return seen


def _see_by_words(sign: Sign, episode: TroubleEpisode, rows: DiagnosisRows, lag: LagSeen, seen: Seen) -> None:
    for row in episode.incidents:
        is_observed = row["evidence"] == Evidence.OBSERVED
        is_it = row["kind"] in sign.kinds or row["probable_root"] in sign.roots
        if is_it and is_of_nobody(row, rows):
            seen.possible.add(sign.name)
        elif is_it and (is_observed or not sign.is_logged):
            seen.add(sign.name, row["confidence"] or 0.0, is_logged=is_observed)
    if sign.triggers:
        _see_trigger(sign, episode, rows, seen)
    if any(
        (row["kind"], cause) in sign.events
        for row in rows.within(episode, "offset_events", "happened_at")
        for cause in (row["cause"], None)
    ):
        seen.add(sign.name)
    if any(
        row["status"] in sign.statuses or {*(row["flags"] or ())} & {*sign.flags} for row in lag.lagging or lag.rows
    ):
        seen.add(sign.name)


def is_of_nobody(incident: Row, rows: DiagnosisRows) -> bool:
    """Returns whether an incident is only a log line, and is about a member that the history does not have: the member
    owned nothing and was in no generation. Such a member was still waiting to join, and was removed for another reason
    than its silence."""
    member_id = incident["member_id"]
    return bool(
        incident["evidence"] == Evidence.LOGGED
        and rows.members
        and member_id not in {row["member_id"] for row in rows.members}
    )


def _see_trigger(sign: Sign, episode: TroubleEpisode, rows: DiagnosisRows, seen: Seen) -> None:
    turns = rows.within(episode, "rebalances", "happened_at")
    began = [row for row in turns if (row["trigger"] or row["inferred_trigger"]) in sign.triggers]
    if not began or 2 * len(began) < len(turns):
        return
    logged = [row for row in began if row["trigger"] is not None]
    guesses = [row["inferred_trigger_confidence"] or 0.0 for row in began if row["trigger"] is None]
    seen.add(sign.name, min(guesses, default=1.0), is_logged=bool(logged))


def _was_there(rows: DiagnosisRows, at: datetime) -> bool:
    """Returns whether the group was there before an instant: a broker that starts loads partitions, and not groups that
    begin later."""
    return any(row["started_at"] < at for row in rows.generations)


def _see_logs(episode: TroubleEpisode, rows: DiagnosisRows, lag: LagSeen, seen: Seen) -> None:
    lines = rows.within(episode, "events", "logged_at")
    if lines:
        seen.add(signs.SERVER_LOG_IMPORTED.name)
    gone = [row["left_at"] for row in rows.within(episode, "members", "left_at")] or [episode.last_seen_at]
    moves = [line["logged_at"] for line in lines if line["kind"] in MOVES and _was_there(rows, line["logged_at"])]
    if any(at <= left <= at + AROUND for left in gone for at in moves):
        seen.add(signs.COORDINATOR_MOVED.name, is_logged=True)
    formed = [line for line in lines if line["kind"] == CoordinatorEventKind.STABILIZED]
    if sum(episode.since <= line["logged_at"] <= episode.last_seen_at for line in formed) >= GENERATIONS_MIN:
        seen.add(signs.GENERATIONS_FORM.name, is_logged=True)
    see_requests(rows, lag, seen)
    requests = rows.within(episode, "requests", "happened_at")
    if requests:
        seen.add(signs.REQUESTS_IMPORTED.name)
        if not any(row["api"] in DELETES for row in requests):
            seen.add(signs.NO_DELETE_REQUEST.name)
    if any(len(hosts) > 1 for hosts in hosts_of_members(requests).values()):
        seen.add(signs.MEMBER_ON_TWO_HOSTS.name, is_logged=True)
