"""Goal: one fault has one diagnosis, and its harm is counted once, also where episodes of one time overlap."""

from __future__ import annotations

import pytest

from groupledger.schemas.kinds.causes import CAUSES
from groupledger.schemas.kinds.clauses import said
from groupledger.schemas.words import Severity
from tests.transforms.incidents.group_rows import (
    AT,
    EMPTY,
    MINUTE,
    SECOND,
    event,
    found,
    incident,
    lag,
    member,
    request,
    sampled,
)

AWAY = {"owned": False, "owner": None, "group_state": "Empty"}
# Two members left, somebody moved the offsets forward, and two came back and read on.
CAME_BACK = [
    *(member(f"m{n}", -9, -1, "left") for n in (0, 1)),
    *(member(f"n{n}", 0.6, None) for n in (0, 1)),
]
RETURN = sampled(
    *(
        lag(at, n, 50, 60 + round(10 * at), "stopped", no_progress_since=AT - MINUTE, **AWAY)
        for at in (0, 0.5)
        for n in (0, 1)
    ),
    *(lag(0.7, n, 95, 98, "growing", owner=f"n{n}", no_progress_since=AT + 0.7 * MINUTE) for n in (0, 1)),
    *(lag(3, n, 120, 122, "ok", owner=f"n{n}", commit_interval_ms=2_000) for n in (0, 1)),
)
SKIP = incident("offset_skip", severity="warning", evidence="inferred", never_read_max=80, is_open=True)
SKIP |= {"first_seen_at": AT + MINUTE / 2, "last_seen_at": AT + MINUTE / 2, "probable_root": "offset_reset"}
SKIPPED = [event("skipped", "no_member", 0.5, partition=n, records_skipped=40) for n in (0, 1)]


def test_members_that_were_away_do_not_commit_rarely() -> None:
    """Goal: a group that came back to moved offsets has one diagnosis, with the harm, and one that says it catches
    up."""
    first, *others = found(members=CAME_BACK, incidents=[SKIP], offset_events=SKIPPED, **RETURN)
    assert (first["cause"], first["never_read_max"], first["records_behind"]) == ("skipped_at_rest", 80, None)
    assert {each["cause"] for each in others} == {"catching_up", "deploy"}
    assert {each["severity"] for each in others} <= {Severity.INFO}
    assert [each["never_read_max"] for each in others] == [None] * len(others)


def test_a_reset_is_not_the_harm_of_a_refusal() -> None:
    """Goal: a reset, and a client that can't commit soon afterwards, each have their own records."""
    refused = incident("offset_metadata_too_large", episode_id="m", duplicates_min=0, duplicates_max=996)
    back = incident("offset_rewind", severity="warning", evidence="inferred", duplicates_min=80, duplicates_max=80)
    gone = [event("rewound", "no_member", -0.1, records_repeated=80)]
    rounds = sampled(*(lag(at, 0, 50, 90, "stopped", no_progress_since=AT) for at in (0, 3)))
    members = [member("m0", 0, None)]
    first, second = found(members=members, incidents=[refused, back], offset_events=gone, **rounds)
    assert (first["cause"], first["duplicates_min"], first["duplicates_max"]) == ("offset_metadata_too_large", 0, 996)
    assert (second["cause"], second["duplicates_max"]) == ("reset_at_rest", 80)
    assert (first["records_behind"], second["records_behind"]) == (40, None)
    assert "offset_rewind" not in first["kinds"]


def test_a_crash_loop_that_cost_records_stays_an_error() -> None:
    """Goal: where another diagnosis counts the records, the cause of the loss keeps its severity."""
    flapping = incident("member_flapping", severity="warning", evidence="inferred", group_instance_id=None)
    loop = [member("crashy", n / 4, n / 4 + 0.1, "left") for n in range(12)]
    went_back = [event("rewound", "member", 0.3, records_repeated=7)]
    rewound = incident(
        "offset_rewind", episode_id="r", severity="warning", probable_root="handover", duplicates_max=7
    ) | {"first_seen_at": AT + 18 * SECOND, "last_seen_at": AT + 18 * SECOND}
    rounds = sampled(*(lag(at, 0, 50, 50, "ok") for at in (0, 3)))
    first, second = found(members=loop, incidents=[flapping, rewound], offset_events=went_back, **rounds)
    assert (first["cause"], first["severity"], first["duplicates_max"]) == ("crash_loop", "error", None)
    assert (second["cause"], second["duplicates_max"]) == ("new_owner_began_earlier", 7)


@pytest.mark.parametrize("says_it", [True, False])
def test_an_instance_that_fences_itself_is_no_crash_loop(says_it: bool) -> None:
    """Goal: a static member that comes and goes since two processes use its instance id has one diagnosis, since the
    first of its departures. Without a fencing it is a crash loop, counted from the episode on."""
    second = {"group_instance_id": "second", "client_id": "app"}
    loop = [
        member(f"s{n}", joined, left, "replaced", leave_cause_confidence=1.0, **second)
        for n, (joined, left) in enumerate([(-60, 0), (0, 0.3), (0.3, 0.7), (0.7, 1)])
    ]
    flapping = incident("member_flapping", severity="warning", evidence="inferred", is_open=True, **second)
    fenced = incident("fenced_instance", episode_id="f", is_open=True, duplicates_max=4, **second)
    fenced |= {"probable_root": "instance_started_twice", "first_seen_at": AT + SECOND}
    first, *others = found(members=loop, incidents=[flapping, *[fenced] * says_it])
    assert others == []
    if says_it:
        assert (first["cause"], first["since"]) == ("instance_started_twice", AT)
        assert (first["explanation"], first["duplicates_max"]) == ("What fenced_instance says.", 4)
        assert first["episode_ids"] == ["e", "f"]
    else:
        assert first["cause"] == "crash_loop"
        assert "4 times within 60 s" in first["explanation"]


