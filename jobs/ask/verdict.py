"""Formats the parts of a verdict for a group's page, for a text to paste into a chat, and for a row of a list.

An unknown part is None and left out. The texts contain names as clients gave them: callers have to escape them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from groupledger.jobs.ask.diagnosis import is_shown, known_by, left_over, proof, title
from groupledger.jobs.ask.incidents import before_the_end, harms
from groupledger.jobs.process.instants import lasted
from groupledger.schemas.kinds.causes.cause import who_can_fix
from groupledger.schemas.words import Evidence
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.incidents.explained import divided

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from groupledger.jobs.process.output import Answer

OTHERS_MAX = 3
NO_REMEDY = "No setting is known that prevents it."


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSummary:
    """Summarizes one diagnosis or episode for somebody on call: `what` happened in one sentence, `more` about it, and
    the answers to the next questions. `until` is None while it goes on. `cause` is None if no cause is proved, and
    `rivals` are then the possible causes; incidents without a diagnosis have neither. `fault` is the word of `Fault`
    for who can fix the cause, `as_of` the last instant that was known, and `proof` the signs that prove the cause."""

    severity: str
    cause: str | None
    fault: str | None
    title: str
    what: str
    more: str | None
    who: str | None
    since: datetime
    until: datetime | None
    lasts: timedelta
    harms: Sequence[str]
    advice: str | None
    change: str | None
    known: str
    rivals: Sequence[Answer]
    episode_ids: Sequence[str]
    as_of: datetime | None = None
    proof: str = ""

    @property
    def open_until(self) -> str:
        """Returns how long before the last known instant an episode in progress was last seen."""
        return before_the_end(self.since + self.lasts, self.as_of)

    @property
    def who_can_fix(self) -> str | None:
        return None if self.fault is None else who_can_fix(self.fault, self.change)

    @property
    def remedy(self) -> str:
        """Returns what to do, or how to find that out."""
        if self.advice:
            return self.advice
        if self.rivals and not self.change:
            return f"Find out which cause it is. {self.rivals[0]['told_apart_by']}"
        return "" if self.change else NO_REMEDY


def summaries(verdict: Answer) -> list[EpisodeSummary]:
    """Returns the summaries of the episodes of a verdict (`jobs.ask.why`), the most harmful first."""
    diagnosed = [of_diagnosis(each, verdict["episodes"]) for each in verdict["diagnosis"] if is_shown(each)]
    return [replace(each, as_of=verdict["as_of"]) for each in (*diagnosed, *map(of_episode, left_over(verdict)))]


def mild(verdict: Answer) -> list[EpisodeSummary]:
    """Returns the summaries of the diagnoses without harm, such as a deployment."""
    found = [of_diagnosis(each) for each in verdict["diagnosis"] if not is_shown(each)]
    return [replace(each, as_of=verdict["as_of"]) for each in found]


def of_diagnosis(diagnosis: Answer, episodes: Sequence[Answer] = ()) -> EpisodeSummary:
    """Returns the summary of a diagnosis. `episodes` are those of its verdict; `who` of the summary also names the
    further members that they are about."""
    summary = _summary(
        diagnosis,
        title(diagnosis),
        known_by(diagnosis),
        diagnosis["advice"],
        diagnosis["rivals"],
        diagnosis["episode_ids"],
    )
    summary = replace(summary, proof=proof(diagnosis))
    also = others(diagnosis, episodes)
    if summary.who is None or not also:
        return summary
    more = f" and {len(also) - OTHERS_MAX:,} more" if len(also) > OTHERS_MAX else ""
    return replace(summary, who=f"{summary.who}; also {', '.join(also[:OTHERS_MAX])}{more}")


def others(diagnosis: Answer, episodes: Sequence[Answer]) -> list[str]:
    """Returns the names of the further members that the episodes of a diagnosis are about, each once. Only episodes of
    a kind whose explanation the diagnosis has count."""
    own = [each for each in episodes if each["episode_id"] in diagnosis["episode_ids"]]
    kinds = {
        each["kind"]
        for each in own
        if each["explanation"] and diagnosis["explanation"].startswith(divided(each["kind"], each["explanation"])[0])
    }
    names = dict.fromkeys(who(each) for each in own if each["kind"] in kinds)
    return [name for name in names if name is not None and name != who(diagnosis)]


def of_episode(episode: Answer) -> EpisodeSummary:
    """Returns the summary of an episode of incidents (`transforms.incidents.verdicts`)."""
    confidence = episode["confidence"]
    sure = "" if confidence is None or episode["evidence"] == Evidence.OBSERVED else f" (confidence {confidence:.2f})"
    beside = f"; with it: {', '.join(episode['other_kinds'])}" if episode["other_kinds"] else ""
    happened, advice = divided(episode["kind"], episode["explanation"] or "")
    return _summary(
        {**episode, "explanation": happened},
        episode["kind"],
        f"{episode['evidence']}{sure}{beside}",
        advice,
        (),
        (episode["episode_id"],),
    )


def _summary(
    row: Answer, name: str, known: str, advice: str | None, rivals: Sequence[Answer], episode_ids: Sequence[str]
) -> EpisodeSummary:
    what, more = sentences(row["explanation"] or "")
    return EpisodeSummary(
        severity=row["severity"],
        cause=row.get("cause"),
        fault=row.get("fault"),
        title=name,
        what=what,
        more=more,
        who=who(row),
        since=row["since"],
        until=row["until"],
        lasts=row["last_seen_at"] - row["since"],
        harms=[*harms(row)],
        advice=advice,
        change=row["setting_to_change"],
        known=known,
        rivals=rivals,
        episode_ids=episode_ids,
    )


def sentences(text: str) -> tuple[str, str | None]:
    """Returns the first sentence of a text and the rest."""
    first, stop, rest = text.partition(". ")
    return (f"{first}.", rest) if stop else (text, None)


def who(row: Mapping[str, str | None]) -> str | None:
    """Returns the member that an episode is about: its instance or client id, and the host; None if it is about the
    whole group."""
    name = row["group_instance_id"] or row["client_id"] or row["member_id"]
    host = (row["client_host"] or "").lstrip("/")
    if name and row["group_instance_id"] and row["client_id"]:
        name = f"{name} ({row['client_id']})"
    return f"{name} at {host}" if name and host else name or host or None


def pasted(name: str, each: EpisodeSummary) -> str:
    """Returns an episode of the group `name` as one line to paste into a chat, without a link."""
    is_open = f", open: last seen {iso(each.since + each.lasts)}{each.open_until}"
    end = is_open if each.until is None else f" for {lasted(each.lasts)}"
    parts = [
        f"{each.severity.upper()} {name or '(the empty name)'}: {each.what}",
        f"Since {iso(each.since)}{end}.",
        what_follows("; ".join(each.harms), each.remedy, each.change, each.known),
    ]
    return " ".join(parts)


def what_follows(harm: str | None, to_do: str | None, change: str | None, known: str | None) -> str:
    """Returns the end of an episode's text: harm, action, setting, and how it is known, as far as these are known."""
    parts = (
        f"Harm: {harm}." if harm else "",
        to_do or "",
        f"Change: {change}." if change else "",
        f"Known: {known}." if known else "",
    )
    return " ".join(part for part in parts if part)
