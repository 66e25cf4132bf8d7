"""Goal: if signs do not decide between causes, all of these are named with the evidence that would distinguish them,
and nothing is said that rows do not show."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.kinds import signs
from groupledger.schemas.kinds.signs import COMPUTED_SIGNS
from groupledger.transforms.history.rules.departures import with_logged_causes
from groupledger.transforms.incidents.diagnosis import diagnose
from groupledger.transforms.incidents.diagnosis.commit_rhythm import with_poll_timeouts
from tests.transforms.incidents.group_rows import (
    AT,
    EMPTY,
    HANGING,
    LOOP,
    MEMBERS,
    MINUTE,
    NEW_INSTANCES,
    RESTARTS,
    SECOND,
    STOPPED,
    STORM,
    by_clock,
    event,
    found,
    generation,
    in_transactions,
    incident,
    lag,
    line,
    member,
    owner,
    request,
    sampled,
    throttled,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_kind_of_a_newer_release() -> None:
    """Goal: an incident whose kind this release does not know has no diagnosis, and prevents no other."""
    assert found(incidents=[incident("offset_teleported")]) == []
    (other,) = found(incidents=[incident("offset_teleported", episode_id="t"), incident("fenced_instance")])
    assert other["symptom"] == "request_refused"


def test_who_came_and_went() -> None:
    """Goal: a crash loop says who, where, how often, since when and at what harm; the storm goes with it."""
    flapping = incident("member_flapping", evidence="inferred", severity="warning", episode_id="f", is_open=True)
    flapping["group_instance_id"] = None
    assignments = [
        {
            "topic": "t",
            "partition": 0,
            "member_id": "crashy",
            "valid_from": row["joined_at"],
            "valid_to": row["left_at"],
        }
        for row in LOOP
    ]
    for row in (flapping, STORM):
        row["last_seen_at"] = AT + 3 * MINUTE
    (first,) = found(incidents=[STORM, flapping], members=LOOP, assignments=assignments)
    assert first["explanation"].startswith(
        "crashy at 10.0.0.6 joined and went away 12 times within 171 s: each time it left in order,"
    )
    assert (first["severity"], first["since"], first["until"]) == ("error", AT, None)
    assert first["unowned_partition_seconds"] == 11 * 9
    assert (first["kinds"], first["episode_ids"]) == (["member_flapping", "rebalance_storm"], ["e", "f"])


@pytest.mark.parametrize(("lengths", "cause"), [((10, 10.2, 10.1), "poll_timeout"), ((10, 25, 40), "crash_loop")])
def test_tenures_as_long_as_the_poll_interval(lengths: tuple[float, ...], cause: str) -> None:
    """Goal: a member that leaves each time when its poll interval is over did not poll in time, also if no log says
    so."""
    tenures = [
        member("slow", n / 2, n / 2 + each / 60, "left", leave_cause_confidence=0.5, rebalance_timeout_ms=10_000)
        for n, each in enumerate(lengths)
    ]
    (first, *_) = found(incidents=[STORM], members=tenures)
    assert first["cause"] == cause
    assert ("max.poll.records" in (first["setting_to_change"] or "")) == (cause == "poll_timeout")


def test_many_of_one_name_are_not_one_that_comes_and_goes() -> None:
    """Goal: processes of one client id on one host that are each restarted once are a deployment. A group
    that has the cooperative assignor is not asked to take it."""
    members = [member("pod", -9, 0.1 * n, "left") for n in range(4)] + [member("pod", 0.1 * n, None) for n in range(4)]
    (eager,) = found(incidents=[STORM], members=members)
    assert (eager["cause"], "cooperative-sticky" in eager["setting_to_change"]) == ("deploy", True)
    (has_it,) = found(incidents=[STORM], members=members, generations=[generation(4, protocol="cooperative-sticky")])
    assert (has_it["cause"], has_it["setting_to_change"]) == ("deploy", "group.instance.id")
    (connect,) = found(incidents=[STORM], members=members, generations=[generation(4, protocol_type="connect")])
    assert "assignment.strategy" not in (connect["setting_to_change"] or "")


def test_what_the_server_log_says_wins() -> None:
    """Goal: a member that the history guesses to have left, and that the log says expired, expired."""
    guess = [member("raw-1", -9, -2, "left", leave_cause_confidence=0.5)]
    (before,) = found(members=guess, **EMPTY)
    assert before["cause"] is None
    assert before["explanation"].endswith("40 records wait, most of them in orders 0.")
    assert {"members_left", "scaled_to_zero", "members_expired"} <= {each["cause"] for each in before["rivals"]}
    lines = [line("member_failed", "raw-1", -2.1)]
    (after,) = found(members=with_logged_causes(guess, lines), events=lines, **EMPTY)
    assert (after["cause"], after["since"]) == ("members_expired", AT - 2 * MINUTE)
    assert "raw-1" in after["explanation"]
    assert "40 records wait, and nobody reads them." in after["explanation"]


def test_a_poll_timeout_is_no_fact_without_a_log() -> None:
    kind = incident("poll_timeout", evidence="inferred", confidence=0.5, severity="warning")
    gone = [member("m0", -9, 0.5, "left_poll_timeout", leave_cause_confidence=0.5)]
    (guess,) = found(incidents=[kind], members=gone)
    assert guess["cause"] is None
    assert {"poll_timeout", "session_timeout"} <= {each["cause"] for each in guess["rivals"]}
    assert all(each["told_apart_by"] for each in guess["rivals"])
    lines = [line("member_left", "m0", 0.4) | {"client_reason": "consumer poll timeout has expired."}]
    (fact,) = found(
        incidents=[kind | {"evidence": "observed", "confidence": 1.0}],
        members=with_logged_causes(gone, lines),
        events=lines,
    )
    assert (fact["cause"], fact["evidence"], fact["confidence"]) == ("poll_timeout", "observed", 1.0)


@pytest.mark.parametrize(
    ("rows", "rivals"),
    [
        (
            {"offset_events": [event("deleted", "delete_request_or_topic")]},
            {"offsets_deleted", "topic_deleted"},
        ),
        (
            {
                "incidents": [incident("rebalance_stuck")],
                **sampled(*(lag(at, 0, 50, 90, "rebalancing", group_state="CompletingRebalance") for at in (0, 1))),
            },
            {"leader_sends_no_assignment"},
        ),
        (
            {
                "offset_events": [event("deleted", "delete_request_or_topic")],
                "requests": [request("m0", api="OFFSET_DELETE")],
            },
            {"offsets_deleted", "topic_deleted"},
        ),
        (
            {"incidents": [incident("partition_not_read", confidence=0.5, severity="info", never_read_max=9)]},
            {"new_partition_read_from_latest"},
        ),
        # Who begins at the end of a log commits nothing until something is written.
        (
            {"members": MEMBERS, **sampled(*(lag(at, 0, 0, 90, "no_commit") for at in (0, 3)))},
            {"never_commits", "waits_for_first_record"},
        ),
        ({"members": MEMBERS, **STOPPED}, {"alive_and_not_polling", "polls_without_commit", "retries_one_record"}),
        (  # another owner went on
            {
                "members": MEMBERS,
                **sampled(
                    *(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - MINUTE) for at in (0, 3)),
                    lag(3.2, 0, 60, 91, "ok", owner="m1"),
                ),
            },
            {"alive_and_not_polling", "polls_without_commit"},
        ),
        # Nobody knows whether the first client leaves when it does not poll; the second one has time left.
        (
            {"members": MEMBERS, "requests": [request("m0", 2.8, client_software_name="sarama")], **STOPPED},
            {"alive_and_not_polling", "polls_without_commit"},
        ),
        (
            {
                "members": [member("m0", -9, None, rebalance_timeout_ms=600_000)],
                "requests": [request("m0", 2.8)],
                **STOPPED,
            },
            {"alive_and_not_polling", "polls_without_commit"},
        ),
    ],
)
def test_what_rows_do_not_distinguish_stays_open(rows: dict[str, Any], rivals: set[str]) -> None:
    (first,) = found(**rows)
    assert first["cause"] is None
    assert rivals <= {each["cause"] for each in first["rivals"]}


@pytest.mark.parametrize(
    "commits",
    [
        by_clock("m0", client_software_name="librdkafka"),  # it commits nothing while nothing advances
        by_clock("m0", 2.7),
        [request("m0", minutes, api="OFFSET_COMMIT") for minutes in range(-20, 0)][::3],
        [request("m0", -n * n / 30, api="OFFSET_COMMIT") for n in range(20)],  # after each batch, whenever it ends
    ],
)
def test_a_member_may_poll_that_commits_nothing(commits: list[dict[str, Any]]) -> None:
    (first,) = found(members=HANGING, requests=[*commits, request("m0", 2.8)], **STOPPED)
    assert first["cause"] is None


@pytest.mark.parametrize(("seconds", "sure"), [(55, 0.7), (62, 0.85), (79, 0.85), (90, 0.7)])
def test_who_leaves_when_its_interval_is_over(seconds: int, sure: float) -> None:
    """Goal: a member that leaves without a reason, a minute after its last regular commit, had not polled; a member
    that leaves sooner or later was closed."""
    gone = [member("m0", -9, seconds / 60, "left_poll_timeout", leave_cause_confidence=0.7)]
    (row,) = with_poll_timeouts(gone, by_clock("m0", client_software_name="librdkafka"))
    assert (row["leave_cause"], row["leave_cause_confidence"]) == ("left_poll_timeout", sure)


def test_a_partition_that_stands_is_not_one_that_waits_for_its_turn() -> None:
    """Goal: a consumer at the end of its other partitions has no backlog there that it works off first."""
    stands = [lag(at, 0, 50, 390, "stalled", no_progress_since=AT - MINUTE) for at in (0, 3)]
    others = [lag(at, 1, 50 + 99 * at, 50 + 99 * at, "ok", owner="m0", lag_seconds=1) for at in (0, 3)]
    assert [each["cause"] for each in found(members=MEMBERS, **sampled(*stands, *others))] == [
        "commits_one_offset_again"
    ]


def test_what_is_soon_over_is_no_cause() -> None:
    """Goal: a transaction of a few seconds, a burst, and a group that has not committed yet are no trouble."""
    short = {"no_progress_since": AT - timedelta(seconds=5)}
    assert found(members=MEMBERS, **sampled(lag(0, 0, 0, 90, "no_commit", committed_offset=None))) == []
    wait = lag(0, 0, 50, 90, "waiting_for_transaction", last_stable_offset=50, **short)
    assert found(members=MEMBERS, **sampled(wait)) == []
    burst = sampled(*(lag(at, n, 50 + round(at), 90 + round(90 * at), "growing") for at in (0, 0.4) for n in (0, 1, 2)))
    assert found(members=MEMBERS, **burst) == []


MILD_GAP = incident("commit_gap", evidence="inferred", severity="info", group_instance_id=None)


@pytest.mark.parametrize("incidents", [[], [MILD_GAP]])
def test_rivals_of_a_group_that_stands_still(incidents: list[dict[str, Any]]) -> None:
    """Goal: samples alone do not say whether a process hangs or does not commit; a mild incident beside it makes what
    waits no milder."""
    (first,) = found(incidents=incidents, members=MEMBERS, **STOPPED)
    assert first["severity"] == "warning"
    assert first["cause"] is None
    assert [each["cause"] for each in first["rivals"]][:2] == ["alive_and_not_polling", "polls_without_commit"]
    assert (first["since"], first["records_behind"]) == (AT - MINUTE, 40)


def test_nobody_well_is_blamed() -> None:
    """Goal: lag that is worked off, and mild incidents, are no diagnosis."""
    rounds = sampled(*(lag(at, 0, 50 + 40 * at, 90 + 40 * at, "ok") for at in (0, 1)))
    assert found(incidents=[incident("leader_never_synced", severity="info")], members=MEMBERS, **rounds) == []


@pytest.mark.parametrize(
    ("cause", "members"),
    [
        ("deploy", RESTARTS),
        ("scaling", [member("m0", -9, None), member("m1", 0.5, None)]),
        ("scaling", [member("m0", -9, None), member("m1", -9, 0.5, "left")]),
        ("scaled_to_zero", [member("m0", -9, 0.5, "left"), member("m1", -9, 0.6, "left")]),
        ("two_applications", [member("m0", -9, None), member("m1", 0.5, None, subscribed_topics=["bills"])]),
        (  # an autoscaler adds members and takes them away, each of them another one
            "scaling",
            [member("m0", -9, None), *(member(f"m{n}-{k}", n, n + 0.5, "left") for n in (1, 2, 3) for k in (1, 2))],
        ),
        (None, [member("m0", -9, None), member("m1", -8.8, None)]),
        (None, [member("m0", -9, 0.5, "session_expired"), member("m1", -9, None)]),
        (None, LOOP),
    ],
)
def test_a_change_of_members_is_no_trouble(cause: str | None, members: list[dict[str, Any]]) -> None:
    """Goal: a deployment is shown to those who ask, and is no alarm; the start of a group is no change of members."""
    causes = {each["cause"]: each["severity"] for each in found(members=members)}
    assert causes.get(cause) == (None if cause is None else "info")
    assert {*causes.values()} <= {"info"}


def test_what_was_well_in_between_is_not_one_time() -> None:
    """Goal: a group that had not committed yet and, a minute later, has a burst, was never behind."""
    start = lag(0, 0, 0, 90, "no_commit", committed_offset=None)
    well = [lag(at / 10, 0, 80, 90, "ok") for at in range(1, 11)]
    assert found(members=MEMBERS, **sampled(start, *well, lag(1.1, 0, 80, 120, "growing"))) == []


def test_generations_that_form_wait_for_nobody() -> None:
    stuck = sampled(*(lag(at, 0, 50, 90, "rebalancing", group_state="PreparingRebalance") for at in (0, 1)))
    lines = [line("stabilized", minutes=at) for at in (0.2, 0.4)]
    assert "waits_for_member" not in [
        each["cause"] for each in found(incidents=[incident("rebalance_stuck")], events=lines, **stuck)
    ]


@pytest.mark.parametrize(
    ("unseen", "owned", "causes"),
    [
        ({"gone"}, ["orders"], ["one_topic_missing"]),
        ({"gone"}, ["orders", "gone"], []),  # it is there, whatever a sample says
        (set(), ["orders"], []),
        ({"gone"}, [], []),
    ],
)
def test_one_of_several_topics_is_not_there(unseen: set[str], owned: list[str], causes: list[str]) -> None:
    """Goal: a group that reads some of its topics gets a note on the one that does not exist, without alarm."""
    members = [member("m0", -9, None, subscribed_topics=["orders", "gone"])]
    rows = {"assignments": [owner("m0", -9) | {"topic": topic} for topic in owned]}
    reported = found(members=members, **rows, **sampled(lag(0, 0, 90, 90, "ok")), unseen_topics=lambda _: unseen)
    assert [each["cause"] for each in reported] == causes
    for each in reported:
        assert (each["severity"], "no topic gone, to which" in each["explanation"]) == ("info", True)


def test_an_incident_without_alarm_does_not_say_what_happened() -> None:
    """Goal: if no cause is known, the text of an incident that alarms nobody does not take its place."""
    guess = incident("coordinator_failed", severity="info", evidence="inferred", confidence=0.7)
    standing = sampled(*(lag(at, 0, 50, 90, "stopped", no_progress_since=AT) for at in (0, 3)))
    (first, *_) = found(incidents=[guess], members=MEMBERS, **standing)
    assert first["cause"] is None
    assert "coordinator" not in first["explanation"]


def test_one_who_never_got_in_did_not_fall_silent() -> None:
    """Goal: a line about somebody who was in no generation proves no expired session, and names nobody."""
    kind = incident("session_expired", evidence="logged", confidence=0.8, member_id="m9")
    (first,) = found(incidents=[kind], members=MEMBERS)
    assert (first["cause"], first["client_id"]) == (None, None)


@pytest.mark.parametrize(("moved", "cause"), [(0.4, "coordinator_moved"), (0.6, "session_timeout")])
def test_what_comes_later_is_no_cause(moved: float, cause: str) -> None:
    """Goal: a broker that unloads the group after a session has expired did not end that session."""
    gone = [member("m0", -9, 0.5, "session_expired")]
    rows = {"members": gone, "generations": [generation(2, started_at=AT - 9 * MINUTE)]}
    (first, *_) = found(incidents=[incident("session_expired")], events=[line("group_unloaded", minutes=moved)], **rows)
    assert first["cause"] == cause


def test_advice_fits_a_group_of_kip_848() -> None:
    (first,) = found(group_type="consumer", incidents=[STORM], members=LOOP)
    assert "Members that keep their partitions continue to process." in first["explanation"]
    assert "strategy" not in f"{first['advice']} {first['setting_to_change']}"


def test_a_loop_that_ends_at_the_same_offsets() -> None:
    """Goal: for a member that ends at a record and is restarted, the advice is to look at the record, and not to change
    a setting for shorter restarts."""
    stopped = [owner("m0", -5), owner("m1", 1)]
    killed = [row | {"leave_cause": "session_expired"} for row in LOOP]
    for assignments, is_at_record in (([], False), (stopped, True)):
        (first, *_) = found(incidents=[STORM], members=killed, assignments=assignments, **STOPPED)
        assert first["cause"] == "crash_loop"
        assert ("at the committed offsets" in first["advice"]) == is_at_record
        assert (first["setting_to_change"] is None) == is_at_record


SLOW = [member("slow", n, n + 0.4, "left_poll_timeout") for n in (0, 0.5, 1)]


def test_a_member_that_is_too_slow_again_and_again_is_not_restarted() -> None:
    """Goal: for a member that lives and leaves each time for its poll interval, the advice is about the settings of
    polls; if no log says so, the advice names both."""
    lines = [
        line("member_left", "slow", n + 0.4) | {"client_reason": "consumer poll timeout has expired."}
        for n in (0, 0.5, 1)
    ]
    gone = with_logged_causes(SLOW, lines)
    (first, *_) = found(incidents=[STORM], members=gone, events=lines)
    assert (first["cause"], first["beside"]) == ("poll_timeout", ["crash_loop"])
    assert first["setting_to_change"] == "max.poll.interval.ms, max.poll.records"
    unsure = [row | {"leave_cause_confidence": 0.5} for row in SLOW]
    (first, *_) = found(incidents=[STORM], members=unsure)
    assert first["cause"] == "crash_loop"
    assert "max.poll.interval.ms" in first["advice"]
    assert first["setting_to_change"] is None


def rebalancing(*minutes: float, **fields: Any) -> dict[str, Any]:
    """Rounds in which the broker said that the group was in a rebalance."""
    state = {"group_state": "PreparingRebalance"} | fields
    return sampled(*(lag(at, n, 50, 90 + round(at), "rebalancing", **state) for at in minutes for n in (0, 1)))


@pytest.mark.parametrize(("others", "who"), [([], "m0"), ([member("m1", -9, None)], None)])
def test_a_rebalance_that_lasts_waits_for_a_member(others: list[dict[str, Any]], who: str | None) -> None:
    """Goal: a rebalance of two minutes is reported while it lasts, and with the member, if there can only be one."""
    (first,) = found(members=[member("m0", -9, None), *others], **rebalancing(0, 1, 2.5))
    assert (first["cause"], first["severity"], first["client_id"]) == ("waits_for_member", "error", who)
    assert ("m0 at 10.0.0.2 does not rejoin" in first["explanation"]) == (who is not None)
    assert first["records_behind"] == 84


def test_a_rebalance_may_wait_for_a_static_member_that_is_gone() -> None:
    """Goal: with static members, the advice is not only to stop a process that hangs: the process may have been
    closed."""
    (static,) = found(members=[member("m0", -9, None, group_instance_id="pod-0")], **rebalancing(0, 1, 2.5))
    (dynamic,) = found(members=[member("m0", -9, None)], **rebalancing(0, 1, 2.5))
    assert "removeMembersFromConsumerGroup" in static["advice"]
    assert "static" not in dynamic["advice"]


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ({}, {"instances_replaced"}),
        ({"group_instance_id": "pod-0"}, {"deploy"}),  # one id came again
        ({"group_instance_id": None}, {"deploy"}),
    ],
)
def test_instance_ids_that_change_with_each_start(change: dict[str, Any], causes: set[str]) -> None:
    """Goal: a deployment after which no instance id is the same is reported so; one that keeps an id is a
    deployment."""
    gone, (first, second) = NEW_INSTANCES[:2], NEW_INSTANCES[2:]
    rows = [*gone, first | {"client_id": "old-0"} | change, second | {"client_id": "old-1"}]
    assert {each["cause"] for each in found(members=rows)} == causes


@pytest.mark.parametrize(
    "rows",
    [
        rebalancing(0, 1),
        {"generations": [generation(2, started_at=AT + MINUTE)], **rebalancing(0, 1, 2.5)},
        rebalancing(0, 1, 2.5, group_state="Reconciling"),
    ],
)
def test_rebalances_that_end_wait_for_nobody(rows: dict[str, Any]) -> None:
    assert found(members=MEMBERS, **rows) == []


def test_an_owner_that_is_too_slow_everywhere_stops_at_no_record() -> None:
    """Goal: if all partitions stand still under every owner, no single record is to blame."""
    owners = [owner(name, at) | {"partition": n} for name, at in (("m0", -5), ("m1", 1)) for n in (0, 1)]
    stands = [lag(at, n, 50, 90, "stopped", no_progress_since=AT - MINUTE) for at in (0, 3) for n in (0, 1)]
    (first,) = found(members=MEMBERS, assignments=owners, **sampled(*stands))
    assert first["cause"] is None
    assert "one_record_stops_every_owner" not in first["beside"]
    goes_on = [lag(at, 2, 50 + 9 * round(at), 90, "ok") for at in (0, 3)]
    (first,) = found(members=MEMBERS, assignments=owners, **sampled(*stands, *goes_on))
    assert first["cause"] == "one_record_stops_every_owner"


def runs(*begun: float, minutes: float = 1, cause: str = "left") -> list[dict[str, Any]]:
    return [member("job", each, each + minutes, cause) for each in begun]


@pytest.mark.parametrize(
    ("tenures", "stands_since", "cause"),
    [
        (runs(-30, -20, -10), -8, "job_between_runs"),
        (runs(-10, 4.5, 19), -8, "job_between_runs"),  # as its later runs show
        (runs(-40, -30, -20), -18, "members_left"),  # it is overdue
        (runs(-20, -10), -8, "members_left"),
        (runs(-30, -20, -10), -25, "members_left"),  # its last runs did not get on
        (runs(-12, -11.5, -10), -9, "members_left"),  # it is started again at once
        (runs(-30, -20, -10, cause="session_expired"), -8, "members_expired"),
    ],
)
def test_a_job_between_two_runs_is_well(tenures: list[dict[str, Any]], stands_since: float, cause: str) -> None:
    """Goal: lag that waits for a job's next run is no alarm, and a job that does not come is one."""
    away = {"owned": None, "owner": None, "group_state": "Empty", "no_progress_since": AT + stands_since * MINUTE}
    rounds = sampled(*(lag(at, 0, 50, 90, "stopped", **away) for at in (0, 3)))
    (first, *_) = found(members=tenures[-1:], tenures=tenures, **rounds)
    assert first["cause"] == cause
    assert (first["severity"] == "info") == (cause == "job_between_runs")


