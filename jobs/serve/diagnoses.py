"""Gives episodes of many groups the summaries of their diagnoses, which are those on the page of each group.

For the list of groups, a group in trouble that no incident is about, such as one that stopped, gets a diagnosis of its
own. A diagnosis reads the group's rows of the episode's time. So a request makes at most NEW_MAX new ones, for the
first of the episodes that it shows; each is cached until the episode's incidents change. An episode without a
diagnosis, or whose diagnosis is not made yet, has the sentence of its worst incident.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from groupledger.jobs.ask.episode_diagnosis import diagnosis_of, diagnosis_of_group
from groupledger.jobs.ask.troubled import SEVERITIES, is_troubled
from groupledger.jobs.serve.episodes import joined, of_summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.verdict import EpisodeSummary
    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.serve.episodes import ShownEpisode

NEW_MAX = 10
KEPT_MAX = 5_000
OF_GROUPS_MAX, OF_GROUPS_S = 1, 300


class Diagnoses:
    """Caches diagnoses, at most KEPT_MAX, for several requests at once. Each call makes at most `new_max` new ones for
    episodes."""

    def __init__(self, new_max: int = NEW_MAX) -> None:
        self._new_max = new_max
        self._summaries: OrderedDict[object, EpisodeSummary | None] = OrderedDict()
        self._lock = Lock()

    def of(self, tables: ClusterRows, episodes: Iterable[ShownEpisode]) -> list[ShownEpisode]:
        """Returns the episodes of a cluster, the most severe first and otherwise in the given order. An episode with a
        diagnosis gets its summary. Episodes that share a diagnosis are joined into one."""
        worded, left = [], self._new_max
        for each in episodes:
            key = _key(tables, each)
            with self._lock:
                is_cached = key in self._summaries
                if is_cached:
                    self._summaries.move_to_end(key)
            if not is_cached and left:
                left -= 1
                self._keep(key, _made(tables, each))
            found = self._summaries.get(key)
            worded.append(each if found is None else replace(each, summary=found))
        # A diagnosis may be graver or milder than the incidents that the episodes are ordered by.
        return sorted(_together(worded), key=lambda each: -SEVERITIES.index(each.summary.severity))

    def are_made(self, tables: ClusterRows, episodes: Iterable[ShownEpisode]) -> bool:
        """Returns whether a diagnosis of each episode is cached, so that nothing about them will change."""
        return all(_key(tables, each) in self._summaries for each in episodes)

    def of_groups(self, tables: ClusterRows, groups: Sequence[Answer], at: datetime) -> list[Answer]:
        """Returns the rows of groups. A group in trouble, without an episode in progress, gets a diagnosis at `at` as
        its `worst`; at most OF_GROUPS_MAX new diagnoses are made in a call. A diagnosis is made again after OF_GROUPS_S
        seconds, or when the group's status changes."""
        found, left = [], OF_GROUPS_MAX
        for row in groups:
            is_known = row["worst"] is not None and row["worst"].summary.until is None
            if is_known or not is_troubled(row):
                found.append(row)
                continue
            key = (tables.cluster, row["group_id"], row["status"], at.timestamp() // OF_GROUPS_S)
            if key not in self._summaries and left:
                left -= 1
                self._keep(key, diagnosis_of_group(tables, row["group_id"], at))
            summary = self._summaries.get(key)
            found.append(row if summary is None else {**row, "worst": of_summary(row["group_id"], summary)})
        return found

    def _keep(self, key: object, found: EpisodeSummary | None) -> None:
        with self._lock:
            self._summaries[key] = found
            while len(self._summaries) > KEPT_MAX:
                self._summaries.popitem(last=False)


def _together(episodes: Iterable[ShownEpisode]) -> list[ShownEpisode]:
    """Returns the episodes, with those that share a diagnosis joined to the first of them."""
    found: list[ShownEpisode] = []
    places: dict[tuple[str | None, str, str], int] = {}
    for each in episodes:
        cause = each.summary.cause
        same = None if cause is None else places.get((each.group_id, cause, each.episode_id))
        if same is not None:
            found[same] = joined(found[same], each)
            continue
        if cause is not None:
            places.update({(each.group_id, cause, name): len(found) for name in each.summary.episode_ids})
        found.append(each)
    return found


def _key(tables: ClusterRows, episode: ShownEpisode) -> object:
    seen = frozenset((row["incident_id"], row["last_seen_at"], row["evidence"]) for row in episode.incidents)
    return tables.cluster, episode.episode_id, seen


def _made(tables: ClusterRows, episode: ShownEpisode) -> EpisodeSummary | None:
    last = max(row["last_seen_at"] for row in episode.incidents)
    return diagnosis_of(tables, episode.group_id, episode.episode_id, episode.summary.since, last)
