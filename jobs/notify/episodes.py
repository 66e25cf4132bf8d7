"""Decides which receiver gets which message: one when an episode of incidents is found, and one when it is over.

An episode is sent to a receiver if it is at least as severe as the receiver's settings ask for, concerns a selected
group, and was last seen recently: older episodes that a first run or a late log reveals are not sent. An episode is
over when none of its incidents is open any more, or when it is no longer in the table, because a later log corrected
it. An episode that reopens is sent again, under the same id.

The messages that were sent are stored by receiver (`Notified`), so that a restart repeats nothing. A receiver whose
alerts expire (Alertmanager) gets an open episode in each round.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Literal

from groupledger.jobs.process.clock import DAY_MS
from groupledger.schemas.instants import ms_of
from groupledger.schemas.words import Severity, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Row = Mapping[str, Any]

# So far a host's clock may be set back, by mistake or to be right again, without a message being sent twice.
SET_BACK_MS = 2 * DAY_MS

Event = Literal["fired", "repeated", "resolved"]
SEVERITIES = words_of(Severity)


@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentEpisode:
    """Holds all incidents that one cause brought about. If the episode has a diagnosis (`jobs.notify.diagnosed`), the
    fields `cause`, `sentence`, `who` (the member), `harm`, `advice` and `known` (the evidence) come from it. Otherwise
    the sentence is that of the worst incident."""

    episode_id: str
    group_id: str | None
    team: str | None
    kinds: tuple[str, ...]
    severity: str
    sentence: str
    settings: tuple[str, ...]
    first_seen_ms: int
    last_seen_ms: int
    is_open: bool
    cause: str | None = None
    who: str | None = None
    harm: str | None = None
    advice: str | None = None
    known: str | None = None


@dataclass(frozen=True, slots=True)
class Notified:
    """The state that an episode had when the last message about it was sent to a receiver."""

    last_seen_ms: int
    is_over: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceiverFilter:
    """Says which episodes a receiver wants: those of at least `severity`, and of these kinds and teams. Empty kinds or
    teams mean all. `groups` are the names that the receiver's pattern matches. `forgets` says that the receiver drops
    an alert that is not repeated."""

    severity: str
    kinds: Sequence[str]
    teams: Sequence[str]
    groups: frozenset[str]
    forgets: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `episode` is None if it is no longer in the table, and only its id is known."""

    event: Event
    episode_id: str
    episode: IncidentEpisode | None


def episodes_of(rows: Iterable[Row], team_of: Mapping[str, str]) -> list[IncidentEpisode]:
    """Returns the episodes of rows of `incidents`, in order of their beginnings. `team_of` has the team of each group
    with one."""
    ordered = sorted(rows, key=itemgetter("episode_id"))
    found = [_episode([*of_episode], team_of) for _, of_episode in groupby(ordered, key=itemgetter("episode_id"))]
    return sorted(found, key=attrgetter("first_seen_ms", "episode_id"))


def _episode(rows: Sequence[Row], team_of: Mapping[str, str]) -> IncidentEpisode:
    rows = sorted(rows, key=lambda row: (-SEVERITIES.index(row["severity"]), row["first_seen_at"], row["kind"]))
    head = rows[0]
    settings = (name for row in rows for name in (row["setting_to_change"] or "").split(", ") if name)
    return IncidentEpisode(
        episode_id=head["episode_id"],
        group_id=head["group_id"],
        team=team_of.get(head["group_id"] or ""),
        kinds=tuple(dict.fromkeys(row["kind"] for row in rows)),
        severity=head["severity"],
        sentence=head["explanation"],
        settings=tuple(dict.fromkeys(settings)),
        first_seen_ms=min(ms_of(row["first_seen_at"]) for row in rows),
        last_seen_ms=max(ms_of(row["last_seen_at"]) for row in rows),
        is_open=any(row["is_open"] for row in rows),
    )


def messages(
    episodes: Sequence[IncidentEpisode], sent: Mapping[str, Notified], wanted: ReceiverFilter, since_ms: int
) -> Iterator[Message]:
    """Yields the messages for a receiver, in order. `sent` are the episodes that were sent to it before. An episode
    that was last seen before `since_ms` is not sent."""
    there = {episode.episode_id: episode for episode in episodes}
    for key, known in sent.items():
        if key not in there and not known.is_over:
            yield Message("resolved", key, None)
    for episode in episodes:
        before = sent.get(episode.episode_id)
        is_known = before is not None and not before.is_over
        is_new = episode.is_open if before is not None else _is_wanted(episode, wanted)
        if not is_known and is_new and episode.last_seen_ms >= since_ms:
            yield Message("fired", episode.episode_id, episode)
            is_known = True
        elif is_known and wanted.forgets and episode.is_open:
            yield Message("repeated", episode.episode_id, episode)
        if is_known and not episode.is_open:
            yield Message("resolved", episode.episode_id, episode)


def _is_wanted(episode: IncidentEpisode, wanted: ReceiverFilter) -> bool:
    return (
        SEVERITIES.index(episode.severity) >= SEVERITIES.index(wanted.severity)
        and (not wanted.kinds or not set(wanted.kinds).isdisjoint(episode.kinds))
        and (not wanted.teams or episode.team in wanted.teams)
        and (episode.group_id is None or episode.group_id in wanted.groups)
    )


def after(sent: Mapping[str, Notified], message: Message) -> dict[str, Notified]:
    """Returns the episodes that were sent to a receiver, `sent`, brought up to date after `message` was sent, too."""
    last_seen_ms = sent[message.episode_id].last_seen_ms if message.episode is None else message.episode.last_seen_ms
    return {**sent, message.episode_id: Notified(last_seen_ms, is_over=message.event == "resolved")}


def still_needed(sent: Mapping[str, Notified], since_ms: int) -> dict[str, Notified]:
    """Returns the sent episodes that have to be stored further: those that are not over, and those that were last seen
    after `since_ms`, or up to SET_BACK_MS before it, in case the clock is set back."""
    remembered_since_ms = since_ms - SET_BACK_MS
    return {key: known for key, known in sent.items() if not known.is_over or known.last_seen_ms >= remembered_since_ms}