def test_the_most_harmful_comes_first() -> None:
    lost = [event("lost_to_retention", "log_start", 30, records_skipped=9)]
    grave = found(incidents=[STORM], members=LOOP, offset_events=[*lost, event("topic_deleted", "topic_deletion", 50)])
    assert [each["cause"] for each in grave] == ["passed_by_retention", "crash_loop", "topic_deleted"]
    assert [each["severity"] for each in grave] == ["error", "error", "info"]


def test_every_computed_sign_has_a_rule() -> None:
    """Goal: no sign of the table is looked for in vain: rows say it by their words, or a rule names it."""
    text = "".join(path.read_text() for path in Path(diagnose.__file__).parent.glob("*.py"))
    computed = {
        name
        for name, sign in vars(signs).items()
        if sign in COMPUTED_SIGNS and not (sign.events or sign.flags or sign.statuses)
    }
    assert {name for name in computed if not re.search(rf"\b{name}\b", text)} == set()


@pytest.mark.parametrize(
    "fetches",
    [throttled(share=0.3), throttled("another"), throttled(host="10.0.0.9")],
    ids=["now and then", "another client", "another host"],
)
def test_a_quota_is_a_rival_where_it_holds_up_nobody_for_long(fetches: Callable[..., list[dict[str, Any]]]) -> None:
    """Goal: a client that a quota holds up in bursts, or a namesake of the client, proves nothing."""
    rows = sampled(*(lag(at, n, 50 + at, 90 + 9 * at, "growing") for at in (0, 3) for n in (0, 1, 2)))
    (only,) = found(members=MEMBERS, throttled=fetches, **rows)
    assert only["cause"] == "slower_than_producers"
    assert "client_quota" not in only["beside"]