def test_a_rebalance_has_one_cause() -> None:
    """Goal: a rebalance that does not end, while a log says why, is no second trouble, and its incident is kept."""
    first, last = AT, AT + MINUTE
    failed = incident(
        "assignment_not_stored", probable_root="assignment_too_large", first_seen_at=first, last_seen_at=last
    )
    stuck = incident("rebalance_stuck", episode_id="s", evidence="inferred", confidence=0.95)
    stuck |= {"first_seen_at": first + SECOND, "last_seen_at": last - SECOND}
    (only,) = found(incidents=[failed, stuck])
    assert (only["cause"], only["episode_ids"]) == ("assignment_too_large", ["e", "s"])
    guess = failed | {"evidence": "inferred"}
    assert len(found(incidents=[guess, stuck])) == 2


def test_who_was_removed_by_an_administrator() -> None:
    members = [member("m0", -9, None), member("m1", -9, 0.5, "admin_removed", leave_cause_confidence=1.0)]
    (only,) = [each for each in found(members=members) if each["cause"] == "removed_by_administrator"]
    assert (only["client_id"], only["explanation"]) == (
        "m1",
        "An administrator removed m1 at 10.0.0.2 from the group.",
    )


@pytest.mark.parametrize(("kind", "source"), [("open_transaction_in_topic", "samples"), ("offset_skip", "topic")])
def test_what_shows_a_cause(kind: str, source: str) -> None:
    """Goal: a last stable offset is in samples alone; the topic of offsets has none."""
    waits = incident(kind, evidence="inferred", confidence=0.95)
    events = [event("skipped", "no_member", records_skipped=4)] if kind == "offset_skip" else []
    (only,) = found(incidents=[waits], offset_events=events)
    assert only["sources"] == [source]


def test_a_last_member_without_a_name() -> None:
    """Goal: where the last member has no name, the sentence has no place for one."""
    cause = next(each for each in CAUSES if each.name == "members_left")
    assert said(cause.happened, ()).format(last="") == "The group's last member left by itself."
    (first, *_) = found(members=[member("m0", -9, -1, "left")], **EMPTY)
    assert first["explanation"].startswith("The group's last member, m0 at 10.0.0.2, left by itself.")


def test_a_group_without_members_is_in_trouble_since_they_left() -> None:
    """Goal: lag that grew before the members left does not let their departure begin earlier."""
    members = [member(f"m{n}", -60, 0, "left") for n in (0, 1)]
    growing = [lag(at, 0, 50, 90, "growing", no_progress_since=AT - 20 * MINUTE) for at in (-20, -10)]
    gone = [lag(at, 0, 50, 90, "stopped", no_progress_since=AT - 20 * MINUTE, **AWAY) for at in (1, 3)]
    (trouble,) = found(members=members, **sampled(*growing, *gone))
    assert (trouble["cause"], trouble["since"], trouble["until"]) == ("scaled_to_zero", AT, None)


@pytest.mark.parametrize("deleted", [True, False])
def test_trouble_ends_with_the_group(*, deleted: bool) -> None:
    """Goal: what was wrong with a group in its last round does not go on once the group is deleted."""
    events = [event("group_deleted", "delete_request", 9)] if deleted else []
    diagnosed = found(members=[member("m0", -60, 0, "left")], offset_events=events, **EMPTY)
    (trouble,) = (each for each in diagnosed if each["symptom"] != "group_gone")
    assert (trouble["until"] is None) == (not deleted)


def test_lag_is_that_of_the_last_round() -> None:
    """Goal: where one diagnosis stands for two times, its lag is that of the later one, although it was less."""
    rounds = [lag(at, 0, 50, 150, "stopped", no_progress_since=AT, **AWAY) for at in (0.5, 2)]
    rounds += [lag(2.6, 0, 120, 150, "ok", **AWAY)]
    rounds += [lag(at, 0, 120, 150, "stopped", no_progress_since=AT + 3 * MINUTE, **AWAY) for at in (3.2, 5)]
    (only,) = found(members=[member("m0", -9, 0, "left")], **sampled(*rounds))
    assert (only["since"], only["last_seen_at"], only["records_behind"]) == (AT, AT + 5 * MINUTE, 30)


def test_what_a_cause_explains() -> None:
    """Goal: another process with a member's id is one diagnosis: the rewinds of its commits are not counted as two
    committers beside it. Without its requests they are."""
    rewinds = incident("two_committers", evidence="inferred", duplicates_max=40, is_open=True)
    back = event("rewound", "member", records_repeated=60)
    from_two = [request("m", client_host=host) for host in ("1", "2")]
    (only,) = found(incidents=[rewinds], offset_events=[back], requests=from_two)
    assert (only["cause"], only["duplicates_max"], only["until"]) == ("speaks_in_anothers_name", 60, None)
    assert only["episode_ids"] == ["e"]
    assert "two_committers" in {each["cause"] for each in found(incidents=[rewinds], offset_events=[back])}
