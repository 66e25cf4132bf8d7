"""Goal: a setting is read by Kafka's names, and by no others."""

import pytest

from groupledger.coordinator.what_if.setting import Setting, SettingError, changed


def test_changes() -> None:
    """Goal: parts are combined, and the other parts stay; a change of the protocol takes its heartbeats along, but
    leaves the session."""
    had = Setting(session_ms=10_000)
    assert changed(had, []) == had
    asked = ["static", "cooperative-sticky", "max.poll.interval.ms=60000"]
    assert changed(had, asked) == Setting(
        assigned_by="cooperative-sticky", is_static=True, session_ms=10_000, max_poll_interval_ms=60_000
    )
    modern = changed(had, ["consumer"])
    assert (modern.session_ms, modern.heartbeat_ms) == (10_000, 3_333)
    assert changed(Setting(), ["consumer"]).heartbeat_ms == 5_000
    assert changed(modern, ["range"]) == had
    assert changed(modern, ["static", "dynamic"][1:]) == modern


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (["sticki"], "There is no setting 'sticki': take one of range, "),
        (["static=1"], "There is no setting 'static=1'"),
        (["session.timeout.ms"], "There is no setting 'session.timeout.ms'"),
        (["session.timeout.ms=soon"], "session.timeout.ms is a number of ms up to 86400000: change 'soon'."),
        (["session.timeout.ms=٣"], "session.timeout.ms is a number of ms"),
        (["session.timeout.ms=99999999"], "session.timeout.ms is a number of ms"),
        (["static", "dynamic"], "dynamic contradicts another setting"),
        (["range", "consumer"], "consumer contradicts another setting"),
        (["session.timeout.ms=3000"], "heartbeat.interval.ms has to be less than session.timeout.ms"),
    ],
)
def test_refusals(asked: list[str], sentence: str) -> None:
    """Goal: a setting that is unknown, no number, impossible or contradictory is refused with the remedy."""
    with pytest.raises(SettingError) as refused:
        changed(Setting(), asked)
    assert str(refused.value).startswith(sentence)
