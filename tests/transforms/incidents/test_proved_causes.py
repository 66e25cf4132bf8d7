"""Goal: each cause that can be proved is the diagnosis where its signs are, and no other is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.transforms.incidents.group_rows import (
    AT,
    BY_INCIDENT,
    EMPTY,
    FOLLOW_UP,
    HANGING,
    LINES,
    LOOP,
    MEMBERS,
    MINUTE,
    NEW_INSTANCES,
    NOT_STORED,
    RESTARTS,
    STOPPED,
    STORM,
    UNREAD,
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
    rebalance,
    request,
    sampled,
    throttled,
)


@pytest.mark.parametrize(
    ("cause", "rows"),
    [
        ("coordinator_moved", {"incidents": [incident("session_expired", probable_root="coordinator_failover")]}),
        (
            "offsets_topic_unavailable",
            {"incidents": [incident(**NOT_STORED, probable_root="offsets_topic_unavailable")]},
        ),
        ("assignment_too_large", {"incidents": [incident(**NOT_STORED, probable_root="assignment_too_large")]}),
        ("data_lost", sampled(*(lag(at, 0, 90, 50, "ahead_of_log", lag=None, flags=["truncated"]) for at in (0, 3)))),
        ("clock_wrong", sampled(*(lag(at, 0, 50, 90, "stopped", committed_at=AT.replace(year=1970)) for at in (0, 3)))),
        (
            "speaks_in_anothers_name",
            {
                "incidents": [incident("unknown_member")],
                "requests": [request("m", client_host=host) for host in ("1", "2")],
            },
        ),
        (
            "two_applications",
            {
                "incidents": [STORM],
                "members": [member("one", -9, None), member("two", -9, None, subscribed_topics=["bills"])],
                "known_until": AT + MINUTE,
            },
        ),
        (
            "open_transaction",
            sampled(
                *(
                    lag(at, 0, 50, 90, "waiting_for_transaction", last_stable_offset=50, no_progress_since=AT - MINUTE)
                    for at in (0, 3)
                )
            ),
        ),
        ("open_transaction", {"incidents": [incident("open_transaction_in_topic")]}),
        (
            "marker_at_end",
            sampled(*(lag(at, 0, 89, 90, "stopped", flags=["transaction_markers_only"]) for at in (0, 3))),
        ),
        ("commit_ahead_of_end", sampled(*(lag(at, 0, 90, 50, "ahead_of_log", lag=None) for at in (0, 3)))),
        ("commit_ahead_of_end", {"incidents": [incident("commit_ahead_of_end")]}),
        ("new_partition_read_from_latest", {"incidents": [incident("partition_not_read")]}),
        ("reset_at_rest", {"offset_events": [event("rewound", "no_member", records_repeated=40)]}),
        ("skipped_at_rest", {"offset_events": [event("skipped", "no_member", records_skipped=40)]}),
        ("mirror_moves_offsets", {"offset_events": [event("skipped", "no_member", n) for n in range(4)]}),
        (
            "member_went_back",
            {
                "incidents": [incident("offset_rewind", probable_root="client_seek_or_reset")],
                "offset_events": [event("rewound", "member")],
            },
        ),
        ("topic_recreated", {"offset_events": [event("topic_recreated", "member")]}),
        ("passed_by_retention", {"offset_events": [event("lost_to_retention", "log_start", records_skipped=9)]}),
        ("group_deleted", {"offset_events": [event("group_deleted", "delete_request")]}),
        ("topic_deleted", {"offset_events": [event("topic_deleted", "topic_deletion")]}),
        ("group_expired", {"offset_events": [event("expired", "retention")]}),
        ("scaled_to_zero", {"members": [member("m0", -9, -2, "left"), member("m1", -9, -2, "left")], **EMPTY}),
        ("members_left", {"members": [member("m0", -9, -2, "left")], **EMPTY}),
        (
            "console_consumer_ended",
            {"group_id": "console-consumer-50211", "members": [member("m0", -9, -2, "left")], **EMPTY},
        ),
        ("members_expired", {"members": [member("m0", -9, -2, "session_expired")], **EMPTY}),
        ("crash_loop", {"incidents": [STORM], "members": LOOP}),
        (
            "instance_started_twice",
            {"incidents": [incident("fenced_instance")], "members": [member("m", -9, None, group_instance_id="i")]},
        ),
        (
            "network",
            {
                "incidents": [incident("session_expired", probable_root="network")],
                "members": [member("m0", -9, 0.5, "session_expired"), member("m11", -9, 0.55, "session_expired")],
            },
        ),
        (
            "session_timeout",
            {"incidents": [incident("session_expired")], "members": [member("m0", -9, 0.5, "session_expired")]},
        ),
        (
            "held_back_partitions",
            {"incidents": [incident("reconciliation_stuck", evidence="inferred", confidence=0.95)]},
        ),
        (
            "waits_for_member",
            {
                "incidents": [incident("rebalance_stuck")],
                **sampled(*(lag(at, 0, 50, 90, "rebalancing", group_state="PreparingRebalance") for at in (0, 1))),
            },
        ),
        ("removed_by_administrator", {"incidents": [STORM], "members": [member("m0", -9, 0.5, "admin_removed")]}),
        ("went_on_after_removal", {"incidents": [incident("illegal_generation")]}),
        (
            "deploy",
            {
                "incidents": [STORM],
                "members": [row | {"leave_cause": "left", "leave_cause_confidence": 0.9} for row in RESTARTS],
            },
        ),
        ("instances_replaced", {"incidents": [STORM], "members": NEW_INSTANCES}),
        ("scaling", {"incidents": [STORM], "members": [member("m0", -9, 60), member("m1", 0.5, None)]}),
        (
            "leader_sends_no_assignment",
            {"incidents": [incident("leader_never_synced")], "events": [line("stabilized")]},
        ),
        (
            "assignor_gives_nothing",
            {"generations": [generation(0)], "members": MEMBERS, **STOPPED},
        ),
        (
            "topology_not_ready",
            {
                "group_type": "streams",
                "generations": [generation(0, changes=[{"kind": "topology_not_ready"}], protocol_type=None)],
            },
        ),
        (
            "join_storm",
            {"incidents": [STORM], "rebalances": [rebalance(0.1, None, trigger="joined")], "events": LINES},
        ),
        ("subscription_alternates", {"incidents": [STORM], "rebalances": [rebalance(0.1, "metadata_changed")]}),
        ("topics_keep_changing", {"incidents": [STORM], "rebalances": [rebalance(0.1, "topics_changed")]}),
        ("cooperative_follow_ups", {"incidents": [STORM], "rebalances": [FOLLOW_UP]}),
        (
            "one_record_stops_every_owner",
            {
                "members": MEMBERS,
                "assignments": [owner("m0", -5), owner("m1", 1)],
                **STOPPED,
            },
        ),
        (
            "client_quota",
            {
                "members": MEMBERS,
                **sampled(*(lag(at, n, 50 + at, 90 + 9 * at, "growing") for at in (0, 3) for n in (0, 1, 2))),
                "throttled": throttled(),
            },
        ),
        (
            "client_quota",
            {
                "group_type": "consumer",
                "members": MEMBERS,
                **sampled(*(lag(at, 0, 50, 90 + 9 * at, "stalled", no_progress_since=AT - MINUTE) for at in (0, 3))),
                "throttled": throttled(),
            },
        ),
        (
            "transactions_rolled_back",
            {"members": HANGING, **STOPPED, "offsets_in_transactions": in_transactions(60, 60, 60)},
        ),
        (
            "slower_than_producers",
            {
                "members": MEMBERS,
                **sampled(*(lag(at, n, 50 + at, 90 + 9 * at, "growing") for at in (0, 3) for n in (0, 1, 2))),
            },
        ),
        (
            "partition_skew",
            {
                "members": MEMBERS,
                **sampled(
                    *(lag(at, n, 50 + at, 50 + at, "ok") for at in (0, 3) for n in (1, 2)),
                    *(lag(at, 0, 50 + at, 90 + 90 * at, "growing") for at in (0, 3)),
                ),
            },
        ),
        (
            "one_slow_member",
            {
                "members": MEMBERS,
                **sampled(
                    *(lag(at, n, 50 + 9 * at, 50 + 9 * at, "ok") for at in (0, 3) for n in (1, 2)),
                    *(lag(at, 0, 50 + at, 90 + 9 * at, "growing") for at in (0, 3)),
                ),
            },
        ),
        (
            "uneven_assignment",
            {
                "members": MEMBERS,
                **sampled(
                    *(lag(at, n, 50 + 9 * at, 50 + 9 * at, "ok") for at in (0, 3) for n in (1, 2)),
                    *(lag(at, n, 50 + at, 90 + 9 * at, "growing", owner="m0") for at in (0, 3) for n in (0, 3, 4)),
                ),
            },
        ),
        (
            "topics_keep_changing",
            {
                "incidents": [STORM],
                "rebalances": [rebalance(0.1, "leader_rejoined", changes=[{"kind": "partitions_added"}])],
            },
        ),
        (
            "subscription_alternates",
            {
                "incidents": [STORM],
                "rebalances": [
                    rebalance(n / 9, "leader_rejoined", changes=[{"kind": "subscription_changed", "member_id": "m1"}])
                    for n in range(4)
                ],
            },
        ),
        (
            "commits_last_instead_of_next",
            {"members": MEMBERS, **sampled(*(lag(at, n, 89, 90, "stopped") for at in (0, 3) for n in (0, 1, 2)))},
        ),
        ("polls_without_commit", {"members": MEMBERS, "requests": [request("m0", 2.8)], **STOPPED}),
        (
            "static_member_away",
            {
                "members": [member("m0", -9, None, group_instance_id="i"), *MEMBERS[1:]],
                "requests": [request("m1", 2.8)],
                **STOPPED,
            },
        ),
        (
            "commits_one_offset_again",
            {
                "members": MEMBERS,
                **sampled(
                    *(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - MINUTE) for at in (0, 3)),
                    *(lag(at, 1, 50 + 9 * at, 50 + 9 * at, "ok", owner="m0") for at in (0, 3)),
                ),
            },
        ),
        ("alive_and_not_polling", {"members": HANGING, "requests": [*by_clock("m0"), request("m0", 2.8)], **STOPPED}),
        (
            "catching_up",  # partition after partition
            {
                "members": MEMBERS,
                **sampled(
                    *(lag(at, 0, 50, 390, "stalled", no_progress_since=AT - MINUTE) for at in (0, 3)),
                    *(lag(at, 1, 50 + 99 * at, 390 + at, "ok", owner="m0", lag_seconds=90) for at in (0, 3)),
                ),
            },
        ),
        (
            "catching_up",  # with what was written while it had no members
            {
                "members": [member("m0", 1.9, None)],
                **sampled(
                    lag(0, 0, 50, 90, "stopped", owner=None, owned=False, group_state="Empty"),
                    *(lag(at, 0, 50 * at - 50, 400 + at, "stalled") for at in (2, 3)),
                ),
            },
        ),
        (
            "new_partition_read_from_latest",
            {
                "members": MEMBERS,
                "incidents": [UNREAD],
                **sampled(
                    *(lag(at, 0, 0, 90, "no_commit") for at in (0, 3)),
                    *(lag(at, 1, 50 + 9 * at, 50 + 9 * at, "ok", owner="m0") for at in (0, 3)),
                ),
            },
        ),
        (
            "new_owner_began_earlier",
            {
                "incidents": [incident("offset_rewind", probable_root="handover")],
                "offset_events": [event("rewound", "member", records_repeated=4)],
            },
        ),
        (
            "unsubscribed",
            {
                "members": MEMBERS,
                **sampled(*(lag(at, 0, 50, 90 + at, "unsubscribed", owner=None, owned=False) for at in (0, 3))),
            },
        ),
        (
            "topic_deleted",
            {
                "offset_events": [event("deleted", "delete_request_or_topic")],
                "requests": [request("m0", api="OFFSET_COMMIT")],
            },
        ),
        ("catching_up", {"members": MEMBERS, **sampled(*(lag(at, 0, 50 + 40 * at, 210 + at, "ok") for at in (0, 3)))}),
        ("never_commits", {"members": MEMBERS, **sampled(*(lag(at, 0, 0, 90 + at, "no_commit") for at in (0, 3)))}),
        (
            "slow_batch",
            {
                "members": MEMBERS,
                **sampled(
                    *(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - MINUTE) for at in (0, 3)),
                    lag(3.2, 0, 60, 91, "ok"),
                ),
            },
        ),
        (
            "commits_rarely",
            {
                "members": MEMBERS,
                **sampled(
                    *(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - MINUTE) for at in (0, 3)),
                    lag(3.2, 0, 90, 91, "ok"),
                    lag(12, 0, 190, 191, "ok", commit_interval_ms=260_000),
                ),
            },
        ),
        (
            "outsider_stopped",
            sampled(
                *(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - MINUTE, group_state="Empty") for at in (0, 3))
            ),
        ),
        (
            "commits_one_offset_again",
            {"members": MEMBERS, **sampled(*(lag(at, 0, 50, 90 + at, "stalled") for at in (0, 3)))},
        ),
        (
            "catching_up",
            {"members": MEMBERS, **sampled(*(lag(at, 0, 50 + 9 * at, 90 + at, "growing") for at in (0, 3)))},
        ),
    ],
)
def test_a_cause_is_proved(cause: str, rows: dict[str, Any]) -> None:
    first, *others = found(**rows)
    assert (first["cause"], first["rivals"], others) == (cause, [], [])
    assert first["sources"]
    assert 0.8 <= first["confidence"] <= 1


@pytest.mark.parametrize("members", [[member("m0", 2.9, None)], [member("m0", -9, 3.1), member("m1", 3.1, None)]])
def test_who_has_just_started_or_is_gone_went_on_with_nothing(members: list[dict[str, Any]]) -> None:
    """Goal: records waited while the group was stopped, and the next member goes on: no batch of its took long. Nor did
    one of a member that was gone by then, though samples still named it."""
    rounds = (
        *(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - MINUTE) for at in (0, 3)),
        lag(3.2, 0, 60, 91, "ok"),
    )
    assert "slow_batch" not in {each["cause"] for each in found(members=members, **sampled(*rounds))}


@pytest.mark.parametrize(
    "later",
    [
        {"commit_interval_ms": 100_000},  # it took longer than usual
        {"commit_interval_ms": 260_000, "sampled_at": AT + 5 * MINUTE},  # one interval says nothing
        {"commit_interval_ms": 260_000, "owner": "m1"},
    ],
)
def test_a_batch_that_takes_longer_than_the_usual_interval_is_slow(later: dict[str, Any]) -> None:
    rounds = (
        *(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - MINUTE) for at in (0, 3)),
        lag(3.2, 0, 60, 61, "ok"),
        lag(12, 0, 190, 191, "ok") | later,
    )
    (first,) = found(members=MEMBERS, **sampled(*rounds))
    assert first["cause"] == "slow_batch"


@pytest.mark.parametrize("cause", BY_INCIDENT, ids=lambda each: each.name)
def test_an_incident_proves_its_cause(cause: Any) -> None:
    """Goal: if an incident is the cause itself, the diagnosis says the same as the incident, and is not milder."""
    (first,) = found(incidents=[incident(cause.kind)])
    assert (first["cause"], first["explanation"], first["advice"]) == (cause.name, f"What {cause.kind} says.", None)
    assert first["severity"] == "error"


def test_few_rounds_are_read() -> None:
    """Goal: however many rounds an episode has, the lag of a few of them is read: each is a read of the table."""
    rows = sampled(*(lag(at / 10, 0, 50 + at, 90 + 2 * at, "growing") for at in range(200)))
    asked: set[Any] = set()

    def lag_at(at: Any) -> Any:
        asked.add(at)
        return rows["lag_at"](at)

    (only,) = found(members=MEMBERS, rounds=rows["rounds"], lag_at=lag_at)
    assert only["cause"] == "slower_than_producers"
    assert len(asked) <= 5