@pytest.mark.parametrize(
    "sent",
    [in_transactions(60, 70, 80), in_transactions(60, 60, apart=SECOND), in_transactions(40, 40, 40)],
    ids=["one that is open", "a retry", "of what is committed"],
)
def test_offsets_in_transactions_prove_no_rollback_by_themselves(sent: Callable[..., list[dict[str, Any]]]) -> None:
    """Goal: only offsets that are sent again, for a while, after the committed one prove that they were rolled back."""
    (only,) = found(members=HANGING, offsets_in_transactions=sent, **STOPPED)
    assert only["cause"] is None
    assert "transactions_rolled_back" in {each["cause"] for each in only["rivals"]}


def test_a_rollback_is_no_silence() -> None:
    """Goal: with the request log, a member that sends offsets in transactions that are rolled back is not said to
    commit nothing; without the log, that is one of the remaining causes; and with a log without such requests it is
    not."""
    polled = [request("m0", n / 6) for n in range(18)]
    hangs = [member("m0", -9, None, rebalance_timeout_ms=60_000)]
    sent = [request("m0", n / 2, api="TXN_OFFSET_COMMIT") for n in range(6)]
    stopped = sampled(*(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - 5 * MINUTE) for at in (0, 3)))
    (only,) = found(
        members=hangs, requests=[*polled, *sent], offsets_in_transactions=in_transactions(60, 60), **stopped
    )
    assert (only["cause"], only["evidence"], only["sources"]) == (
        *("transactions_rolled_back", "observed"),
        ["request log", "samples", "topic"],
    )
    (only,) = found(members=hangs, **stopped)
    assert only["cause"] is None
    assert "transactions_rolled_back" in {each["cause"] for each in only["rivals"]}
    (only,) = found(members=hangs, requests=polled, **stopped)
    assert only["cause"] == "polls_without_commit"
    assert "transactions_rolled_back" not in only["beside"]


