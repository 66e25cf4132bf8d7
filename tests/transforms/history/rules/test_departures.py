"""Goal: a server log's line about a member's departure wins over the history's guess, for the right tenure."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from groupledger.transforms.history.rules.departures import with_logged_causes

AT = datetime(2026, 11, 27, 12, tzinfo=timezone.utc)


def tenure(left_after_s: int | None, member_id: str = "m-1") -> dict[str, Any]:
    left_at = None if left_after_s is None else AT + timedelta(seconds=left_after_s)
    return {"member_id": member_id, "left_at": left_at, "leave_cause": "left", "leave_cause_confidence": 0.5}


def line(after_s: int, kind: str = "member_failed", **fields: Any) -> dict[str, Any]:
    fields_of_line = {
        "kind": kind,
        "member_id": "m-1",
        "member_ids": None,
        "reason": None,
        "client_reason": None,
        **fields,
    }
    return {"logged_at": AT + timedelta(seconds=after_s), **fields_of_line}


def causes(members: list[dict[str, Any]], *lines: dict[str, Any]) -> list[Any]:
    return [(row["leave_cause"], row["leave_cause_confidence"]) for row in with_logged_causes(members, lines)]


def test_a_line_wins() -> None:
    assert causes([tenure(60)], line(58)) == [("session_expired", 1.0)]
    assert causes([tenure(60)], line(58, "member_left", client_reason="the consumer is being closed")) == [
        ("left", 1.0)
    ]


def test_a_line_that_does_not_say_why() -> None:
    """Goal: a client that was silent, and left without a reason, is not known to have left by its own will; a static
    member, which does not leave as it closes, was removed."""

    def guesses(guess: str, **reason: str) -> list[Any]:
        return causes([tenure(60) | {"leave_cause": guess}], line(58, "member_left", **reason))

    assert guesses("left") == [("left", 1.0)]
    assert guesses("session_expired") == guesses("left_poll_timeout") == [("left_poll_timeout", 0.7)]
    assert guesses("session_expired", client_reason="the consumer is being closed") == [("left", 1.0)]
    assert guesses("admin_removed") == [("admin_removed", 1.0)]


def test_a_line_of_several_members() -> None:
    """Goal: those who did not join again in time are named in one line."""
    several = line(58, "dynamic_members_removed", member_id=None, member_ids=["m-1", "m-2"])
    assert causes([tenure(60), tenure(60, "m-3")], several) == [("failed_to_rejoin", 1.0), ("left", 0.5)]


def test_what_is_not_about_the_tenure() -> None:
    """Goal: a line of another member, of another time, or about something else leaves the guess."""
    guess = [("left", 0.5)]
    assert causes([tenure(60)], line(58, member_id="m-2")) == guess
    assert causes([tenure(3_600)], line(58)) == guess
    assert causes([tenure(60)], line(90)) == guess
    assert causes([tenure(60)], line(58, "stabilized")) == guess
    assert causes([tenure(None)], line(58)) == guess


def test_an_id_that_comes_back() -> None:
    """Goal: each tenure has the line that is nearest to its own end."""
    left = line(119, "consumer_member_left")
    assert causes([tenure(60), tenure(120)], line(58), left) == [("session_expired", 1.0), ("left", 1.0)]


def test_a_line_of_a_coordinator_that_had_lost_the_group() -> None:
    """Goal: a line does not count for a departure before which a generation began that still had the member."""

    def cause(began_after_s: int) -> str:
        generations = [{"started_at": AT + timedelta(seconds=began_after_s)}]
        (row,) = with_logged_causes([tenure(100)], [line(60)], generations)
        return str(row["leave_cause"])

    assert cause(100) == "session_expired"
    assert cause(80) == "left"
