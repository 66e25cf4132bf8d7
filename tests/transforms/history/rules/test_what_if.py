"""Goal: the rows of a ledger say what a group's setting and members were, or why that can't be replayed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from groupledger.coordinator.what_if.answer import Interval
from groupledger.coordinator.what_if.setting import Setting
from groupledger.coordinator.what_if.workload import TopicGrowth
from groupledger.transforms.history.rules.what_if import NotReplayableError, WhatIfRows, observed_of, workload_of
from lab.truth.what_if import play, predicted

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
MEMBER = {
    "member_id": "m",
    "joined_at": AT - MINUTE,
    "left_at": None,
    "leave_cause": None,
    "leave_cause_confidence": None,
    "to_offset": None,
    "group_instance_id": None,
    "client_id": "c",
    "client_host": "/h",
    "is_classic": True,
    "server_assignor": None,
    "subscribed_topics": ["t"],
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 60_000,
}
GENERATION = {
    "started_at": AT - MINUTE,
    "ended_at": None,
    "group_type": "classic",
    "protocol_type": "consumer",
    "protocol": "range",
    "member_count": 1,
}
MODERN = {**GENERATION, "group_type": "consumer", "protocol_type": None, "protocol": None}
REBALANCE = {
    "happened_at": AT + MINUTE,
    "kafka_offset": 7,
    "from_generation": 3,
    "to_generation": 4,
    "is_hole": False,
    "hole_cause": None,
    "changes": [{"kind": "partitions_added", "topic": "t", "partitions": [4, 5]}],
    "partitions_moved": 2,
    "partitions_kept": 4,
    "pause_scope": "group",
    "pause_lower_ms": 10,
    "partition_pauses": [{"pause_upper_ms": 5_000}] * 6,
}
ASSIGNMENT = {"topic": "t", "partition": 5, "valid_from": AT - MINUTE, "valid_to": None}
ROWS = WhatIfRows(
    members=[MEMBER],
    generations=[GENERATION],
    rebalances=[REBALANCE],
    assignments=[ASSIGNMENT],
    since=AT,
    until=AT + 60 * MINUTE,
)


def test_workload() -> None:
    """Goal: the setting is that of the members; topics are as they were at the beginning, with their later growth."""
    found = workload_of(ROWS, ["group.initial.rebalance.delay.ms=0"], 2.5)
    assert found.actual == Setting(session_ms=30_000, max_poll_interval_ms=60_000, initial_delay_ms=0)
    assert found.topics == (("t", 4),)
    assert found.growths == (TopicGrowth(int((AT + MINUTE).timestamp() * 1_000), "t", 6),)
    assert found.records_per_second == 2.5
    (tenure,) = found.tenures
    assert (tenure.joined_ms, tenure.left_ms, tenure.end) == (None, None, "")


@pytest.mark.parametrize(
    ("cause", "trigger", "end"),
    [
        ("left", None, "left"),
        ("session_expired", None, "silent"),
        ("replaced", None, "replaced"),
        (None, None, "left"),
        ("left", "session_expired", "silent"),
        ("left", "left_poll_timeout", "too_slow"),
        ("left_poll_timeout", "session_expired", "silent"),
    ],
)
def test_ends(cause: str | None, trigger: str | None, end: str) -> None:
    """Goal: a tenure ended as the server log says, or else as the records do."""
    gone: dict[str, Any] = {**MEMBER, "left_at": AT + MINUTE, "leave_cause": cause, "to_offset": 7}
    gone["leave_cause_confidence"] = None if cause is None else 0.75
    reported = {**REBALANCE, "trigger": trigger, "changes": [{"kind": "dynamic_restart"}]}
    (tenure,) = workload_of(replace(ROWS, members=[gone], rebalances=[reported])).tenures
    is_guess = trigger is None and cause in {"left", "session_expired"}
    assert (tenure.end, tenure.doubt) == (end, 0.25 if is_guess else 0.0)
    static = {**gone, "group_instance_id": "i"}
    assert workload_of(replace(ROWS, members=[static], rebalances=[reported])).tenures[0].doubt == 0.0


def test_a_session_that_no_record_shows() -> None:
    """Goal: if the setting says another session than the one by which the guess was made, the guess does not count."""
    gone: dict[str, Any] = {**MEMBER, "left_at": AT + MINUTE, "leave_cause": "left", "leave_cause_confidence": 0.95}
    rows = replace(ROWS, generations=[MODERN], members=[{**gone, "is_classic": False, "session_timeout_ms": None}])
    shorter: tuple[str, ...] = ("session.timeout.ms=6000",)
    for taken_ms, reported, doubt in (
        (45_000, (), 0.05),
        (45_000, shorter, 0.5),
        (6_000, shorter, 0.05),
        (6_000, (), 0.05),
    ):
        workload = workload_of(replace(rows, consumer_session_ms=taken_ms), reported)
        assert workload.actual.session_ms == (6_000 if reported else taken_ms)
        assert workload.tenures[0].doubt == pytest.approx(doubt)


def test_requests_end_the_doubt() -> None:
    """Goal: the requests that a member sent correct a guess: a member that leaves by itself sends one."""
    left_at = AT + 2 * MINUTE
    gone: dict[str, Any] = {**MEMBER, "left_at": left_at, "leave_cause": "left", "leave_cause_confidence": 0.5}
    rows = replace(ROWS, members=[{**gone, "to_offset": 7}], until=AT + 3 * MINUTE)
    for until, end in ((24, "left"), (19, "silent")):
        (tenure,) = workload_of(replace(rows, requests=requests(*(each / 12 for each in range(until))))).tenures
        assert (tenure.end, tenure.doubt) == (end, 0.0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rebalances": [{**REBALANCE, "is_hole": True, "hole_cause": "not_covered"}]}, "The ledger has holes"),
        ({"generations": [GENERATION, {**GENERATION, "group_type": "consumer"}]}, "The group changed its type"),
        ({"generations": [GENERATION, {**GENERATION, "protocol": "sticky"}]}, "The group changed its assignor"),
        ({"generations": [{**GENERATION, "protocol": "ours"}]}, "The assignor is the application's own"),
        ({"generations": [{**GENERATION, "protocol_type": "ours"}]}, "Its protocol is the application's own"),
        ({"generations": [{**GENERATION, "protocol_type": "connect"}]}, "It is a group of Kafka Connect: only groups"),
        ({"generations": [{**GENERATION, "protocol": "stream"}]}, "It is a group of Kafka Streams: only groups"),
        ({"generations": [{**MODERN, "group_type": "streams"}]}, "It is a group of Kafka Streams: only groups"),
        ({"generations": [{**MODERN, "group_type": "share"}]}, "It is a group of share consumers: only groups"),
        ({"generations": [MODERN]}, "Some of its members speak the classic protocol"),
        (
            {"generations": [MODERN], "members": [{**MEMBER, "is_classic": False, "server_assignor": "range"}]},
            "Members ask the broker for another assignor",
        ),
        ({"members": [MEMBER, {**MEMBER, "subscribed_topics": ["t", "u"]}]}, "Its members subscribe to different"),
        ({"members": []}, "The group had no members"),
        ({"members": [{**MEMBER, "left_at": AT - MINUTE}]}, "The group had no members"),
        ({"members": [MEMBER, {**MEMBER, "group_instance_id": "i"}]}, "Some of its members are static"),
    ],
)
def test_refusals(change: dict[str, Any], sentence: str) -> None:
    """Goal: a workload that can't be replayed is refused with the reason."""
    with pytest.raises(NotReplayableError, match=f"^{sentence}"):
        workload_of(replace(ROWS, **change))


