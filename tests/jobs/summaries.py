"""Makes summaries of episodes for tests that show, send or rank them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from groupledger.jobs.ask.verdict import EpisodeSummary


def summary(**known: Any) -> EpisodeSummary:
    """Returns a summary of an episode in progress; the fields that are not given are empty."""
    empty: dict[str, Any] = dict.fromkeys(("cause", "fault", "more", "who", "until", "advice", "change"))
    texts = dict.fromkeys(("title", "what", "known"), "")
    lists = dict.fromkeys(("harms", "rivals", "episode_ids"), ())
    return EpisodeSummary(**{**empty, **texts, **lists, "lasts": timedelta(minutes=1), **known})