@pytest.mark.parametrize(("is_open", "severity"), [(True, "error"), (False, "info")], ids=["open", "over"])
def test_a_diagnosis_is_no_milder_than_an_open_incident_that_it_covers(is_open: bool, severity: str) -> None:
    """Goal: a diagnosis in place of an incident that is still open has the alarm of the incident."""
    given = incident("group_without_members", severity="error", evidence="inferred", is_open=is_open)
    rows = sampled(*(lag(at, 0, 50 + 20 * at, 120 + at, "growing") for at in (0, 1, 2)))
    (only,) = found(incidents=[given], members=[member("m0", -1, None)], **rows)
    assert (only["cause"], only["kinds"], only["severity"]) == ("catching_up", ["group_without_members"], severity)


def test_pace_is_of_the_owner() -> None:
    """Goal: a cause of lag names the owner of the partition that lags most, and not a member that an incident of that
    time is about."""
    gone = incident(
        "session_expired", evidence="inferred", confidence=0.85, client_id="another", client_host="10.9.9.9"
    )
    rows = sampled(*(lag(at, n, 50 + at, 90 + 9 * at, "growing") for at in (0, 3) for n in (0, 1, 2)))
    every = found(members=MEMBERS, incidents=[gone], throttled=throttled(), **rows)
    (quota,) = [each for each in every if each["cause"] == "client_quota"]
    assert quota["client_id"] == "pod-0"
    assert "fetches of pod-0 at 10.0.0.1" in quota["explanation"]


