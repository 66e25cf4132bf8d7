"""Goal: for a request without an answer in the log, the reference coordinator gives the broker's answer, or none."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from groupledger.transforms.incidents.rules import GroupState, Request, incidents
from groupledger.transforms.incidents.rules.replayed import Replay, replayed
from lab.truth.faults import FAILOVERS, play, with_losses, without_answers
from lab.truth.made import RULES, T, facts, request
from lab.truth.scores import is_one_sided, judged_replay, replayed_answers

SESSION_MS = 10_000


def record(generation: int, *member_ids: str, at_ms: int = T) -> GroupState:
    members = [
        {
            "member_id": member_id,
            "group_instance_id": None,
            "client_id": "client",
            "client_host": "/10.0.0.1",
            "rebalance_timeout_ms": 60_000,
            "session_timeout_ms": SESSION_MS,
            "subscription": "AAEAAAABAAZvcmRlcnMAAAAAAAAAAA==",
            "assignment": "",
        }
        for member_id in member_ids
    ]
    value = {
        "protocol_type": "consumer",
        "generation": generation,
        "protocol": "range",
        "leader": member_ids[0],
        "current_state_timestamp_ms": at_ms,
        "members": members,
    }
    return GroupState(generation, at_ms, json.dumps(value))


def heartbeat(after_ms: int, member_id: str, generation: int = 3, **fields: Any) -> Request:
    body = {"groupId": "g", "generationId": generation, "memberId": member_id, "groupInstanceId": None}
    return request("HEARTBEAT", None, T + after_ms, member_id, generation=generation, body=json.dumps(body), **fields)


def beats(member_id: str, until_ms: int) -> list[Request]:
    return [heartbeat(after_ms, member_id, connection_id="c2") for after_ms in range(1_000, until_ms, 3_000)]


def leave(after_ms: int, member_id: str, **fields: Any) -> Request:
    left = request("LEAVE_GROUP", None, T + after_ms, member_id, body=json.dumps({"groupId": "g"}), **fields)
    return replace(left, leaving=request("LEAVE_GROUP", None, T, member_id, reasons=[None]).leaving)


def reported(*requests: Request, records: tuple[GroupState, ...] = (record(3, "m-1", "m-2"),)) -> list[tuple[int, str]]:
    """Returns (milliseconds after T, kind) of each request that the replay refuses."""
    found = replayed(facts(requests=list(requests), records=list(records)))
    return [(sighting.first_ms - T, sighting.kind.name) for sighting in found]


def test_a_silent_member_is_unknown() -> None:
    """Goal: a session that ran out between two requests refuses the later one; a lively member is not refused."""
    silent = [heartbeat(1_000, "m-1"), heartbeat(25_000, "m-1")]
    assert reported(*silent, *beats("m-2", 30_000)) == [(25_000, "unknown_member")]


def test_an_old_generation() -> None:
    """Goal: a claim of a generation that is over is refused, and becomes an incident of evidence `replayed`."""
    given = facts(requests=[heartbeat(1_000, "m-2"), heartbeat(2_000, "m-2", 2)], records=[record(3, "m-1", "m-2")])
    rows = [row for row in incidents(given, RULES) if row["kind"] == "illegal_generation"]
    assert [(row["evidence"], row["claimed_generation"], row["occurrences"]) for row in rows] == [("replayed", 2, 1)]
    assert 0.5 < rows[0]["confidence"] < 1


def test_what_is_answered_is_not_replayed() -> None:
    """Goal: a request with an answer never becomes a replayed incident, whatever the replay thinks of it."""
    assert (
        reported(*[replace(each, error_code=0) for each in (heartbeat(1_000, "m-1"), heartbeat(25_000, "m-1"))]) == []
    )


def test_what_was_turned_away_never_happened() -> None:
    """Goal: a broker that is not the coordinator does nothing with a request: later requests are replayed without
    it."""
    away = replace(leave(2_000, "m-1"), error_code=16)
    assert reported(away, heartbeat(5_000, "m-1")) == []
    assert reported(replace(away, error_code=None), heartbeat(5_000, "m-1")) == [(5_000, "unknown_member")]


def test_a_replay_that_fell_behind() -> None:
    """Goal: after a claim of a generation that it does not know the replay is silent, until a record shows it."""
    ahead = [heartbeat(1_000, "m-2", 4), heartbeat(2_000, "m-1", 2)]
    assert reported(*ahead) == []
    later = heartbeat(5_000, "m-1", 2)
    records = (record(3, "m-1", "m-2"), record(4, "m-1", "m-2", at_ms=T + 4_000))
    assert reported(*ahead, later, records=records) == [(5_000, "illegal_generation")]


def test_a_member_that_nobody_saw_join() -> None:
    """Goal: the line of its join may be missing, so nothing is claimed of it."""
    assert reported(heartbeat(1_000, "m-9")) == []


def test_who_goes_on_was_not_refused() -> None:
    """Goal: a client stops its heartbeats when it learns that it is no longer a member; one that goes on proves the
    replay to be wrong, and nothing is claimed."""
    going_on = [heartbeat(25_000 + number * 1_000, "m-1") for number in range(4)]
    commit = request("OFFSET_COMMIT", None, T + 25_500, body=json.dumps({"groupId": "g"}), offsets=[(0, 7)])
    assert reported(heartbeat(1_000, "m-1"), commit, *beats("m-2", 30_000)) == [(25_500, "unknown_member")]
    assert reported(heartbeat(1_000, "m-1"), commit, *going_on, *beats("m-2", 30_000)) == []


def test_ties() -> None:
    """Goal: a leave and a heartbeat of one member within a millisecond are reported as ambiguous; further apart they
    are not; on one connection they have an order."""

    def ambiguous(apart_us: int, connection_id: str) -> list[bool]:
        left = leave(1_000, "m-1")
        beat = heartbeat(1_000, "m-1", connection_id=connection_id, line_number=2_000)
        beat = replace(beat, happened_at_us=left.happened_at_us + apart_us)
        found = replayed(facts(requests=[left, beat], records=[record(3, "m-1", "m-2")]))
        return [sighting.is_ambiguous for sighting in found]

    assert ambiguous(400, "c9") == [True]
    assert ambiguous(1_400, "c9") == [False]
    assert ambiguous(400, "c1") == [False]


def test_a_timer_of_the_same_millisecond() -> None:
    """Goal: a session that runs out within a millisecond after a request may have done so before it."""

    def ambiguous(after_ms: int) -> bool:
        requests = [heartbeat(1_000, "m-1"), heartbeat(5_000, "m-2"), heartbeat(after_ms, "m-2")]
        replay = Replay(facts(requests=requests, records=[record(3, "m-1", "m-2")]))
        replay.run()
        return replay.answers[-1][2]

    expiry_ms = 1_000 + SESSION_MS
    assert [ambiguous(expiry_ms + each) for each in (-2, -1, 1)] == [False, True, False]


@pytest.mark.slow
def test_simulated_faults() -> None:
    """Goal: from the requests alone every refusal is found and none else, and the reference coordinator's answers are
    the recorded ones; with lines lost nearly so."""
    random = Random(5)
    for played in play("long-gc", "zombie-commits", "rolling-restart", seed=5):
        stripped = without_answers(played.facts)
        judged = list(judged_replay(stripped, played.facts))
        assert all(each.is_true and each.is_claimed for each in judged), played.name
        assert bool(judged) == (played.name != "rolling-restart")
        lost = list(judged_replay(with_losses(stripped, random, 0.05), played.facts))
        assert sum(each.is_true and each.is_claimed for each in lost) >= len(lost) - 1
        assert [each for each in replayed_answers(played.facts) if is_one_sided(*each)] == []


@pytest.mark.slow
def test_a_record_is_found_behind_the_requests_of_its_millisecond() -> None:
    """Goal: the first record of a group of static members, who joined in the same millisecond, does not make strangers
    of them."""
    for played in play(*FAILOVERS, seed=7):
        assert [each for each in replayed_answers(played.facts) if is_one_sided(*each)] == []
