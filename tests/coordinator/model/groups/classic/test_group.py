"""One group: the transition table, the vote, the parked requests, and the odd ends that a 4.2.0 broker shows too."""

import ast
from pathlib import Path
from typing import Any

import pytest

from groupledger.coordinator.model.config import KAFKA_4_2, KAFKA_4_4
from groupledger.coordinator.model.errors import IllegalStateError
from groupledger.coordinator.model.groups.classic.group import Group, Member
from groupledger.coordinator.model.groups.classic.states import TRANSITIONS, Event, State
from groupledger.coordinator.model.groups.classic.subscription import (
    UnreadableSubscriptionError,
    topics_of_subscription,
)
from groupledger.schemas.kafka.errors import Error
from lab.scenarios.coordinator_driver import CoordinatorDriver

MODEL = Path(__file__).parents[5] / "coordinator" / "model"
LEGAL: dict[tuple[State | None, Event], State] = {
    (None, Event.CREATED): State.EMPTY,
    (None, Event.LOADED_WITHOUT_MEMBERS): State.EMPTY,
    (None, Event.LOADED_WITH_MEMBERS): State.STABLE,
    (State.EMPTY, Event.REBALANCE_STARTED): State.PREPARING_REBALANCE,
    (State.STABLE, Event.REBALANCE_STARTED): State.PREPARING_REBALANCE,
    (State.COMPLETING_REBALANCE, Event.REBALANCE_STARTED): State.PREPARING_REBALANCE,
    (State.PREPARING_REBALANCE, Event.NOBODY_JOINED): State.EMPTY,
    (State.PREPARING_REBALANCE, Event.MEMBERS_JOINED): State.COMPLETING_REBALANCE,
    (State.COMPLETING_REBALANCE, Event.ASSIGNMENT_STORED): State.STABLE,
    **{(state, Event.UNLOADED): State.DEAD for state in State},
}


@pytest.mark.parametrize("old", State)
@pytest.mark.parametrize("event", Event)
def test_transitions(old: State, event: Event) -> None:
    """The table is Kafka's: 11 transitions of a live group, each stamped; the others are refused and change nothing."""
    group = Group(group_id="g", current_state_timestamp_ms=0)
    group.state = old
    if (old, event) in LEGAL:
        group.apply(event, 7)
        found = (group.state, group.previous_state, group.current_state_timestamp_ms)
        assert found == (LEGAL[old, event], old, 7)
    else:
        with pytest.raises(IllegalStateError):
            group.apply(event, 7)
        assert (group.state, group.current_state_timestamp_ms) == (old, 0)


@pytest.mark.parametrize("birth", Event)
def test_births(birth: Event) -> None:
    """A new group and a loaded one pass through the same table; no other event brings a group into being."""
    if (None, birth) in LEGAL:
        assert Group(group_id="g", current_state_timestamp_ms=0, birth=birth).state is LEGAL[None, birth]
    else:
        with pytest.raises(IllegalStateError):
            Group(group_id="g", current_state_timestamp_ms=0, birth=birth)


def test_table_is_complete() -> None:
    """Every state has its row, and no row has more than Kafka's."""
    assert set(TRANSITIONS) == {None, *State}
    assert {(state, event): after for state, row in TRANSITIONS.items() for event, after in row.items()} == LEGAL


def test_only_the_table_sets_a_state() -> None:
    """In the model a group's state is assigned by `apply` and at its birth, nowhere else: both ask the table."""
    assigned = {
        (path.name, function.name)
        for path in MODEL.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == "state"
    }
    assert assigned == {("group.py", "__post_init__"), ("group.py", "apply")}


def group_of(*preferences: str) -> Group:
    """A group whose members prefer these protocols, each a text like `range roundrobin`."""
    group = Group(group_id="g", current_state_timestamp_ms=0)
    for number, names in enumerate(preferences):
        protocols = tuple((name, b"") for name in names.split())
        group.add(
            Member(
                member_id=f"m{number}",
                group_instance_id=None,
                client_id="client",
                client_host="/host",
                rebalance_timeout_ms=1,
                session_timeout_ms=1,
                protocol_type="test",
                protocols=protocols,
            )
        )
    return group


@pytest.mark.parametrize(
    ("preferences", "selected"),
    [
        (["range roundrobin"], "range"),
        (["roundrobin range"], "roundrobin"),
        (["range roundrobin", "roundrobin range", "roundrobin range"], "roundrobin"),
        (["range roundrobin", "roundrobin range"], "range"),  # a tie: range comes first in a HashMap
        (["sticky default", "default sticky"], "default"),
        (["a b c", "b", "c b a"], "b"),
    ],
)
def test_vote(preferences: list[str], selected: str) -> None:
    """Most votes among what all support; a tie goes to the first in HashMap order."""
    assert group_of(*preferences).select_protocol() == selected


def test_vote_without_members_or_candidates() -> None:
    """Nothing to choose from is an illegal state, not a guess."""
    with pytest.raises(IllegalStateError):
        Group(group_id="g", current_state_timestamp_ms=0).select_protocol()
    with pytest.raises(IllegalStateError):
        group_of("a", "b").select_protocol()


def test_leader_is_succeeded_by_the_first_of_the_others() -> None:
    """In HashMap order, which is that of the names here."""
    group = group_of("range", "range", "range")
    assert group.leader_id == "m0"
    group.remove("m0")
    assert group.leader_id == "m1"
    group.remove("m1")
    group.remove("m2")
    assert group.leader_id is None


def test_replacing_an_unknown_static_member(driver: Any) -> None:
    """There is nobody to replace."""
    driver.join(instance_id="a")
    group = driver.coordinator.group(driver.group_id)
    with pytest.raises(IllegalStateError):
        group.replace_static_member("unknown", "new", None)