def requests(*minutes: float, api: str = "HEARTBEAT", lasts: timedelta = timedelta(0)) -> list[dict[str, Any]]:
    """Returns requests of the member at so many minutes after AT."""
    times = [AT + minute * MINUTE for minute in minutes]
    return [{"member_id": "m", "api": api, "happened_at": at, "logged_at": at + lasts} for at in times]


def test_silences() -> None:
    """Goal: a complete request log shows how often members speak, and when one stood still; with a hole, none does."""
    rows = replace(
        ROWS, until=AT + 3 * MINUTE, requests=requests(*(each / 12 for each in range(37) if each not in (20, 21, 22)))
    )
    found = workload_of(rows)
    assert found.actual.heartbeat_ms == 5_000
    ((silence),) = found.silences or ()
    assert (silence.member_id, silence.to_ms - silence.from_ms) == ("m", 20_000)
    holed = replace(rows, requests=requests(*(each / 12 for each in range(37) if not 20 < each < 30)))
    assert workload_of(holed).silences is None
    assert workload_of(ROWS).silences is None


def test_an_answer_that_waited_is_no_silence() -> None:
    """Goal: a member whose JoinGroup was answered late had not stood still."""
    spoke = requests(*(each / 12 for each in range(37) if not 20 < each < 25))
    asked = requests(20 / 12, api="JOIN_GROUP", lasts=timedelta(seconds=20))
    assert workload_of(replace(ROWS, until=AT + 3 * MINUTE, requests=spoke + asked)).silences == ()


