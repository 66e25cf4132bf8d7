"""Sums up each episode of incidents in one verdict: who, what, since when, at what harm, why, and what to change.

A verdict has the texts and the severity of the episode's gravest incident, and names the kinds of its other incidents.
Verdicts are in the order of harm, as somebody on call needs them: by severity, then by records never read, then by
records that may have been read twice. After that, open episodes come before those that have ended, and later ones
before earlier ones.

This module lies beside `rules`, and not in it, since questions import it, and importing `rules` imports the reference
coordinator.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Evidence, Severity, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Row = Mapping[str, Any]

WHO_COLUMNS = ("member_id", "client_id", "client_host", "group_instance_id")
TAKEN_OVER = (
    *("episode_id", "group_id", "kind", "severity", "evidence", "confidence", *WHO_COLUMNS),
    *("explanation", "probable_root", "setting_to_change"),
)
HARM_COLUMNS = ("never_read_max", "duplicates_max", "duplicates_min")


def verdicts(incidents: Iterable[Row]) -> list[dict[str, Any]]:
    """Returns a verdict for each episode of the given rows of `incidents`, the most harmful first.

    `until` is None while one of the episode's incidents is open. `other_kinds` are the kinds of its incidents beside
    `kind`.
    """
    episodes: defaultdict[str, list[Row]] = defaultdict(list)
    for row in incidents:
        episodes[row["episode_id"]].append(row)
    return sorted(map(_verdict, episodes.values()), key=_harm, reverse=True)


def _verdict(rows: Sequence[Row]) -> dict[str, Any]:
    gravest = max(rows, key=_gravity)
    is_open = any(row["is_open"] for row in rows)
    return {
        **{name: gravest[name] for name in TAKEN_OVER},
        "since": min(row["first_seen_at"] for row in rows),
        "until": None if is_open else max(row["last_seen_at"] for row in rows),
        "last_seen_at": max(row["last_seen_at"] for row in rows),
        "occurrences": gravest["occurrences"],
        **{name: max((row[name] for row in rows if row[name] is not None), default=None) for name in HARM_COLUMNS},
        "other_kinds": sorted({row["kind"] for row in rows} - {gravest["kind"]}),
    }


def _gravity(row: Row) -> tuple[int, int, int, str]:
    severity = words_of(Severity).index(row["severity"])
    return severity, -words_of(Evidence).index(row["evidence"]), row["occurrences"], row["kind"]


def _harm(verdict: Mapping[str, Any]) -> tuple[Any, ...]:
    records = tuple(verdict[name] or 0 for name in HARM_COLUMNS)
    severity = words_of(Severity).index(verdict["severity"])
    return severity, *records, verdict["until"] is None, verdict["last_seen_at"], verdict["episode_id"]