def test_a_second_join_silences_the_first(driver: Any) -> None:
    """A client that repeats its parked join is answered once, on the newer request."""
    first = driver.join_with_new_id()
    second = driver.join(first.request.member_id)
    driver.advance(3_000)
    assert first.is_parked
    assert second.error is Error.NONE


def test_late_sync_of_a_replaced_member_rebalances(driver: Any) -> None:
    """The old id stays among those that must sync, so the sync timer fires for it though the new id has synced."""
    group = driver.completing_group("a", "b", session_ms=60_000)
    follower = group.follower
    leader = group.leader
    driver.sync(leader.member_id, 1, group.assignments(), instance_id=leader.group_instance_id)
    replaced = driver.join(instance_id=follower.group_instance_id, session_ms=60_000)
    synced = driver.sync(replaced.response.member_id, 1, instance_id=follower.group_instance_id)
    assert (synced.error, driver.state()) == (Error.NONE, "Stable")
    driver.advance(10_000)
    assert (driver.state(), len(driver.member_ids())) == ("PreparingRebalance", 2)


def test_hostile_subscription_stops_its_own_group(driver: Any) -> None:
    """A length beyond the end is an unchecked exception in the broker: the join phase never ends."""
    hostile = driver.join_with_new_id(protocols=(("range", b"\0\0\x7f\xff\xff\xff"),))
    driver.advance(3_000)
    other = driver.join_with_new_id()
    driver.advance(3_000)
    assert hostile.is_parked
    assert other.is_parked
    assert driver.state() == "PreparingRebalance"


def test_unreadable_subscription_is_forgiven(driver: Any) -> None:
    """A cut-off number is only a warning: the group goes on, and its topics are not known."""
    driver.stable_group(None, protocols=(("range", b"\0"),))
    group = driver.coordinator.group(driver.group_id)
    assert group.subscribed_topics is None
    assert group.is_subscribed_to_topic("anything")


def test_protocol_named_twice_is_counted_twice(driver: Any) -> None:
    """So that nobody seems to support it: with no other protocol the group is stuck."""
    stuck = driver.join_with_new_id(protocols=(("range", b""), ("range", b"")))
    driver.advance(3_000)
    assert (stuck.is_parked, driver.state()) == (True, "PreparingRebalance")
    other = driver.join_with_new_id(
        group_id=driver.other_group_id, protocols=(("range", b""), ("range", b""), ("roundrobin", b""))
    )
    driver.advance(3_000)
    assert (other.error, other.response.protocol_name) == (Error.NONE, "roundrobin")


def test_illegal_state_answers_once(driver: Any) -> None:
    """A join that ends in an unchecked exception is answered at once, and not again when its member is."""
    group = driver.stable_group(None, session_ms=60_000)
    failed = driver.join(group.leader.member_id, protocols=(("range", b"\0\0\x7f\xff\xff\xff"),), session_ms=60_000)
    assert failed.error is Error.UNKNOWN_SERVER_ERROR
    again = driver.join(group.leader.member_id, session_ms=60_000)
    assert (again.error, driver.state()) == (Error.NONE, "CompletingRebalance")


def test_join_version_0_has_no_rebalance_timeout(driver: Any) -> None:
    """The session timeout is used instead."""
    driver.join(api_version=0, session_ms=4_000, rebalance_ms=-1)
    (member,) = driver.coordinator.group(driver.group_id).members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (4_000, 4_000)


@pytest.mark.parametrize(
    ("subscription", "topics"),
    [
        (b"\0\0\0\0\0\0\xff\xff\xff\xff", set()),
        (b"\0\0\0\0\0\1\0\1a\xff\xff\xff\xff", {"a"}),
        (b"\0\3\0\0\0\2\0\1a\0\2bc\0\0\0\1xTRAILING", {"a", "bc"}),
        (b"\xff\xff\0\0\0\1\0\1a\xff\xff\xff\xff", {"a"}),  # the version does not matter
        (b"\0\0\0\0\0\1\0\1\xff\xff\xff\xff\xff", {"\ufffd"}),
    ],
)
def test_subscription(subscription: bytes, topics: set[str]) -> None:
    """The v0 prefix is read of every version."""
    assert topics_of_subscription(subscription) == topics


@pytest.mark.parametrize("subscription", [b"", b"\0", b"\0\0", b"\0\0\0\0\0", b"\0\0\0\0\0\1\0", b"\0\0\0\0\0\0\0"])
def test_subscription_cut_off(subscription: bytes) -> None:
    """The broker forgives a subscription that ends within a number."""
    with pytest.raises(UnreadableSubscriptionError):
        topics_of_subscription(subscription)


@pytest.mark.parametrize(
    "subscription",
    [
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\2\0\1",
        b"\0\0\0\0\0\1\0\5a\0\0",
        b"\0\0\0\0\0\1\xff\xff\0\0",
        b"\0\0\0\0\0\0\0\0\0\5abc",
    ],
)
def test_subscription_with_wrong_lengths(subscription: bytes) -> None:
    """A broker of 4.2 stops at nulls and at lengths beyond the end, and answers nobody; one of 4.4 goes on without the
    topics."""
    with pytest.raises(IllegalStateError):
        topics_of_subscription(subscription)
    for release, is_answered in ((KAFKA_4_2, False), (KAFKA_4_4, True)):
        driver = CoordinatorDriver(release=release, group_initial_rebalance_delay_ms=0)
        join = driver.join(protocols=(("range", subscription),), api_version=3)
        driver.advance(0)
        assert join.is_parked != is_answered