def test_a_fenced_epoch_is_no_removal() -> None:
    """Goal: the coordinator refuses an epoch of a member that it has: nothing says that it had removed it."""
    (only,) = found(
        group_type="consumer", members=[member("m0", -9, None)], incidents=[incident("fenced_member_epoch")]
    )
    assert only["cause"] == "went_on_after_removal"
    assert "removed" not in only["explanation"] + only["advice"]


@pytest.mark.parametrize("of_type", ["streams", "classic"])
def test_streams_is_not_told_to_commit(of_type: str) -> None:
    """Goal: Kafka Streams, by either protocol, commits by itself and refuses enable.auto.commit."""
    rows = sampled(*(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - 5 * MINUTE) for at in (0, 3)))
    (only,) = found(
        group_type=of_type,
        generations=[generation(4, protocol="stream" if of_type == "classic" else None)],
        members=[member("m0", -9, None)],
        requests=[request("m0", n / 6) for n in range(18)],
        **rows,
    )
    assert (only["cause"], only["setting_to_change"]) == ("polls_without_commit", None)
    assert "enable.auto.commit" not in only["advice"]
    assert "its tasks may restore their state" in only["advice"]


@pytest.mark.parametrize(
    "first",
    [("unknown", 85), ("growing", 88)],
    ids=["an end that is older than the commit's round", "a few records more"],
)
def test_producers_that_are_not_faster(first: tuple[str, int]) -> None:
    """Goal: nobody is told to add members because of a stale sample, or of records between two commits."""
    status, end = first
    rows = sampled(lag(0, 0, 80, end, status), lag(0.1, 0, 80, 90, "growing"), lag(3, 0, 110, 120, "growing"))
    assert "slower_than_producers" not in {each["cause"] for each in found(members=MEMBERS, **rows)}


