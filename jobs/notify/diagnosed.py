"""Adds the diagnosis of its group to an episode, so that a message agrees with `groupledger why` and the pages.

Only an episode that is about to be sent is diagnosed, once. In one round at most `DIAGNOSED_MAX` episodes are
diagnosed, each within `DIAGNOSIS_S`. The others, and those whose group can't be read now, are sent with the sentence of
their worst incident. A message in time matters more than its diagnosis.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from groupledger.jobs.ask.one_diagnosis import DIAGNOSED_MAX, UNREADABLE, one_diagnosis
from groupledger.schemas.instants import instant_of_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.jobs.ask.verdict import EpisodeSummary
    from groupledger.jobs.notify.episodes import IncidentEpisode


class Diagnoser:
    """Diagnoses the episodes of one cluster. The threads of several receivers share it."""

    def __init__(
        self,
        warehouse: str,
        cluster: str,
        ask: Callable[[str, str, IncidentEpisode], EpisodeSummary | None] | None = None,
    ) -> None:
        self._warehouse = warehouse
        self._cluster = cluster
        self._ask = ask or _diagnosis_of
        self._summaries: dict[str, EpisodeSummary | None] = {}
        self._left = DIAGNOSED_MAX
        self._lock = threading.Lock()

    def begin(self, episodes: Iterable[IncidentEpisode]) -> None:
        """Begins a round of messages: drops the diagnoses of episodes that no longer exist, and allows `DIAGNOSED_MAX`
        new ones."""
        with self._lock:
            there = {episode.episode_id for episode in episodes}
            self._summaries = {key: found for key, found in self._summaries.items() if key in there}
            self._left = DIAGNOSED_MAX

    def of(self, episode: IncidentEpisode) -> IncidentEpisode:
        """Returns the episode with the text of its diagnosis, or unchanged if there is none."""
        if episode.group_id is None:
            return episode
        with self._lock:
            if episode.episode_id not in self._summaries and self._left > 0:
                self._left -= 1
                try:
                    self._summaries[episode.episode_id] = self._ask(self._warehouse, self._cluster, episode)
                except UNREADABLE:
                    self._summaries[episode.episode_id] = None
            found = self._summaries.get(episode.episode_id)
        return episode if found is None else _in_words_of(episode, found)


def _diagnosis_of(warehouse: str, cluster: str, episode: IncidentEpisode) -> EpisodeSummary | None:
    """Returns the diagnosis that the episode's incidents belong to. Raises `UNREADABLE`."""
    since = instant_of_ms(episode.first_seen_ms)
    return one_diagnosis(warehouse, cluster, episode.group_id, episode.episode_id, since)


def _in_words_of(episode: IncidentEpisode, found: EpisodeSummary) -> IncidentEpisode:
    return replace(
        episode,
        cause=found.title,
        sentence=found.what if found.more is None else f"{found.what} {found.more}",
        who=found.who,
        harm="; ".join(found.harms) or None,
        advice=found.advice,
        settings=(found.change,) if found.change else episode.settings,
        known=found.known,
    )
