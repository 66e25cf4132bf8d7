"""Goal: one broker's line about a departure counts as seen if records confirm it; if they contradict it, nobody left,
and that broker was a zombie; if nothing shows it, the sentence says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupledger.transforms.incidents.rules import incidents
from lab.truth.made import RULES, T, event, facts, generation, tenure

FAILED = replace(event("member_failed", T + 48_000, "m-1"), broker_id=2)
PATIENT = {"rebalance_timeout_ms": 60_000}


def reported(until_s: int = 600, **parts: Any) -> dict[str, dict[str, Any]]:
    given = facts(**{"events": [FAILED], "as_of_ms": T + 600_000, **parts})
    given.topic_until_ms = T + until_s * 1_000
    return {row["kind"]: row for row in incidents(given, RULES)}


def test_the_end_of_the_tenure_confirms_a_line() -> None:
    """Goal: a member whose tenure ends with the rebalance that followed was removed."""
    row = reported(members=[tenure("m-1", 10, 50)], generations=[generation(3, 10, 50), generation(4, 50, None)])
    assert set(row) == {"session_expired"}
    assert (row["session_expired"]["evidence"], row["session_expired"]["confidence"]) == ("observed", 1.0)
    assert "no record confirms" not in row["session_expired"]["explanation"]


@pytest.mark.parametrize(
    ("members", "generations"),
    [
        ([tenure("m-1", 10, None)], [generation(3, 10, 70), generation(4, 70, None)]),
        ([tenure("m-1", 10, 90)], [generation(3, 10, 70), generation(4, 70, 90), generation(5, 90, None)]),
        ([tenure("m-1", 10, None, **PATIENT)], [generation(3, 10, None)]),
        ([tenure("m-1", 10, None, group_type="consumer", **PATIENT)], [generation(3, 10, None)]),
    ],
    ids=["a later generation has it", "it left later", "nothing followed", "nothing followed (KIP-848)"],
)
def test_records_contradict_a_line(members: list[Any], generations: list[Any]) -> None:
    """Goal: a member that the records show to have stayed was not removed; the broker that said so was no coordinator
    any more, and nothing is to be changed in a client."""
    rows = reported(members=members, generations=generations)
    assert set(rows) == {"zombie_coordinator"}
    row = rows["zombie_coordinator"]
    assert (row["evidence"], row["member_id"], row["setting_to_change"]) == ("observed", None, None)
    assert row["explanation"].startswith("Broker 2 logged once that it acted for the group")
    assert row["probable_root"] == "coordinator_failover"


@pytest.mark.parametrize(
    ("members", "generations", "until_s"),
    [
        ([], [], 600),
        ([tenure("m-1", 10, None, **PATIENT)], [generation(3, 10, None)], 100),
        ([tenure("m-1", 10, 400, is_end_known=False)], [generation(3, 10, 400, ended_by="hole")], 600),
    ],
    ids=["never in a record", "the topic is not read so far", "a hole"],
)
def test_nothing_shows(members: list[Any], generations: list[Any], until_s: int) -> None:
    """Goal: if the topic does not cover the time, the line counts as the word of one broker, and is less sure."""
    (row,) = reported(until_s, members=members, generations=generations).values()
    assert (row["kind"], row["evidence"], row["confidence"]) == ("session_expired", "logged", 0.8)
    assert "One broker logged that, and no record confirms it." in row["explanation"]
