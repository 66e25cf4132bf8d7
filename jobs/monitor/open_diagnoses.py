"""Counts the diagnoses of open episodes for the metrics, so that `/metrics` has the same causes as `groupledger why`.

A diagnosis takes some 0.2 s of CPU. So only episodes above info are diagnosed, at most `DIAGNOSED_MAX` in one pass, and
again only after their incidents changed. Episodes without a diagnosis come first. An episode that a pass does not reach
has its last diagnosis; if it has none yet, it is not counted, since its cause is not known.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.one_diagnosis import DIAGNOSED_MAX, UNREADABLE
from groupledger.schemas.words import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from groupledger.jobs.ask.verdict import EpisodeSummary

    Row = Mapping[str, Any]
    Ask = Callable[[str, str, datetime], EpisodeSummary | None]

NOT_PROVED = "not_proved"


@dataclass(frozen=True, slots=True)
class _Diagnosed:
    """What an episode was diagnosed as when its incidents were these."""

    incidents: frozenset[tuple[str, datetime]]
    summary: EpisodeSummary | None


class OpenDiagnoses:
    """Diagnoses the open episodes of one cluster. `ask` is called with a group, an episode's id and its beginning, and
    returns the diagnosis, or None if there is none."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._diagnosed: dict[str, _Diagnosed] = {}

    def of(self, rows: Iterable[Row]) -> Counter[tuple[str, str, str]]:
        """Returns the number of diagnoses by group, cause and severity, from the open rows of `incidents`. Episodes
        that share a diagnosis count once."""
        episodes: dict[str, list[Row]] = {}
        for row in rows:
            if row["group_id"] is not None and row["severity"] != Severity.INFO:
                episodes.setdefault(row["episode_id"], []).append(row)
        self._diagnosed = {key: each for key, each in self._diagnosed.items() if key in episodes}
        left = DIAGNOSED_MAX
        for key, of_episode in sorted(episodes.items(), key=lambda episode: episode[0] in self._diagnosed):
            incidents = frozenset((row["incident_id"], row["last_seen_at"]) for row in of_episode)
            known = self._diagnosed.get(key)
            if left and (known is None or known.incidents != incidents):
                left -= 1
                first = min(of_episode, key=lambda row: row["first_seen_at"])
                with suppress(*UNREADABLE):  # the tables are read again in the next pass
                    summary = self._ask(first["group_id"], key, first["first_seen_at"])
                    self._diagnosed[key] = _Diagnosed(incidents, summary)
        return Counter(key[:3] for key in {*self._counted(episodes)})

    def _counted(self, episodes: Mapping[str, list[Row]]) -> Iterable[tuple[str, str, str, datetime]]:
        for key, rows in episodes.items():
            found = self._diagnosed.get(key)
            if found is not None and found.summary is not None:
                summary = found.summary
                yield rows[0]["group_id"], summary.cause or NOT_PROVED, summary.severity, summary.since
