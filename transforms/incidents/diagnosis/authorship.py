"""Finds who moved or removed a group's committed offsets in an episode, by the request log.

Names are given only if every operation of the episode that no member did has a request: else the names of one operation
would be read as those of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds import signs
from groupledger.schemas.words import Authorship, OffsetEventCause
from groupledger.transforms.offsets.rules.authors import DONE_BY_SOMEBODY, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows, Seen, TroubleEpisode

    Row = Mapping[str, Any]


def see_authors(episode: TroubleEpisode, rows: DiagnosisRows, seen: Seen) -> None:
    """Adds whether the request log shows who it was."""
    known = {act["known_by"] for act in _acts(episode, rows)}
    if known == {Authorship.OBSERVED}:
        seen.add(signs.ONE_REQUEST_DID_IT.name, is_logged=True)
    elif known and known <= {Authorship.OBSERVED, Authorship.CANDIDATES}:
        seen.add(signs.A_REQUEST_DID_IT.name, is_logged=True)


def authors_in(episode: TroubleEpisode, rows: DiagnosisRows) -> str:
    """Returns the names of all who did it or may have done it."""
    return "; ".join(dict.fromkeys(name_of(each) for act in _acts(episode, rows) for each in act["authors"]))


def _acts(episode: TroubleEpisode, rows: DiagnosisRows) -> list[Row]:
    """Returns the operations of the episode that no member did. Their requests are read only if there are any."""
    if not any(
        _is_of_nobody(row["kind"], [row["cause"]]) for row in rows.within(episode, "offset_events", "happened_at")
    ):
        return []
    acts = (act for act in rows.acts() if episode.holds(act["happened_at"]))
    return [act for act in acts if any(_is_of_nobody(kind, act["causes"]) for kind in act["kinds"])]


def _is_of_nobody(kind: str, causes: list[str | None]) -> bool:
    return kind in DONE_BY_SOMEBODY and OffsetEventCause.MEMBER not in causes
