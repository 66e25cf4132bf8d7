"""Goal: the words around a diagnosis are the same on a terminal and on a page, and clear to whoever reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pytest

from groupledger.jobs.ask.diagnosis import diagnosis_lines, known_by, proof
from groupledger.jobs.ask.incidents import lines as incident_lines
from groupledger.jobs.ask.verdict import EpisodeSummary, of_diagnosis, of_episode, pasted, summaries
from groupledger.jobs.serve.shown import templates
from groupledger.schemas.kinds.causes import CAUSE_NAMED, CAUSES
from groupledger.schemas.kinds.causes.cause import WHO_CAN_FIX, Cause, Fault
from groupledger.schemas.kinds.clauses import Fact, filled, said
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.schemas.words import words_of
from groupledger.transforms.incidents.verdicts import verdicts
from tests.transforms.incidents.group_rows import AT, MINUTE, found, incident, lag, member, sampled

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.schemas.kinds.incidents import IncidentKind


def lines(diagnosis: dict[str, Any]) -> list[str]:
    return [click.unstyle(line) for line in diagnosis_lines(diagnosis, AT - 60 * MINUTE, AT + 5 * MINUTE, ())]


def page(summary: EpisodeSummary) -> str:
    macros: Any = templates().get_template("verdict.html").module
    return " ".join(str(macros.facts(summary, None)).split())


@pytest.mark.parametrize(
    ("kind", "fault"), [("group_not_authorized", Fault.OPERATOR), ("inconsistent_protocol", Fault.CLIENT)]
)
def test_who_can_fix_it(kind: str, fault: str) -> None:
    """Goal: a proved cause says whose it is; without a cause nobody is named."""
    (diagnosis,) = found(incidents=[incident(kind)])
    assert f"    who can fix it: {WHO_CAN_FIX[fault]}" in lines(diagnosis)
    shown = page(of_diagnosis(diagnosis))
    assert f'<dt>Who can fix it</dt><dd class="fault">{WHO_CAN_FIX[fault]}</dd>'.replace("'", "&#39;") in shown
    unknown = diagnosis | {"cause": None, "fault": None}
    assert not any("who can fix it" in line for line in lines(unknown))
    assert "Who can fix it" not in page(of_diagnosis(unknown))


def test_each_fault_has_words() -> None:
    assert WHO_CAN_FIX.keys() == {*words_of(Fault)}


def test_the_lag_of_which_partitions() -> None:
    """Goal: the harm says how many partitions the lag is in, whatever the worst status is, and of when it is."""
    rounds = sampled(
        *(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - MINUTE) for at in (0, 3)),
        *(lag(at, 1, 50, 91, "stalled", no_progress_since=AT - MINUTE) for at in (0, 3)),
        *(lag(at, 2, 50, 52, "ok") for at in (0, 3)),
    )
    (diagnosis,) = found(members=[member(f"m{n}", -9, None) for n in range(3)], **rounds)
    assert "    harm: 81 records of lag in 2 partitions, when last seen" in lines(diagnosis)


@pytest.mark.parametrize("cause", [each for each in CAUSES if each.proved_by], ids=lambda cause: cause.name)
def test_the_proof(cause: Cause) -> None:
    """Goal: on each way a proved cause has the signs that prove it, and no other; an incident of its own kind needs
    none, and neither does what is not proved."""
    (diagnosis,) = found(incidents=[incident("group_not_authorized")])
    proving = cause.proved_by[0]
    shown = diagnosis | {"cause": cause.name, "signs": [*(sign.name for sign in proving), "another"], "kinds": ()}
    said = "" if cause.kind else " ".join(dict.fromkeys(sign.meaning for sign in proving))
    assert proof(shown) == said
    assert any(line.startswith("    proof: ") for line in lines(shown)) == bool(said)
    assert ("<dt>Proof</dt>" in page(of_diagnosis(shown))) == bool(said)
    assert proof(shown | {"cause": None}) == ""


def test_an_open_episode() -> None:
    """Goal: what is open says how long before the end of what is known it was last seen, on each way."""
    (diagnosis,) = found(incidents=[incident("group_not_authorized", is_open=True)])
    said = "4 min before the end of what is known"
    assert lines(diagnosis)[0].endswith(f", open: last seen 2026-01-01T12:01:00.000Z (1 min later), {said}")
    (summary,) = summaries({"diagnosis": [diagnosis], "episodes": [], "as_of": AT + 5 * MINUTE})
    assert said in page(summary)
    assert said in pasted("g", summary)


@pytest.mark.parametrize(
    ("as_of", "said"),
    [(AT + 5 * MINUTE, "(open: last seen 4 min before the end of what is known)"), (None, "(open)")],
)
def test_an_open_incident_of_a_list(as_of: datetime | None, said: str) -> None:
    row = incident("group_not_authorized", group_id="g", is_open=True)
    assert click.unstyle(next(incident_lines(row, as_of))).endswith(f"  ERROR  group_not_authorized {said}")
    assert "open" not in click.unstyle(next(incident_lines(row | {"is_open": False}, as_of)))


def test_nothing_is_named_twice() -> None:
    (diagnosis,) = found(incidents=[incident("group_not_authorized")])
    beside = diagnosis | {"kinds": ["poll_timeout"], "beside": ["poll_timeout"]}
    assert known_by(beside).endswith("with it: poll_timeout")
    assert "poll_timeout, poll_timeout" not in known_by(beside)


OF_INCIDENTS = {cause.name for cause in CAUSES if not cause.by}  # those with `by` have an advice of their own


@pytest.mark.parametrize("kind", INCIDENT_KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("facts", [(), (Fact.ONLY_LOGGED, Fact.LOG_IMPORTED), (Fact.INFERRED, Fact.CLASSIC_GROUP)])
def test_what_to_do_is_no_part_of_what_happened(kind: IncidentKind, facts: tuple[str, ...]) -> None:
    """Goal: what a page shows under "Do", a message and a terminal are the whole advice of the incident and nothing
    else."""
    names = dict.fromkeys(("claimed", "current", "instance", "count", "seconds", "partition", "detail"), "7")
    happened = filled(kind.happened, facts, {**names, "who": "m-1", "times": "3 times", "duplicates": ""})
    row = incident(kind.name, explanation=f"{happened} Look at it. Then wait.", group_id="g")
    for each in found(incidents=[row]):
        summary = of_diagnosis(each)
        if each["cause"] in OF_INCIDENTS and CAUSE_NAMED[each["cause"]].kind == kind.name:
            assert summary.remedy == "Look at it. Then wait."
            assert " ".join(filter(None, (summary.what, summary.more))) == happened
    (episode,) = verdicts([row])
    assert of_episode(episode).remedy == "Look at it. Then wait."


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_a_cause_without_advice(cause: Cause) -> None:
    """Goal: no sentence about what happened stands for advice."""
    row = dict.fromkeys(("advice", "setting_to_change", "client_id", "client_host", "member_id", "group_instance_id"))
    row |= {"explanation": said(cause.happened, {sign.name for sign in cause.signs}), "cause": cause.name}
    row |= {"fault": cause.fault, "severity": "error", "since": AT, "until": None, "last_seen_at": AT, "kinds": []}
    row |= {"symptom": cause.symptoms[0].name, "rivals": [], "beside": [], "episode_ids": [], "signs": []}
    row |= {"sources": ["topic"], "evidence": "observed", "never_read_max": None, "duplicates_max": None}
    assert of_diagnosis(row).remedy == "No setting is known that prevents it."
