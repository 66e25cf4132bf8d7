"""Goal: a message says what `groupledger why` says, and never waits for it or fails because of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.one_diagnosis import DIAGNOSED_MAX
from groupledger.jobs.ask.verdict import EpisodeSummary, summaries
from groupledger.jobs.ask.why import why
from groupledger.jobs.demo.shipped import ends_now, unpack
from groupledger.jobs.notify.diagnosed import Diagnoser
from groupledger.jobs.notify.episodes import IncidentEpisode, Message, episodes_of
from groupledger.jobs.notify.receivers import BODIES, MessageContext, text_of
from groupledger.jobs.process.errors import OutsideError
from groupledger.schemas.instants import instant_of_ms
from tests.jobs.summaries import summary

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
EPISODE = IncidentEpisode(
    episode_id="e1",
    group_id="pay",
    team=None,
    kinds=("session_expired",),
    severity="error",
    sentence="A sentence of the incident.",
    settings=("session.timeout.ms",),
    first_seen_ms=1_767_225_600_000,
    last_seen_ms=1_767_225_660_000,
    is_open=True,
)
FOUND = summary(
    severity="error",
    title="crash_loop",
    what="worker-1 at 10.0.0.6 joined and went away 12 times.",
    more="It left each time.",
    who="worker-1 at 10.0.0.6",
    since=AT,
    harms=("40 records of lag in 1 partition, when last seen",),
    advice="Look in its log.",
    change="group.instance.id",
    known="inferred",
    episode_ids=("e1",),
)
CONTEXT = MessageContext(cluster="east", link=None, key=None)


def test_the_words_of_a_diagnosis() -> None:
    """Goal: the text has sentence, harm, advice, setting and evidence of the diagnosis; the JSON has them as fields."""
    episode = Diagnoser("", "east", lambda *_: FOUND).of(EPISODE)
    message = Message("fired", "e1", episode)
    assert text_of(message, CONTEXT) == (
        "ERROR: pay on east: worker-1 at 10.0.0.6 joined and went away 12 times. It left each time."
        " Harm: 40 records of lag in 1 partition, when last seen. Look in its log. Change: group.instance.id."
        " Known: inferred."
    )
    body = BODIES["json"](message, CONTEXT)
    assert body is not None
    wanted = {
        "cause": "crash_loop",
        "who": "worker-1 at 10.0.0.6",
        "harm": "40 records of lag in 1 partition, when last seen",
    }
    assert body.json == body.json | wanted | {"advice": "Look in its log.", "known": "inferred"}


def test_one_diagnosis_for_an_episode() -> None:
    """Goal: several receivers and repeated messages cost one diagnosis; an episode that is gone is forgotten."""
    asked: list[str] = []

    def ask(_warehouse: str, _cluster: str, episode: IncidentEpisode) -> EpisodeSummary | None:
        asked.append(episode.episode_id)
        return FOUND

    diagnoser = Diagnoser("", "east", ask)
    for _ in range(3):
        diagnoser.begin([EPISODE])
        diagnoser.of(EPISODE)
    assert asked == ["e1"]
    diagnoser.begin([])
    diagnoser.of(EPISODE)
    assert asked == ["e1", "e1"]


def test_a_flood_of_episodes_waits_for_a_few_diagnoses_only() -> None:
    asked: list[str] = []

    def ask(_warehouse: str, _cluster: str, episode: IncidentEpisode) -> EpisodeSummary | None:
        asked.append(episode.episode_id)
        return FOUND

    diagnoser = Diagnoser("", "east", ask)
    flood = [replace(EPISODE, episode_id=f"e{number}") for number in range(1_000)]
    diagnoser.begin(flood)
    said = [diagnoser.of(each).sentence for each in flood]
    assert len(asked) == DIAGNOSED_MAX
    assert said[DIAGNOSED_MAX:] == [EPISODE.sentence] * (1_000 - DIAGNOSED_MAX)


@pytest.mark.parametrize("error", [OutsideError("The tables can't be read."), OSError(5, "gone")])
def test_what_cannot_be_read_keeps_the_sentence_of_the_incident(error: Exception) -> None:
    def ask(*_: object) -> EpisodeSummary | None:
        raise error

    assert Diagnoser("", "east", ask).of(EPISODE) == EPISODE


def test_the_demo_says_the_same_in_messages_and_in_why(tmp_path: Path) -> None:
    """Goal: for each episode of the shipped day, the message has the sentence that `why` leads with."""
    unpack(tmp_path, ends_now())
    warehouse, cluster = str(tmp_path), "demo"
    tables = ClusterRows(warehouse, cluster)
    episodes = [each for each in episodes_of(tables.rows("incidents"), {}) if each.group_id][:DIAGNOSED_MAX]
    diagnoser = Diagnoser(warehouse, cluster)
    compared = 0
    for episode in episodes:
        since = instant_of_ms(episode.first_seen_ms) - timedelta(minutes=1)
        _, verdict = why(tables, episode.group_id or "", since, None)
        found = [each for each in summaries(verdict) if episode.episode_id in each.episode_ids]
        worded = diagnoser.of(episode)
        if found:
            assert worded.sentence.startswith(found[0].what)
            assert worded.cause == found[0].title
            compared += 1
    assert compared > len(episodes) / 2


def test_what_to_do_where_no_cause_is_proved() -> None:
    """Goal: a message with several possible causes does not advise to look at the lag, but to find out which cause it
    is."""
    rivals = [{"told_apart_by": "Its metric commit-rate."}]
    several = replace(FOUND, advice=None, change=None, more="Look at its lag.", rivals=rivals)
    assert several.remedy == "Find out which cause it is. Its metric commit-rate."
    assert replace(several, rivals=(), advice="Look at its lag.").remedy == "Look at its lag."
    assert replace(several, advice="Restart it.").remedy == "Restart it."
