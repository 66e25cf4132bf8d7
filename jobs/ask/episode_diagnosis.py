"""Finds the diagnosis that an episode of incidents belongs to, so that all who show the episode say the same of it as
`groupledger why`.

A diagnosis reads the group's rows of that time, which takes some 0.2 s of CPU. So a caller that shows many episodes
asks only for the diagnoses of those that matter most, and caches them.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from groupledger.jobs.ask.incidents import lines, wrapped
from groupledger.jobs.ask.verdict import EpisodeSummary, mild, summaries
from groupledger.jobs.ask.why import WINDOW, why
from groupledger.jobs.process.errors import InputError
from groupledger.transforms.incidents.verdicts import verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

BESIDE = timedelta(minutes=1)


def diagnosis_of(
    tables: ClusterRows, group_id: str | None, episode_id: str, since: datetime, last_seen_at: datetime | None = None
) -> EpisodeSummary | None:
    """Returns the diagnosis of an episode that began at `since`, by what is known until shortly after `last_seen_at`.
    If several diagnoses cover the episode, returns the one that covers the fewest others. Returns None if there is
    none, if the episode is not about a group, or if its group or a table is not there yet."""
    if group_id is None:
        return None
    until = None if last_seen_at is None else last_seen_at + BESIDE
    try:
        _, verdict = why(tables, group_id, since - BESIDE, until)
    except InputError:
        return None
    found = [each for each in summaries(verdict) if episode_id in each.episode_ids]
    return min(found, key=lambda each: len(each.episode_ids), default=None)  # the one that is most its own


def diagnosis_of_group(tables: ClusterRows, group_id: str, until: datetime) -> EpisodeSummary | None:
    """Returns the gravest open diagnosis of a group, of any severity, from two hours before `until` on. Returns None if
    there is none, or if the group or a table is not there yet."""
    try:
        _, verdict = why(tables, group_id, until - WINDOW, None)
    except InputError:
        return None
    return next((each for each in (*summaries(verdict), *mild(verdict)) if each.until is None), None)


def diagnoses_of_incidents(tables: ClusterRows, incidents: Iterable[Answer], most: int) -> dict[str, EpisodeSummary]:
    """Returns, by episode id, the diagnoses of the most harmful episodes of some incidents, of up to `most` episodes.
    Episodes without a diagnosis are left out."""
    found = {
        each["episode_id"]: diagnosis_of(
            tables, each["group_id"], each["episode_id"], each["since"], each["last_seen_at"]
        )
        for each in islice(verdicts(incidents), most)
    }
    return {key: each for key, each in found.items() if each is not None}


def diagnosed_lines(incident: Answer, diagnosis: EpisodeSummary | None, as_of: datetime | None) -> Iterator[str]:
    """Yields the lines of an incident for a terminal, as of the last known instant, and the diagnosis of its episode if
    that says something else. All names in the lines are escaped."""
    yield from lines(incident, as_of)
    if diagnosis is not None and not incident["explanation"].startswith(diagnosis.what):
        yield from (f"    {line}" for line in wrapped(f"diagnosis: {diagnosis.title}. {diagnosis.what}"))
