"""Goal: the ledger's answers about a broken cluster are judged by the truth, and facts that nobody knows are left
out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.truth.cluster_judge import (
    NOT_KNOWN,
    RIGHT,
    WRONG,
    Tally,
    judge_departure,
    judge_episodes,
    judge_incident,
    judge_lag,
    judge_members,
    judge_owner,
    judge_positions,
    judge_rest,
    judge_why,
)
from lab.truth.cluster_truth import Truth

PLACE = ("g", 0)
T = 1_000_000
KILLED_MS = T + 400_000


def life(client_id: str, **changed: Any) -> dict[str, Any]:
    row = {"client_id": client_id, "group_id": "g", "group_type": "consumer", "is_static": False}
    return row | {"ended": None, "ended_ms": None} | changed


def shown(name: str, event: str, after_s: float, *numbers: int) -> dict[str, Any]:
    return {
        "name": name,
        "event": event,
        "at_ms": T + round(after_s * 1_000),
        "partitions": [["g", number] for number in numbers],
    }


def asked(of: str, after_s: float, **answer: Any) -> dict[str, Any]:
    at_ms = T + round(after_s * 1_000)
    return {"of": of, "group_id": "g", "asked_ms": at_ms, "answered_ms": at_ms + 50, **answer}


def described(after_s: float, *owners: str, **changed: Any) -> dict[str, Any]:
    members = [[f"id-{owner}", owner, [["g", 0]]] for owner in owners]
    return asked("group", after_s, state="Stable", epoch=7, members=members) | changed


HAPPENED = (
    {"what": "begin", "at_ms": T, "until_ms": None},
    {"what": "freeze_broker", "at_ms": T + 100_000, "until_ms": T + 115_000, "broker": 2, "led": [1]},
    {"what": "kill_client", "at_ms": KILLED_MS, "until_ms": KILLED_MS, "clients": ["c"]},
    {"what": "rest", "at_ms": T + 900_000, "until_ms": None},
)
ASKED = (
    *(described(second, "a") for second in range(60)),
    *(described(second, "b") for second in range(60, 120)),
    *(described(second, "t-StreamThread-1-consumer", group_id="s") for second in range(60)),
    *(described(second, "t-StreamThread-1-consumer", "u", group_id="s", epoch=8) for second in range(60, 120)),
    *(asked("commits", second, offsets=[["g", 0, second * 10]]) for second in range(300)),
    *(asked("ends", second, offsets=[["g", 0, second * 10 + 5]]) for second in range(300)),
)
TRUTH = Truth(
    happened=HAPPENED,
    lives={
        each["client_id"]: each
        for each in (
            life("a"),
            life("b"),
            life("c", ended="killed", ended_ms=KILLED_MS),
            life("d", ended="closed", ended_ms=KILLED_MS),
            life("t", group_id="s", group_type="streams"),
            life("u", group_id="s", group_type="streams"),
        )
    },
    reported=(
        shown("a", "assigned", 1, 0),
        shown("a", "revoked", 58, 0),
        shown("b", "assigned", 61, 0),
        shown("c", "assigned", 1, 1),
    ),
    asked=ASKED,
    expired={"id-a": [T + 112_000], "id-b": [T + 111_000]},
    fenced=[T + 109_000, T + 700_000],
    left={"id-b": T + 112_400},
)


def outcomes(judge: Any, *given: Any, truth: Truth = TRUTH) -> list[str]:
    tally = Tally()
    judge(tally, truth, *given)
    assert len(tally.wrong) == sum(count for (_, outcome), count in tally.counts.items() if outcome == WRONG)
    return [outcome for _, outcome in tally.counts.elements()]


@pytest.mark.parametrize(
    ("after_s", "answer", "expected"),
    [
        (30, ("owned", {"a"}), [RIGHT]),
        (30, ("unknown", set()), [NOT_KNOWN]),
        (30, ("unowned", set()), [WRONG]),
        (70, ("owned", {"a"}), [WRONG]),
        (59.5, ("owned", {"a"}), []),  # between owners
        (62, ("owned", {"b"}), []),  # just given
        (200, ("owned", {"b"}), []),  # nobody described it then
    ],
)
def test_owners(after_s: float, answer: tuple[str, set[str]], expected: list[str]) -> None:
    """Goal: an owner is judged where its own report and the descriptions around the instant agree."""
    assert outcomes(judge_owner, "g", PLACE, T + round(after_s * 1_000), answer) == expected


@pytest.mark.parametrize(
    ("after_s", "owners", "expected"),
    [
        (30, {"t"}, [RIGHT]),
        (30, {"u"}, [WRONG]),
        (50, {"t"}, []),  # what is described later may have been written by then
        (70, {"t", "u"}, [RIGHT]),
        (70, {"t"}, [WRONG]),
        (110, {"t", "u"}, []),  # nobody described it later
    ],
)
def test_owners_by_descriptions(after_s: float, owners: set[str], expected: list[str]) -> None:
    """Goal: clients that report nothing are judged where all descriptions of some time agree, and several may own a
    partition."""
    assert outcomes(judge_owner, "s", PLACE, T + round(after_s * 1_000), ("owned", owners)) == expected


@pytest.mark.parametrize(
    ("after_s", "answer", "expected"),
    [
        (30, (7, ["id-t-StreamThread-1-consumer"]), [RIGHT]),
        (30, (6, ["id-t-StreamThread-1-consumer"]), [WRONG]),
        (30, (7, []), [WRONG]),
        (30, None, [NOT_KNOWN]),
        (50, (7, []), []),  # it changes soon
    ],
)
def test_members(after_s: float, answer: tuple[int, list[str]] | None, expected: list[str]) -> None:
    """Goal: members and epoch of an instant are those that were described around it."""
    assert outcomes(judge_members, "s", T + round(after_s * 1_000), answer) == expected


def test_share_groups_at_rest() -> None:
    """Goal: at rest, start offset and lag of a share group are exactly what Admin says."""
    answers = [asked("positions", 950, offsets=[["g", 0, 100, 7]])]
    for start, behind, expected in ((100, 7, RIGHT), (99, 8, WRONG)):
        tally = Tally()
        row = {"topic": "g", "partition": 0, "start_offset": start, "lag": behind, "sampled_ms": T}
        judge_positions(tally, "rest", answers, [row])
        assert [*tally.counts.elements()] == [("rest", expected)]
    tally = Tally()
    judge_positions(tally, "rest", answers, [])
    assert [*tally.counts.elements()] == [("rest", NOT_KNOWN)]


def test_a_killed_client_owns_nothing() -> None:
    """Goal: a killed process owns nothing, whatever it reported last."""
    assert TRUTH.holders["g", 1][-1] == (KILLED_MS, frozenset())


def lag(after_s: float, **changed: Any) -> dict[str, Any]:
    row = {"group_id": "g", "topic": "g", "partition": 0, "sampled_ms": T + round(after_s * 1_000), "flags": []}
    second = round(after_s)
    return row | {"status": "ok", "committed_offset": second * 10, "lag": 5} | changed


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (lag(100), [RIGHT]),
        (lag(100, lag=None, committed_offset=None, flags=["commits_late"]), [NOT_KNOWN]),
        (lag(100, lag=None, committed_offset=None, flags=["no_commit"], status="no_commit"), [WRONG]),
        (lag(100, committed_offset=500, lag=505), [WRONG]),  # of a minute before
        (lag(100, status="stopped"), [WRONG]),
        (lag(299), []),  # no answer came after it
    ],
)
def test_live_lag(row: dict[str, Any], expected: list[str]) -> None:
    """Goal: numbers must lie within the broker's own ones around the round; a commit that the broker has is not
    denied."""
    assert outcomes(judge_lag, row) == expected


def test_lag_at_rest() -> None:
    """Goal: at rest, the last round agrees exactly with Admin."""
    answers = [asked("commits", 950, offsets=[["g", 0, 100]]), asked("ends", 950, offsets=[["g", 0, 107]])]
    for committed, behind, expected in ((100, 7, RIGHT), (100, 6, WRONG), (None, None, NOT_KNOWN)):
        tally = Tally()
        judge_rest(tally, "rest", answers, [lag(960, committed_offset=committed, lag=behind)])
        assert [*tally.counts.elements()] == [("rest", expected)]


def departure(client_id: str, at_ms: int, cause: str | None, member_id: str = "x") -> dict[str, Any]:
    row = {"group_id": "g", "client_id": client_id, "member_id": member_id, "left_ms": at_ms}
    return row | {"leave_cause": cause, "leave_cause_confidence": 0.9}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (departure("c", KILLED_MS + 10_000, "session_expired"), [RIGHT]),
        (departure("c", KILLED_MS + 10_000, "left"), [WRONG]),
        (departure("c", KILLED_MS - 90_000, "session_expired"), [WRONG]),
        (departure("d", KILLED_MS, "left"), [RIGHT]),
        (departure("a", T + 110_000, "session_expired", "id-a"), [RIGHT]),  # by a broker's log
        (departure("a", T + 110_000, "left", "id-a"), [WRONG]),
        (departure("a", T + 110_000, "unknown", "id-a"), [NOT_KNOWN]),
        (departure("a", T + 110_000, "replaced", "id-a"), []),
        (departure("b", T + 112_500, "left", "id-b"), [RIGHT]),  # it had come back after its session
    ],
)
def test_departures(row: dict[str, Any], expected: list[str]) -> None:
    """Goal: a cause is right if the play did it to the client, or if a broker logged it."""
    assert outcomes(judge_departure, row) == expected


def incident(kind: str, at_ms: int, client_id: str | None, **changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": kind,
        "group_id": "g",
        "client_id": client_id,
        "member_id": f"id-{client_id}",
        "episode_id": "e",
        "probable_root": "session_expired",
    }
    row |= {"severity": "warning", "evidence": "inferred", "first_seen_ms": at_ms, "last_seen_ms": at_ms}
    return row | {"explanation": "It went."} | changed


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (incident("session_expired", KILLED_MS + 11_000, "c"), [RIGHT]),
        (incident("session_expired", T + 110_000, "b"), [WRONG]),
        (incident("commit_gap", T + 110_000, None), [WRONG]),
        (incident("offset_rewind", T + 110_000, None, probable_root="unknown"), [NOT_KNOWN]),
        (incident("session_expired", T + 110_000, "b", severity="info"), []),
        (incident("coordinator_failed", T + 110_000, None), []),
        (incident("session_expired", T + 70_000, "b", evidence="observed"), [WRONG, WRONG]),  # and it stayed
    ],
)
def test_incidents(row: dict[str, Any], expected: list[str]) -> None:
    """Goal: a client without a fault is blamed for nothing, and a member that stayed was not removed."""
    assert outcomes(judge_incident, row) == expected


def failed(episode_id: str, at_ms: int, **changed: Any) -> dict[str, Any]:
    return incident("coordinator_failed", at_ms, None, episode_id=episode_id, **changed)


def test_episodes() -> None:
    """Goal: a fault of a broker is one episode, and without a fault there is no episode."""
    once = failed("e1", T + 104_000)
    assert outcomes(judge_episodes, []) == [NOT_KNOWN]
    assert outcomes(judge_episodes, [once, once]) == [RIGHT]
    assert outcomes(judge_episodes, [once, failed("e2", T + 109_000)]) == [WRONG]
    assert outcomes(judge_episodes, [once, failed("e2", T + 600_000)]) == [RIGHT, WRONG]
    assert outcomes(judge_episodes, [once, failed("e2", T + 710_000)]) == [RIGHT]  # a broker was slow


def test_episodes_of_faults_that_follow_one_another() -> None:
    """Goal: an episode that goes on while the next broker fails is no second one of that fault."""
    then = {"what": "kill_broker", "at_ms": T + 140_000, "until_ms": T + 150_000, "broker": 3, "led": [2]}
    truth = replace(TRUTH, happened=[*HAPPENED[:2], then, *HAPPENED[2:]])
    first = failed("e1", T + 89_000, last_seen_ms=T + 170_000)
    rows = [first, failed("e2", T + 129_000, last_seen_ms=T + 200_000)]
    assert outcomes(judge_episodes, rows, truth=truth) == [RIGHT, RIGHT]
    assert outcomes(judge_episodes, [*rows, failed("e3", T + 135_000, last_seen_ms=T + 160_000)], truth=truth) == [
        RIGHT,
        WRONG,
    ]


def test_why() -> None:
    """Goal: no sentence about the time of a broker's fault blames a client."""
    (fault,) = TRUTH.faults
    said = {"severity": "warning", "fault": "client", "cause": "session_expired", "client_id": "b"}
    assert outcomes(judge_why, fault, "g", [said]) == [WRONG]
    for changed in ({"severity": "info"}, {"fault": "brokers"}, {"fault": None, "client_id": None}):
        assert outcomes(judge_why, fault, "g", [said | changed]) == [RIGHT]
