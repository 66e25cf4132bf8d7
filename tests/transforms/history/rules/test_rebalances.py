"""A rebalance row has its changes, its kind, its cost, and the inferred trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab.truth.histories import Log, folded, member

if TYPE_CHECKING:
    from groupledger.transforms.history.rules.events import GroupMember

HOST = {"client_id": "app", "client_host": "/10.0.0.7"}
Members = list["GroupMember"]


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ([member("a", 0)], [member("a", 0), member("b")], ["member_joined"]),
        ([member("a", 0), member("b")], [member("a", 0)], ["member_left"]),
        ([member("a", 0)], [], ["group_emptied", "member_left"]),
        ([member("a", 0, **HOST)], [member("b", 0, **HOST)], ["dynamic_restart", "leader_changed"]),
        (
            [member("a", 0, **HOST)],
            [member("b", 0, **HOST), member("c", **HOST)],
            ["dynamic_restart", "leader_changed", "member_joined"],
        ),
        (
            [member("a", 0, group_instance_id="x")],
            [member("b", 0, group_instance_id="x")],
            ["leader_changed", "member_replaced"],
        ),
        ([member("a", 0)], [member("a", 0, topics=("orders", "payments"))], ["subscription_changed"]),
        ([member("a", 0)], [member("a", 0, topics=None)], []),
        ([member("a", 0)], [member("a", 0, owned=[0])], []),
        ([member("a", 0, 1)], [member("a", 0, 1, 2)], ["partitions_added"]),
        ([member("a", 0, owned=[4])], [member("a", 0, 3)], ["cooperative_follow_up"]),
        ([member("a", 0, is_readable=False)], [member("a", 0, 3)], []),
        ([member("a", 0)], [member("a")], ["topic_deleted"]),
        ([member("a", 0)], [member("a", owned=[0])], []),
        ([member("a", 0)], [member("a", topics=())], ["subscription_changed"]),
        ([member("a", 0), member("b")], [member("b", 0), member("a")], ["leader_changed"]),
        ([member("a", 0)], [member("a", 0)], []),
    ],
)
def test_changes(before: Members, after: Members, kinds: list[str]) -> None:
    """Goal: each kind of change from two records alone, and no other beside it."""
    assert folded(Log().record(1, *before).record(2, *after).entries).kinds(2) == kinds


def test_what_changes_name() -> None:
    """Goal: members, topics and partitions that changed are in their columns."""
    log = Log().record(1, member("a", 0, **HOST), protocol="range")
    log.record(2, member("b", 0, 1, 2, topics=("orders", "payments"), **HOST), protocol="roundrobin")
    log.record(3, member("b", 0, 1, 2, topics=("orders",), **HOST), protocol="roundrobin")
    tables = folded(log.entries)
    said = {
        (change["kind"], *(value for name, value in change.items() if name != "kind" and value is not None))
        for generation in (2, 3)
        for change in [
            {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
            for row in tables.changes(generation)
        ]
    }
    assert said == {
        ("dynamic_restart", "b", "a", "app"),
        ("partitions_added", "orders", (1, 2)),
        ("protocol_changed", "roundrobin", "range"),
        ("leader_changed", "b", "a"),
        ("subscription_changed", "b", "app", (), ("payments",)),
    }


def test_partitions_are_new_against_the_largest_universe() -> None:
    """Goal: a partition that was left out for a while is not new when it comes back; a deleted topic begins anew."""
    log = Log().record(1, member("a", 0, 1, 2)).record(2, member("a", 0)).record(3, member("a", 0, 2, 3))
    log.record(4, member("a")).record(5, member("a")).record(6, member("a", 0, 1))
    tables = folded(log.entries)
    assert [tables.kinds(generation) for generation in range(2, 7)] == [
        [],
        ["partitions_added"],
        ["topic_deleted"],
        [],
        [],
    ]
    assert tables.changes(3)[0]["partitions"] == [3]


def test_partitions_that_came_unseen_are_not_new() -> None:
    """Goal: after a hole the universe begins anew, even where the transition itself is known."""
    log = Log().record(1, member("a", 0)).mark("unknown")
    log.offset += 5
    log.mark("complete").record(3).record(4, member("b", 0, 1))
    assert folded(log.entries).kinds(4) == ["member_joined"]


# Kinds and follow-ups


def test_eager_by_what_members_bring_along() -> None:
    """Goal: members that brought nothing along are eager whatever the protocol is called; all that goes on stops."""
    log = Log().record(1, member("a", 0, 1), protocol="cooperative-sticky").commit(0, 1)
    tables = folded(log.record(2, member("a", 0), member("b", 1), protocol="cooperative-sticky").entries)
    row = tables.rows["rebalances"][1, 2]
    assert (row["protocol_kind"], row["pause_scope"]) == ("eager", "group")
    assert (row["partitions_kept"], row["partitions_moved"], row["stickiness"]) == (1, 1, 0.5)
    assert row["sync_wait_ms"] == row["pause_lower_ms"] == 10
    assert [pause["partition"] for pause in row["partition_pauses"]] == [0, 1]
    assert tables.rows["rebalances"][1, 1]["protocol_kind"] == "unknown"


def test_cooperative_follow_up() -> None:
    """Goal: the round that hands out what the one before took is linked to it, and there the partition has moved."""
    log = Log().record(1, member("a", 0, 1)).commit(0, 1)
    log.record(2, member("a", 0, owned=[0, 1]), member("b")).commit(0, 1)
    log.record(3, member("a", 0, owned=[0]), member("b", 1)).record(
        4, member("a", 0, owned=[0]), member("b", 1, owned=[1])
    )
    tables = folded(log.entries)
    assert [tables.kinds(generation) for generation in (2, 3, 4)] == [["member_joined"], ["cooperative_follow_up"], []]
    first, second, third = (tables.rows["rebalances"][1, generation] for generation in (2, 3, 4))
    assert [row["caused_by_generation"] for row in (first, second, third)] == [None, 2, None]
    assert (first["partitions_lost"], first["members_idle"], first["pause_lower_ms"]) == (1, 1, 0)
    assert (second["partitions_moved"], second["partitions_gained"], second["pause_scope"]) == (1, 0, "partitions")
    assert [pause["partition"] for pause in second["partition_pauses"]] == [1]
    assert {row["protocol_kind"] for row in (first, second, third)} == {"cooperative"}
    assert (second["inferred_trigger"], second["inferred_trigger_confidence"]) == ("leader_rejoined", 0.9)


def test_follow_up_chain_has_one_cause() -> None:
    """Goal: rounds that are nothing but follow-ups point to the round that began the chain."""
    log = Log().record(1, member("a", 0, 1, 2))
    log.record(2, member("a", 0, 1, owned=[0, 1, 2]), member("b"))
    log.record(3, member("a", 0, owned=[0, 1]), member("b", 2)).record(
        4, member("a", 0, owned=[0]), member("b", 1, 2, owned=[2])
    )
    tables = folded(log.entries)
    assert [tables.rows["rebalances"][1, generation]["caused_by_generation"] for generation in (3, 4)] == [2, 2]


# Pauses


def test_pause_between_commits() -> None:
    """Goal: the upper bound is from the last commit before to the first one after, for the group and each partition."""
    log = Log().record(1, member("a", 0), member("b", 1)).wait(1_000).commit(0).wait(500).commit(1, at=40)
    log.record(2, member("a", 0), member("b", 1)).wait(2_000).commit(1, at=30).wait(1_000).commit(0).commit(1)
    row = folded(log.entries).rows["rebalances"][1, 2]
    assert row["pause_upper_ms"] == 3_000
    assert [pause["pause_upper_ms"] for pause in row["partition_pauses"]] == [4_500, 3_000]
    again = row["partition_pauses"][1]
    assert (again["committed_offset_before"], again["committed_offset_after"]) == (40, 30)


def test_pause_without_bounds_is_null() -> None:
    """Goal: null, never zero, where no commit bounds it; and none for a group that came from nothing or emptied."""
    log = Log().record(1, member("a", 0)).record(2, member("a", 0)).wait(1_000).commit(0).record(3).commit(0)
    started, silent, emptied = folded(log.entries).table("rebalances")
    assert (silent["pause_scope"], silent["pause_upper_ms"], silent["partition_pauses"]) == ("group", None, [])
    for row in (started, emptied):
        assert row["pause_scope"] is row["pause_lower_ms"] is row["pause_upper_ms"] is None


def test_commits_before_a_hole_bound_nothing() -> None:
    """Goal: newer commits may lie in the hole, so that the commits before it are neither a bound nor the last committed
    offsets."""
    log = Log().record(1, member("a", 0), member("b", 1)).commit(0, 1).mark("unknown")
    log.offset += 5
    log.mark("complete").record(2, member("a", 0), member("b", 1)).commit(0)
    row = folded(log.record(3, member("a", 0), member("b", 1)).commit(0, 1).entries).rows["rebalances"][1, 3]
    assert [pause["partition"] for pause in row["partition_pauses"]] == [0]


# Triggers


def session_log(**options: Any) -> Log:
    """`b` owns partition 1; both commit every 2 s; session 10 s, rebalance timeout 300 s."""
    return Log().record(1, member("a", 0), member("b", 1, **options)).commits(0, 1, every_ms=2_000, times=5)


@pytest.mark.parametrize(
    ("silence_ms", "options", "trigger"),
    [
        (3_000, {}, "left"),
        (6_000, {}, "left"),
        (9_000, {}, "session_expired"),  # in transactions: they don't reset the session
        (12_000, {}, "session_expired"),
        (301_000, {}, "left_poll_timeout"),
        (3_000, {"group_instance_id": "x"}, "admin_removed"),
        (301_000, {"group_instance_id": "x"}, "session_expired"),
    ],
)
def test_departure_by_silence(silence_ms: int, options: dict[str, Any], trigger: str) -> None:
    """Goal: a member that committed within its session left; one that was silent for longer than that expired."""
    log = session_log(**options)
    log.commits(0, every_ms=1_000, times=silence_ms // 1_000 - 1).record(2, member("a", 0, 1))
    tables = folded(log.entries)
    row = tables.rows["rebalances"][1, 2]
    assert row["inferred_trigger"] == trigger
    left = tables.rows["members"][1, "b", 1]
    assert (left["leave_cause"], left["leave_cause_confidence"]) == (trigger, row["inferred_trigger_confidence"])


def test_a_long_join_phase_is_no_silence() -> None:
    """Goal: a member that went shortly before the one who stayed fell silent too, to join again, is not taken for one
    that commits in transactions and expired."""
    log = session_log().commits(0, every_ms=1_000, times=1).wait(7_000)
    tables = folded(log.record(2, member("a", 0, 1)).entries)
    assert tables.rows["rebalances"][1, 2]["inferred_trigger"] == "left"
    assert tables.rows["members"][1, "b", 1]["leave_cause"] == "left"


def test_silence_without_rhythm_is_weak_evidence() -> None:
    """Goal: a member that never committed, or seldom, is given a low confidence."""
    log = Log().record(1, member("a", 0), member("b", 1)).wait(50_000)
    never = folded(log.record(2, member("a", 0)).entries)
    log = Log().record(1, member("a", 0), member("b", 1)).commits(1, every_ms=60_000, times=3).wait(50_000)
    seldom = folded(log.record(2, member("a", 0)).entries)
    log = Log().record(1, member("a", 0), member("b", 1)).wait(59_000).commit(1).wait(50_000)
    late = folded(log.record(2, member("a", 0)).entries)
    for tables in (never, seldom, late):
        row = tables.rows["rebalances"][1, 2]
        assert (row["inferred_trigger"], row["inferred_trigger_confidence"]) == ("left", 0.5)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({}, ("left", 0.9)),
        ({"group_instance_id": "x"}, ("admin_removed", 0.7)),
        ({"session_timeout_ms": 2_000}, ("left", 0.5)),
        ({"rebalance_timeout_ms": 2_000}, ("left", 0.5)),
    ],
)
def test_nobody_expires_sooner_than_a_session_after_the_last_join_phase(
    options: dict[str, Any], cause: tuple[str, float]
) -> None:
    """Goal: every member begins a session when a join phase is complete, so that one that went sooner was not removed
    for its silence, though it never committed; nor for not joining again, if that takes as long."""
    log = Log().record(1, member("a", 0), member("b", 1, **options)).wait(60_000)
    log.record(2, member("b", 1, **options), member("a", 0)).wait(4_000)
    left = folded(log.record(3, member("a", 0, 1)).entries).rows["members"][1, "b", 1]
    assert (left["leave_cause"], left["leave_cause_confidence"]) == cause


@pytest.mark.parametrize(
    ("silence_ms", "cause"), [(12_000, ("session_expired", 0.6)), (301_000, ("left_poll_timeout", 0.5))]
)
def test_one_commit_soon_after_the_assignment_is_a_rhythm(silence_ms: int, cause: tuple[str, float]) -> None:
    """Goal: a member that committed within a session of getting its partition, and then not for longer than a session,
    likely died; so the only member of a group, too."""
    for others in ([], [member("a", 0)]):
        log = Log().record(1, *others, member("b", 1)).wait(7_000).commit(1).wait(silence_ms - 1_000)
        tables = folded(log.record(2, *others).entries)
        left = tables.rows["members"][1, "b", 1]
        assert (left["leave_cause"], left["leave_cause_confidence"]) == cause
        assert tables.rows["rebalances"][1, 2]["inferred_trigger"] == cause[0]


@pytest.mark.parametrize(
    ("after", "trigger"),
    [
        ([member("a", 0), member("b", 1), member("c")], "joined"),
        ([member("a", 0, topics=("x",)), member("b", 1)], "leader_rejoined"),
        ([member("a", 0), member("b", 1, topics=("x",))], "metadata_changed"),
        ([member("a", 0), member("b", 1, 2)], "leader_rejoined"),
        ([member("a", 0), member("b", 1)], "leader_rejoined"),
    ],
)
def test_other_triggers(after: Members, trigger: str) -> None:
    """Goal: joins, subscriptions and new partitions point to their own first reason."""
    assert folded(session_log().record(2, *after).entries).rows["rebalances"][1, 2]["inferred_trigger"] == trigger


def test_crash_and_quick_restart_begins_with_the_join() -> None:
    """Goal: if a member came while another one was silent for longer than its session, the newcomer came first."""
    log = Log().record(1, member("a", 0), member("b", 1, **HOST)).commits(0, 1, every_ms=2_000, times=5)
    log.wait(11_000).record(2, member("a", 0), member("c", 1, **HOST))
    tables = folded(log.entries)
    assert tables.rows["rebalances"][1, 2]["inferred_trigger"] == "joined"
    assert tables.rows["members"][1, "b", 1]["leave_cause"] == "session_expired"


@pytest.mark.parametrize(
    ("revokers", "trigger", "confidence"),
    [("a", "leader_rejoined", 0.9), ("b", "metadata_changed", 0.9), ("ab", "metadata_changed", 0.45)],
)
def test_first_to_come_back_after_a_revocation(revokers: str, trigger: str, confidence: float) -> None:
    """Goal: the leader alone is known for certain, nobody else is; among several it may have been the leader."""
    given_up = {name: [9] if name in revokers else [] for name in "ab"}
    log = Log().record(1, member("a", 0, owned=[0, *given_up["a"]]), member("b", 1, owned=[1, *given_up["b"]]))
    row = folded(log.record(2, member("a", 0), member("b", 1)).entries).rows["rebalances"][1, 2]
    assert (row["inferred_trigger"], row["inferred_trigger_confidence"]) == (trigger, confidence)


def test_static_member_that_changes_the_protocol() -> None:
    """Goal: a static member starts a rebalance by coming back if that changes the protocol; else it was removed."""
    log = Log().record(1, member("a", 0), member("b", 1, group_instance_id="x"), protocol="range")
    log.record(2, member("a", 0), member("c", 1, group_instance_id="x"), protocol="range")
    log.record(3, member("a", 0), member("d", 1, group_instance_id="x"), protocol="roundrobin")
    tables = folded(log.entries)
    assert tables.rows["members"][1, "b", 1]["leave_cause_confidence"] == 0.6
    guesses = [row["inferred_trigger"] for row in tables.table("rebalances")]
    assert guesses == ["joined", "admin_removed", "protocol_changed"]