def test_paused() -> None:
    """Goal: a member that was removed for its silence and spoke again had only paused; one that did not was gone."""
    left_at = AT + 2 * MINUTE
    gone: dict[str, Any] = {**MEMBER, "left_at": left_at, "leave_cause": "session_expired", "to_offset": 7}
    rows = replace(ROWS, members=[gone], until=AT + 3 * MINUTE)
    before = requests(*(each / 12 for each in range(16)))
    for after, end in (([], "silent"), (requests(1.95), "paused"), (requests(2.5), "paused")):
        found = workload_of(replace(rows, requests=before + after))
        assert [each.end for each in found.tenures] == [end]
        assert len(found.silences or ()) == (end == "paused")


def test_observed() -> None:
    """Goal: increments without a record count, births don't; pauses lie between bounds, or are unknown."""
    birth = {**REBALANCE, "from_generation": 0, "to_generation": 1, "changes": [{"kind": "group_started"}]}
    skipped = {**REBALANCE, "from_generation": 1, "to_generation": 3}
    found = observed_of([birth, skipped, REBALANCE])
    assert found["rebalances"] == Interval(3, 3)
    assert found["partitions_moved"] == Interval(4, 4)
    assert found["stopped_partition_seconds"] == Interval(0.12, 60)
    unknown = {**REBALANCE, "partition_pauses": [{"pause_upper_ms": None}] * 6, "partitions_moved": None}
    found = observed_of([unknown])
    assert (found["partitions_moved"], found["stopped_partition_seconds"]) == (None, None)


@pytest.mark.slow
def test_against_what_happens() -> None:
    """Goal: the ledger of an eager group predicts for static membership and for KIP-848 what the same workload then
    comes to, and so does the ledger of a KIP-848 group for eager members."""
    runs = {name: play(1, name) for name in ("range", "static", "consumer")}
    assert runs["range"].figures()["rebalances"] > 2 * runs["static"].figures()["rebalances"]
    asked = {"range": {"static": "static", "consumer": "consumer"}, "consumer": {"range": "dynamic,range"}}
    for had, settings in asked.items():
        found = predicted(runs[had], [*settings.values()]) or []
        for name, answer in zip(settings, found, strict=True):
            assert answer.refusal is None
            happened = runs[name].figures()
            for figure, came in happened.items():
                interval = answer.figures[figure].asked
                assert interval.low - 0.5 <= came <= interval.high + 0.5, (had, name, figure)
