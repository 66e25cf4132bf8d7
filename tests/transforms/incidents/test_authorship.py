"""Goal: a diagnosis names who moved offsets where the request log shows it, and nobody where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.schemas.words import Authorship
from tests.transforms.incidents.group_rows import AT, event, found, incident

RESET = event("rewound", "no_member", records_repeated=40)
REWIND = incident("offset_rewind", evidence="inferred", confidence=0.95, severity="warning")
OPS = {"principal": "User:ops", "client_id": "kafka-admin", "client_host": "/10.0.0.9", "member_id": ""}
DEV = {**OPS, "principal": "User:dev {who}", "client_host": None}


def act(known_by: str, *authors: dict[str, Any], kind: str = "rewound", cause: str = "no_member") -> dict[str, Any]:
    return {"happened_at": AT, "kinds": [kind], "causes": [cause], "known_by": known_by, "authors": [*authors]}


def reset(*acts: dict[str, Any], **rows: Any) -> dict[str, Any]:
    (diagnosis,) = found(**{"offset_events": [RESET], "acts": lambda: acts} | rows)
    assert diagnosis["cause"] == "reset_at_rest"
    return diagnosis


@pytest.mark.parametrize("incidents", [[], [REWIND]])
def test_one_request(incidents: list[dict[str, Any]]) -> None:
    """Goal: the one request is named, as observed, whether an incident has its own sentences or not, with a pointer to
    the command that has the rest."""
    diagnosis = reset(act(Authorship.OBSERVED, OPS), incidents=incidents)
    assert diagnosis["explanation"].endswith(" By the request log it was User:ops kafka-admin at 10.0.0.9.")
    assert diagnosis["explanation"].startswith("What offset_rewind says." if incidents else "Somebody reset")
    assert (diagnosis["evidence"], diagnosis["sources"]) == ("observed", ["request log", "topic"])
    assert "groupledger audit" in diagnosis["advice"]


def test_several_requests() -> None:
    """Goal: none of several requests is chosen, and a name is never read as a placeholder."""
    diagnosis = reset(act(Authorship.CANDIDATES, OPS, DEV))
    names = "User:ops kafka-admin at 10.0.0.9; User:dev {who} kafka-admin"
    assert diagnosis["explanation"].endswith(f"it was one of these: {names}.")
    assert diagnosis["evidence"] == "inferred"


@pytest.mark.parametrize(
    "acts",
    [
        [],
        [act(Authorship.UNKNOWN)],
        [act(Authorship.OBSERVED, OPS), act(Authorship.UNKNOWN)],
        [act(Authorship.OBSERVED, OPS, cause="member")],
    ],
)
def test_no_request(acts: list[dict[str, Any]]) -> None:
    """Goal: nobody is named without a request for every operation; a member's commit does not count."""
    diagnosis = reset(*acts)
    assert "request log" not in diagnosis["explanation"]
    assert (diagnosis["evidence"], diagnosis["sources"]) == ("inferred", ["topic"])


def test_requests_are_read_only_for_operations() -> None:
    """Goal: a group whose members moved their own offsets costs no read of the request log."""

    def acts() -> list[dict[str, Any]]:
        raise AssertionError

    assert found(offset_events=[event("rewound", "member")], acts=acts)