def test_a_process_that_leaves_in_order_needs_no_instance_id() -> None:
    """Goal: a setting that would only hide why a process ends is named only where it ended without leaving."""
    (left,) = found(incidents=[STORM], members=LOOP)
    assert "each time it left in order" in left["explanation"]
    assert (left["cause"], left["setting_to_change"]) == ("crash_loop", None)
    assert "supervisor" in left["advice"]
    assert "group.instance.id" not in left["advice"]
    killed = [row | {"leave_cause": "session_expired"} for row in LOOP]
    (expired,) = found(incidents=[STORM], members=killed)
    assert (expired["cause"], expired["setting_to_change"]) == ("crash_loop", "group.instance.id")


def spoken_for() -> list[dict[str, Any]]:
    return [request("m0", 0.5), request("m0", 0.6, client_host="10.0.0.7"), request("m1", 0.6)]


def test_the_hosts_that_speak_for_a_member() -> None:
    """Goal: the member and both hosts are named; two committers that only the records suggest are the same trouble,
    which is open as long as either."""
    turns = incident("two_committers", evidence="inferred", severity="warning", confidence=0.9, is_open=True)
    turns |= dict.fromkeys(("member_id", "client_id", "client_host", "group_instance_id"))
    moved = [event("rewound", "member", n / 10, records_repeated=5) for n in range(4)]
    (only,) = found(incidents=[turns], members=MEMBERS, requests=spoken_for(), offset_events=moved)
    assert (only["cause"], only["until"]) == ("speaks_in_anothers_name", None)
    assert only["explanation"].startswith(
        "Requests with the member id of m0 at 10.0.0.2 came from /10.0.0.1 and 10.0.0.7:"
    )
    assert "two_committers" in only["kinds"]


def test_when_a_session_ends() -> None:
    """Goal: the length of a silent static member's session is said where the records have it, and its end where the
    request log has the member's last request."""
    away = member("m0", -9, None, group_instance_id="pod-0", session_timeout_ms=240_000)
    others = [request("m1", 2.9)]
    (known,) = found(members=[away, *MEMBERS[1:]], requests=[request("m0", 0.1), *others], **STOPPED)
    assert known["cause"] == "static_member_away"
    assert "until its session of 240 s expires, at about 2026-01-01T12:04:06.000Z." in known["explanation"]
    (unheard,) = found(members=[away, *MEMBERS[1:]], requests=others, **STOPPED)
    assert "until its session of 240 s expires." in unheard["explanation"]
    del away["session_timeout_ms"]
    (neither,) = found(members=[away, *MEMBERS[1:]], requests=others, **STOPPED)
    assert "until its session expires." in neither["explanation"]
