"""Goal: each cause that can be proved is the diagnosis where its signs are, and no other is; where they are not enough,
the rivals are named with what would distinguish them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.kinds import signs
from groupledger.schemas.kinds.causes import CAUSES
from groupledger.schemas.kinds.signs import COMPUTED_SIGNS, of_kind
from groupledger.transforms.history.rules.departures import with_logged_causes
from groupledger.transforms.incidents.diagnosis import diagnose
from groupledger.transforms.incidents.diagnosis.commit_rhythm import with_poll_timeouts
from groupledger.transforms.incidents.diagnosis.diagnose import diagnoses
from groupledger.transforms.incidents.diagnosis.evidence import DiagnosisRows

if TYPE_CHECKING:
    from collections.abc import Callable

AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
BY_INCIDENT = [
    cause
    for cause in CAUSES
    if any(proof == (of_kind(str(cause.kind)),) for proof in cause.proved_by) and not cause.against
]


def incident(kind: str, **fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(("member_id", "client_id", "client_host", "group_instance_id"), "x")
    row |= dict.fromkeys(("duplicates_min", "duplicates_max", "never_read_max", "setting_to_change"))
    row |= {"episode_id": "e", "kind": kind, "severity": "error", "evidence": "observed", "confidence": 1.0}
    row |= {"probable_root": "unknown", "occurrences": 3, "explanation": f"What {kind} says.", "is_open": False}
    return row | {"first_seen_at": AT, "last_seen_at": AT + MINUTE} | fields


def member(name: str, joined: float, left: float | None, cause: str | None = None, /, **fields: Any) -> dict[str, Any]:
    """A tenure, with the minutes at which it began and ended."""
    row = {
        "incarnation": 0,
        "rebalance_timeout_ms": 60_000,
        "member_id": name,
        "client_id": name,
        "client_host": f"/10.0.0.{len(name)}",
    }
    row |= {"group_instance_id": None, "subscribed_topics": ["orders"], "subscribed_regex": None}
    row |= {"from_offset": _offset(joined), "to_offset": None if left is None else _offset(left)}
    row |= {"is_start_known": True, "is_end_known": True}
    row |= {"joined_at": AT + joined * MINUTE, "left_at": None if left is None else AT + left * MINUTE}
    return row | {"leave_cause": cause, "leave_cause_confidence": None if cause is None else 0.9} | fields


def _offset(minutes: float) -> int:
    """Returns an offset in the order of time."""
    return round((minutes + 60) * 60_000)


def rebalance(minutes: float, guess: str | None, /, **fields: Any) -> dict[str, Any]:
    row = {"happened_at": AT + minutes * MINUTE, "trigger": None, "inferred_trigger": guess, "members_idle": 0}
    return (
        row
        | {"inferred_trigger_confidence": 0.9, "caused_by_generation": None, "changes": [], "partition_pauses": None}
        | fields
    )


def lag(minutes: float, partition: int, committed: int, end: int, status: str, **fields: Any) -> dict[str, Any]:
    row = {"sampled_at": AT + minutes * MINUTE, "topic": "orders", "partition": partition, "status": status}
    row |= {"committed_offset": committed, "high_watermark": end, "last_stable_offset": end, "raw_lag": end - committed}
    row |= {
        "lag": end - committed,
        "lag_seconds": None,
        "flags": [],
        "no_progress_since": None,
        "owned": True,
        "group_state": "Stable",
        "commit_interval_ms": None,
    }
    row |= {"owner": f"m{partition}", "client_id": f"pod-{partition}", "client_host": "/10.0.0.1"}
    return row | {"committed_at": AT + minutes * MINUTE} | fields


def sampled(*rows: dict[str, Any]) -> dict[str, Any]:
    """The rounds that rows of lag are of, as GroupRows takes them."""
    order = (
        "ok",
        "unsubscribed",
        "waiting_for_transaction",
        "no_commit",
        "rebalancing",
        "growing",
        "ahead_of_log",
        "stalled",
        "stopped",
    )
    by_round: dict[datetime, list[dict[str, Any]]] = {}
    for row in rows:
        by_round.setdefault(row["sampled_at"], []).append(row)
    rounds = [
        {
            "sampled_at": at,
            "status": max(
                (row["status"] for row in of if row["status"] != "unsubscribed"), key=order.index, default="ok"
            ),
            "group_state": of[0]["group_state"],
            "partitions_unsubscribed": sum(row["status"] == "unsubscribed" for row in of),
            "lag_seconds_max": max(row["lag"] or 0 for row in of),
        }
        for at, of in sorted(by_round.items())
    ]
    return {"rounds": rounds, "lag_at": lambda at: by_round[at]}


def owner(name: str, minutes: float) -> dict[str, Any]:
    row = {"topic": "orders", "partition": 0, "member_id": name, "valid_to": None}
    return row | {"valid_from": AT + minutes * MINUTE}


def event(kind: str, cause: str | None, minutes: float = 0, **fields: Any) -> dict[str, Any]:
    row = {"kind": kind, "cause": cause, "happened_at": AT + minutes * MINUTE, "topic": "orders", "partition": 0}
    again = fields.get("records_repeated") or 0
    moved = {"kafka_offset": round(minutes * 60_000), "offset_before": 100 + again, "offset_after": 100}
    return row | moved | {"records_repeated": None, "records_skipped": None} | fields


def line(kind: str, name: str | None = None, minutes: float = 0, reason: str | None = None) -> dict[str, Any]:
    return {
        "kind": kind,
        "member_id": name,
        "logged_at": AT + minutes * MINUTE,
        "reason": reason,
        "client_reason": None,
    }


def request(name: str, minutes: float = 0, **fields: Any) -> dict[str, Any]:
    row = {"happened_at": AT + minutes * MINUTE, "member_id": name, "client_host": "/10.0.0.1", "api": "HEARTBEAT"}
    return row | {"client_software_name": "apache-kafka-java"} | fields


def by_clock(name: str, until: float = 0, **fields: Any) -> list[dict[str, Any]]:
    """Commits of a member each five seconds up to a minute."""
    return [request(name, until - n / 12, api="OFFSET_COMMIT", **fields) for n in range(20)]


def throttled(client: str = "pod-0", host: str = "10.0.0.1", share: float = 1.0) -> Callable[..., list[dict[str, Any]]]:
    """Fetches of a client every two seconds up to the third minute, each held up for a share of that time."""
    rows = [
        {"logged_at": AT + 2 * n * SECOND, "client_host": host, "throttle_time_ms": round(2_000 * share)}
        for n in range(90)
    ]
    return lambda asked, since, until: [row for row in rows if asked == client and since <= row["logged_at"] < until]


def in_transactions(*offsets: int, apart: timedelta = MINUTE) -> Callable[..., list[dict[str, Any]]]:
    """Offsets of a partition that were sent in transactions, one after the other."""
    place = {"topic": "orders", "partition": 0, "error_code": 0}
    rows = [
        {"happened_at": AT + n * apart, "partitions": [place | {"committed_offset": offset}]}
        for n, offset in enumerate(offsets)
    ]
    return lambda since, until: [row for row in rows if since <= row["happened_at"] < until]


def generation(owned: int, **fields: Any) -> dict[str, Any]:
    row = {"started_at": AT, "ended_at": AT + 5 * MINUTE, "member_count": 2, "owned_count": owned, "changes": []}
    return row | {"is_ownership_known": True, "protocol_type": "consumer"} | fields


def found(**rows: Any) -> list[dict[str, Any]]:
    return diagnoses(DiagnosisRows(**({"group_type": "classic"} | rows)))


FOLLOW_UP = rebalance(0.1, "joined", caused_by_generation=4)
LINES = [line("stabilized")]
MEMBERS = [member("m0", -9, None), member("m1", -9, None), member("m2", -9, None)]
NEW_INSTANCES = [
    *(member(f"old-{n}", -9, 0.5, group_instance_id=f"pod-{n}") for n in range(2)),
    *(member(f"new-{n}", 0.5, None, group_instance_id=f"pod-{n + 2}") for n in range(2)),
]
STORM = incident("rebalance_storm", evidence="inferred", severity="warning", confidence=0.95, group_instance_id=None)
NOT_STORED = {"kind": "assignment_not_stored"}
STOPPED = sampled(*(lag(at, 0, 50, 90, "stopped", no_progress_since=AT - MINUTE) for at in (0, 3)))
EMPTY = sampled(*(lag(at, 0, 50, 90, "stopped", owned=False, owner=None, group_state="Empty") for at in (0, 3)))
HANGING = [member("m0", -9, None, rebalance_timeout_ms=600_000)]
UNREAD = incident(
    "partition_not_read",
    confidence=0.5,
    severity="info",
    never_read_max=9,
    partitions=[{"topic": "orders", "partition": 0}],
)
LOOP = [member("crashy", n / 4, n / 4 + 0.1, "left") for n in range(12)]
RESTARTS = [
    member(f"{old}{n}", *times, client_id="app")
    for n in (1, 2)
    for old, times in (("a", (-9, n * 0.4)), ("b", (n * 0.4, None)))
]


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
    """Goal: where an incident is the cause itself, the diagnosis says what the incident says, and not milder."""
    (first,) = found(incidents=[incident(cause.kind)])
    assert (first["cause"], first["explanation"], first["advice"]) == (cause.name, f"What {cause.kind} says.", None)
    assert first["severity"] == "error"


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
        "crashy at 10.0.0.6 joined and went away 12 times within 171 s: it left each time."
    )
    assert (first["severity"], first["since"], first["until"]) == ("error", AT, None)
    assert first["unowned_partition_seconds"] == 11 * 9
    assert (first["kinds"], first["episode_ids"]) == (["member_flapping", "rebalance_storm"], ["e", "f"])
    assert first["setting_to_change"] == "group.instance.id"


@pytest.mark.parametrize(("lengths", "cause"), [((10, 10.2, 10.1), "poll_timeout"), ((10, 25, 40), "crash_loop")])
def test_tenures_as_long_as_the_poll_interval(lengths: tuple[float, ...], cause: str) -> None:
    """Goal: whoever leaves each time when its poll interval is over did not poll in time, also where no log says so."""
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
        # A client of which nobody knows whether it leaves when it does not poll, and one that has time left.
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
    """Goal: a member that leaves without a reason, a minute after its last regular commit, had not polled; whoever is
    closed sooner or later was closed."""
    gone = [member("m0", -9, seconds / 60, "left_poll_timeout", leave_cause_confidence=0.7)]
    (row,) = with_poll_timeouts(gone, by_clock("m0", client_software_name="librdkafka"))
    assert (row["leave_cause"], row["leave_cause_confidence"]) == ("left_poll_timeout", sure)


def test_a_partition_that_stands_is_not_one_that_waits_for_its_turn() -> None:
    """Goal: whoever is at the end of its other partitions has no backlog that it works off first."""
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
    """Goal: a deployment is there for whoever asks, and no alarm; a group that starts has not changed."""
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
    """Goal: where no cause is known, the text of an incident that alarms nobody is not taken for it."""
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
    """Goal: who ends at a record and is restarted is sent to the record, and not to a setting for shorter restarts."""
    stopped = [owner("m0", -5), owner("m1", 1)]
    for assignments, is_at_record in (([], False), (stopped, True)):
        (first, *_) = found(incidents=[STORM], members=LOOP, assignments=assignments, **STOPPED)
        assert first["cause"] == "crash_loop"
        assert ("at the committed offsets" in first["advice"]) == is_at_record
        assert (first["setting_to_change"] is None) == is_at_record


SLOW = [member("slow", n, n + 0.4, "left_poll_timeout") for n in (0, 0.5, 1)]


def test_a_member_that_is_too_slow_again_and_again_is_not_restarted() -> None:
    """Goal: whoever leaves for its poll interval each time lives, and is sent to the settings of polls; where no log
    says so, the advice names both."""
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
    """Goal: with static members, the advice is not only to stop a process that hangs: it may have been closed."""
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
    """Goal: where all partitions stand in the hands of every owner, no single record is to blame."""
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
    """Goal: what waits for a job's next run is no alarm, and a job that does not come is one."""
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
    """Goal: with the request log, who sends offsets in transactions that are rolled back is not said to commit
    nothing; without it, that is one of the causes left; and with a log without such requests it is not."""
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
    """Goal: where a diagnosis is shown in place of an incident that is still open, it alarms as the incident did."""
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
