"""Goal: the truth of each scenario of KIP-848 has what the scenario's description says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.model.messages import ConsumerGroupHeartbeatRequest, OffsetCommitRequest
from groupledger.coordinator.simulator.scenarios.modern import DELAY_MS, MODERN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.coordinator.simulator.conftest import Played

pytestmark = pytest.mark.slow

JOINED_3: list[str | None] = ["joined"] * 3
STALE = ("OFFSET_COMMIT", "STALE_MEMBER_EPOCH")
# The causes of epochs, the refusals, and the reasons for which members left.
SHOWN: dict[str, tuple[list[str | None], set[tuple[str, str]], list[str]]] = {
    "consumer-scale": ([*JOINED_3, "joined", "joined", "left", "left"], {STALE}, ["left", "left"]),
    "consumer-slow-release": (JOINED_3, set(), []),
    "consumer-crash": ([*JOINED_3, "session_expired", "joined"], set(), ["session_expired"]),
    "consumer-poll-timeout": ([*JOINED_3, "left", "joined"], {STALE}, ["left"]),
    "consumer-pause": (
        [*JOINED_3, "session_expired", "joined"],
        {("CONSUMER_GROUP_HEARTBEAT", "UNKNOWN_MEMBER_ID"), ("OFFSET_COMMIT", "UNKNOWN_MEMBER_ID")},
        ["session_expired"],
    ),
    "consumer-restart-static": (
        [*JOINED_3, "session_expired", "joined"],
        {STALE},
        [*["replaced"] * 3, "session_expired"],
    ),
    "consumer-instance-taken": (["joined"] * 2, {("CONSUMER_GROUP_HEARTBEAT", "UNRELEASED_INSTANCE_ID")}, []),
    "consumer-topics": ([*JOINED_3, *["metadata_changed"] * 3, "topics_changed"], set(), []),
    "consumer-regex": (["joined", "metadata_changed", "joined", "joined", "metadata_changed"], set(), []),
    "consumer-failover": (
        [*JOINED_3, "joined"],
        {
            ("CONSUMER_GROUP_HEARTBEAT", "COORDINATOR_LOAD_IN_PROGRESS"),
            ("CONSUMER_GROUP_HEARTBEAT", "NOT_COORDINATOR"),
            STALE,
        },
        [],
    ),
    "consumer-migration": (
        ["joined", "left", "joined", "left", "joined"],
        {STALE},
        ["upgraded", "upgraded", "left", "left", "left"],
    ),
    "consumer-migration-back": ([*JOINED_3, *["left", "joined"] * 2], {STALE}, ["left"] * 3),
    "consumer-there-and-back": ([None, "joined", "left"], {STALE}, [*["upgraded"] * 3, "replaced", "left"]),
}


def test_all_are_here() -> None:
    assert [scenario.name for scenario in MODERN] == [*SHOWN]


@pytest.mark.parametrize("name", SHOWN)
def test_what_it_shows(play: Callable[[str], Played], name: str) -> None:
    """Goal: the epochs' causes, the refusals and the departures."""
    truth = play(name).truth
    refusals = {(row.api, row.error) for row in truth.rejections}
    causes = [row.leave_cause for row in truth.members if row.leave_cause is not None]
    assert ([row.trigger for row in truth.epochs], refusals, causes) == SHOWN[name]


def test_who_waits_for_whom(play: Callable[[str], Played]) -> None:
    """Goal: a member keeps the partition that it has to give up while it works on its records, and nobody else has it
    meanwhile."""
    played = play("consumer-slow-release")
    third = played.truth.epochs[-1]
    (newcomer,) = third.member_ids
    quick, late = sorted({row.valid_from_ms for row in played.truth.holdings if row.member_id == newcomer})
    assert quick - third.started_at_ms < 20_000
    assert 0.8 * DELAY_MS < late - third.started_at_ms < DELAY_MS + 20_000


def test_generations_behind_a_downgrade(play: Callable[[str], Played]) -> None:
    """Goal: a group that goes back keeps its incarnation, and its last epoch is a generation of those who stay, whose
    tenures go on; the next generation has the member that left KIP-848 again."""
    truth = play("consumer-migration-back").truth
    first, *others = truth.generations
    assert (first.incarnation, first.generation, first.revision) == (1, truth.epochs[-1].epoch, 1)
    assert first.started_at_ms == truth.epochs[-1].ended_at_ms
    assert [len(row.member_ids) for row in (first, *others)] == [2, 2, 3, 4]
    assert [row.trigger for row in truth.causes] == ["group_downgraded", "joined", "joined"]
    stayed = [row for row in truth.members if row.member_id in first.member_ids]
    assert [(row.left_at_ms, row.joined_at_ms < first.started_at_ms) for row in stayed] == [(None, True)] * 2
    assert {row.valid_from_ms for row in truth.owners} >= {first.recorded_at_ms}


def test_a_regular_expression_is_said_once(play: Callable[[str], Played]) -> None:
    """Goal: like Java's client, a member sends its expression, and no topic names, as it joins; it learns the names of
    its topics from the broker, and consumes the topic that came later, too."""
    played = play("consumer-regex")
    asked = [each.request for each in played.outputs.exchanges]
    said = [
        (each.member_epoch, each.subscribed_topic_names, each.subscribed_topic_regex)
        for each in asked
        if isinstance(each, ConsumerGroupHeartbeatRequest)
        and (each.subscribed_topic_names, each.subscribed_topic_regex) != (None, None)
    ]
    assert said == [(0, (), r"orders.*\.consumer-regex-0000")] * 3
    later = {each.partition for each in played.truth.holdings if each.topic.startswith("orders-eu")}
    assert later == {0, 1, 2, 3}
    consumed = {each.topic for request in asked if isinstance(request, OffsetCommitRequest) for each in request.offsets}
    assert consumed == {"orders.consumer-regex-0000", "orders-eu.consumer-regex-0000"}


def test_everything_is_consumed_once(play: Callable[[str], Played]) -> None:
    """Goal: no two members hold a partition at the same time, in no scenario."""
    for name in SHOWN:
        until: dict[tuple[str, int], int | None] = {}
        for row in sorted(play(name).truth.holdings, key=lambda row: row.from_kafka_offset):
            place = row.topic, row.partition
            before = until.get(place, 0)
            assert before is not None, (name, row)
            assert before <= row.from_kafka_offset, (name, row)
            until[place] = row.to_kafka_offset
