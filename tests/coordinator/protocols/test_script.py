"""A script is played, or refused with an error."""

from typing import Any

import pytest

from groupledger.coordinator.protocols.script import SCRIPTS, ScriptError, member_names, script_of

GOOD: dict[str, Any] = {
    "topics": {"orders": 6},
    "members": 2,
    "events": [{"at_ms": 5_000, "do": "join", "member": "m03"}, {"at_ms": 1_000, "do": "crash", "member": "m01"}],
}


def test_a_script() -> None:
    """Goal: events are in the order of time, members have names, and the end lies ten minutes after the last event."""
    script = script_of("s", GOOD)
    assert [event.action for event in script.events] == ["crash", "join"]
    assert (script.members_at_start, script.from_ms, script.until_ms) == (("m01", "m02"), 1_000, 605_000)
    assert script_of("s", GOOD | {"members": ["a", "m01"]}).members_at_start == ("a", "m01")
    assert member_names(100)[0] == "m001"
    assert all(script.name == name for name, script in SCRIPTS.items())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"events": []}, "a list of events"),
        ({"topics": {}}, "needs topics"),
        ({"topics": [1]}, "needs topics"),
        ({"events": [1]}, "1 has no fields"),
        ({"colour": 1}, "the unknown field 'colour'"),
        ({"members": -1}, "whole number"),
        ({"members": ["a#2", "m01"]}, "a#2 has a #"),
        ({"until_ms": 2_000}, "before its last event"),
        ({"events": [{"at_ms": 1, "do": "dance", "member": "m01"}]}, "'dance'"),
        ({"events": [{"at_ms": 1, "do": "pause", "member": "m01"}]}, "at_ms, do, for_ms, member"),
        ({"events": [{"at_ms": 1, "do": "leave", "member": "m07"}]}, "m07 is not there"),
        ({"events": [{"at_ms": 1, "do": "join", "member": "m01"}]}, "m01 is there already"),
        ({"events": [{"at_ms": 1, "do": "grow", "topic": "orders", "partitions": 6}]}, "can only grow"),
        ({"events": [{"at_ms": 1, "do": "grow", "topic": "other", "partitions": 6}]}, "declare it"),
        ({"events": [{"at_ms": True, "do": "leave", "member": "m01"}]}, "at_ms must be a whole number"),
    ],
)
def test_a_script_that_cannot_be_played(changed: dict[str, Any], message: str) -> None:
    """Goal: a script with a mistake is refused in a sentence that names the mistake."""
    with pytest.raises(ScriptError, match=message):
        script_of("s", GOOD | changed)
