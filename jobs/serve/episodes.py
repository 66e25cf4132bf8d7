"""Groups incidents into episodes, as pages and the report show them, with the rows that prove each."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from groupledger.jobs.ask.incidents import incidents_of
from groupledger.jobs.ask.verdict import EpisodeSummary, of_episode
from groupledger.schemas.words import Severity
from groupledger.transforms.incidents.verdicts import verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEpisode:
    """An episode with its incidents, in the order in which they began."""

    episode_id: str
    summary: EpisodeSummary
    group_id: str | None
    root: str | None
    kinds: Sequence[str]
    incidents: Sequence[Answer]

    @property
    def proofs(self) -> list[Answer]:
        """Returns the rows that prove the episode's incidents, each once."""
        every = [proof for row in self.incidents for proof in row["proofs"] or ()]
        return [*{(each["table_name"], each["row_key"]): each for each in every}.values()]


def of_summary(group_id: str, summary: EpisodeSummary) -> ShownEpisode:
    """Returns an episode without incidents, for a diagnosis of a group that no incident is about."""
    return ShownEpisode(episode_id="", summary=summary, group_id=group_id, root=None, kinds=(), incidents=())


def joined(one: ShownEpisode, other: ShownEpisode) -> ShownEpisode:
    """Returns the episode `one`, with the kinds and the incidents of `other` added."""
    incidents = sorted((*one.incidents, *other.incidents), key=_begun)
    return replace(one, kinds=[*dict.fromkeys((*one.kinds, *other.kinds))], incidents=incidents)


def _begun(row: Answer) -> tuple[datetime, str]:
    return row["first_seen_at"], row["kind"]


def episodes_of(rows: Sequence[Answer]) -> list[ShownEpisode]:
    """Returns the episodes that some incidents belong to, the most harmful first."""
    of_episodes: defaultdict[str, list[Answer]] = defaultdict(list)
    for row in rows:
        of_episodes[row["episode_id"]].append(row)
    return [
        ShownEpisode(
            episode_id=each["episode_id"],
            summary=of_episode(each),
            group_id=each["group_id"],
            root=each["probable_root"],
            kinds=[each["kind"], *each["other_kinds"]],
            incidents=sorted(of_episodes[each["episode_id"]], key=_begun),
        )
        for each in verdicts(rows)
    ]


def by_groups(episodes: Iterable[ShownEpisode]) -> dict[str | None, list[ShownEpisode]]:
    """Returns the episodes by group; those of a group stay in the given order."""
    found: defaultdict[str | None, list[ShownEpisode]] = defaultdict(list)
    for each in episodes:
        found[each.group_id].append(each)
    return dict(found)


def incidents_within(
    tables: ClusterRows,
    since: datetime,
    until: datetime | None,
    severity: str = Severity.WARNING,
    names: Sequence[str] | None = None,
) -> list[Answer]:
    """Returns the incidents of at least `severity` that overlap [since, until), of the groups in `names`, or of all
    groups if there are no names. Returns an empty list if the table does not exist."""
    if not tables.exists("incidents"):
        return []
    found = incidents_of(tables, names or None, since, None, severity)
    return [row for row in found if until is None or row["first_seen_at"] < until]
