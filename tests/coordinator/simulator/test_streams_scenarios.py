"""Goal: each scenario of streams groups shows what it says, and their members behave as threads of Kafka Streams do."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupHeartbeatRequest
from groupledger.coordinator.model.messages import OffsetCommitRequest
from groupledger.coordinator.simulator.scenarios.streams import DELAY_MS, STREAMED
from groupledger.schemas.words import TaskRole

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.simulator.truth import TaskHolding
    from tests.coordinator.simulator.conftest import Played

pytestmark = pytest.mark.slow

JOINED_3 = ["joined"] * 3
HEARTBEAT = "STREAMS_GROUP_HEARTBEAT"
# The causes of epochs, the refusals, and the reasons for which members left.
SHOWN: dict[str, tuple[list[str], set[tuple[str, str]], list[str]]] = {
    "streams-scale": ([*JOINED_3, "joined", "left", "left"], set(), ["left", "left"]),
    "streams-standbys": ([*JOINED_3, "session_expired", "joined"], set(), ["session_expired"]),
    "streams-crash": ([*JOINED_3, "session_expired", "joined"], set(), ["session_expired"]),
    "streams-pause": (
        [*JOINED_3, "session_expired", "joined"],
        {(HEARTBEAT, "UNKNOWN_MEMBER_ID"), ("OFFSET_COMMIT", "UNKNOWN_MEMBER_ID")},
        ["session_expired"],
    ),
    "streams-slow-release": (JOINED_3, set(), []),
    "streams-poll-timeout": ([*JOINED_3, "left", "joined"], set(), ["left"]),
    "streams-partitions": ([*JOINED_3, "topics_changed"], set(), []),
    "streams-topology": (
        ["joined", "joined", "left", "left", "joined", "joined", "topology_changed"],
        {(HEARTBEAT, "INVALID_REQUEST")},
        ["left", "left"],
    ),
    "streams-failover": (
        [*JOINED_3, "joined"],
        {(HEARTBEAT, "COORDINATOR_LOAD_IN_PROGRESS"), (HEARTBEAT, "NOT_COORDINATOR")},
        [],
    ),
}


def at(rows: list[TaskHolding], time_ms: int) -> list[TaskHolding]:
    return [
        row for row in rows if row.valid_from_ms <= time_ms and (row.valid_to_ms is None or time_ms < row.valid_to_ms)
    ]


def heartbeats(played: Played) -> list[StreamsGroupHeartbeatRequest]:
    return [each.request for each in played.outputs.exchanges if isinstance(each.request, StreamsGroupHeartbeatRequest)]


def test_all_are_here() -> None:
    assert [scenario.name for scenario in STREAMED] == [*SHOWN]


@pytest.mark.parametrize("name", SHOWN)
def test_what_it_shows(play: Callable[[str], Played], name: str) -> None:
    """Goal: the epochs' causes, the refusals and the departures."""
    truth = play(name).truth
    refusals = {(row.api, row.error) for row in truth.rejections}
    causes = [row.leave_cause for row in truth.members if row.leave_cause is not None]
    assert ([row.trigger for row in truth.epochs], refusals, causes) == SHOWN[name]


@pytest.mark.parametrize("name", SHOWN)
def test_every_task_is_done_once(play: Callable[[str], Played], name: str) -> None:
    """Goal: nobody does a task while another one does it, and in the end every task is done; the partitions that active
    tasks read are held as these are."""
    truth = play(name).truth
    until: dict[tuple[int, str, int], int | None] = {}
    for row in sorted(truth.tasks, key=lambda row: row.from_kafka_offset):
        if row.role == TaskRole.ACTIVE:
            task = row.incarnation, row.subtopology, row.partition
            before = until.get(task, 0)
            assert before is not None, row
            assert before <= row.from_kafka_offset, row
            until[task] = row.to_kafka_offset
    newest = max(incarnation for incarnation, *_ in until)
    assert {ended for (incarnation, *_), ended in until.items() if incarnation == newest} == {None}
    read = Counter((row.partition, row.member_id, row.from_kafka_offset, row.to_kafka_offset) for row in truth.holdings)
    active = [row for row in truth.tasks if row.role == TaskRole.ACTIVE]
    assert read == Counter((row.partition, row.member_id, row.from_kafka_offset, row.to_kafka_offset) for row in active)


def test_what_a_consumer_has(play: Callable[[str], Played]) -> None:
    """Goal: in the end each thread reads what the coordinator says that its active tasks read."""
    played = play("streams-scale")
    reported = {
        application.consumer.member_id: [*application.consumer.assignment]
        for application in played.applications
        if application.consumer is not None
    }
    held = [row for row in played.truth.holdings if row.to_kafka_offset is None]
    assert reported == {
        name: sorted((row.topic, row.partition) for row in held if row.member_id == name) for name in reported
    }
    assert len(reported) == 2


def test_standbys(play: Callable[[str], Played]) -> None:
    """Goal: each of twelve tasks has one standby, in another process, as long as there are two processes."""
    played = play("streams-standbys")
    tasks = at(played.truth.tasks, played.action_ms("crash"))
    assert Counter(row.role for row in tasks) == {TaskRole.ACTIVE: 12, TaskRole.STANDBY: 12}
    doers = {(row.subtopology, row.partition, row.member_id) for row in tasks}
    assert len(doers) == len(tasks)


def test_who_waits_for_whom(play: Callable[[str], Played]) -> None:
    """Goal: while a thread works on its records, nobody has the tasks that it is to give up, and it keeps them."""
    played = play("streams-slow-release")
    third = played.truth.epochs[-1]
    (newcomer,) = third.member_ids
    waited_ms = sorted(
        row.valid_from_ms - third.started_at_ms for row in played.truth.tasks if row.member_id == newcomer
    )
    assert waited_ms[0] < 20_000
    assert 0.8 * DELAY_MS < waited_ms[-1] < DELAY_MS + 20_000


def test_what_a_member_says(play: Callable[[str], Played]) -> None:
    """Goal: a member brings its topology and its process with epoch 0 alone, and says tasks only when it has others
    than it has said; it closes with epoch -1."""
    sent = heartbeats(play("streams-scale"))
    for member_id in {each.member_id for each in sent}:
        reported = [each for each in sent if each.member_id == member_id]
        assert [each.topology is not None for each in reported] == [each.member_epoch == 0 for each in reported]
        assert [each.process_id is not None for each in reported] == [each.member_epoch == 0 for each in reported]
        owned = [each.owned_tasks() for each in reported[1:] if each.owned_tasks() is not None]
        assert owned
        assert all(before != after for before, after in pairwise(owned))
    assert sum(each.member_epoch == -1 for each in sent) == 2


def test_another_topology(play: Callable[[str], Played]) -> None:
    """Goal: a thread with another topology is refused, and ends, until the group is deleted and born again with it."""
    played = play("streams-topology")
    (refused,) = played.truth.rejections
    assert refused.claimed_generation == 0
    after = [each.request for each in played.outputs.exchanges if each.received_at_ms > refused.requested_at_ms]
    deleted_ms = played.action_ms("group_deleted")
    between = [each for each in played.outputs.exchanges if refused.requested_at_ms < each.received_at_ms < deleted_ms]
    assert refused.member_id not in {getattr(each.request, "member_id", "") for each in between}
    assert len(after) > len(between)
    first, second = ({row.subtopology for row in played.truth.tasks if row.incarnation == each} for each in (1, 2))
    assert (first, second) == ({"0"}, {"0", "1"})


def test_internal_topics(play: Callable[[str], Played]) -> None:
    """Goal: brokers create internal topics with as many partitions as the source has; tasks read and commit them."""
    played = play("streams-crash")
    topics = {name: len(topic.partitions) for name, topic in played.simulation.topics.by_name.items()}
    assert topics == {
        "orders.streams-crash-0000": 6,
        "streams-crash-0000-by-customer-repartition": 6,
        "streams-crash-0000-counts-changelog": 6,
    }
    commits = [each.request for each in played.outputs.exchanges if isinstance(each.request, OffsetCommitRequest)]
    assert {offset.topic for each in commits for offset in each.offsets} == {
        "orders.streams-crash-0000",
        "streams-crash-0000-by-customer-repartition",
    }
    assert all(each.generation_id > 0 and each.member_id for each in commits)


def test_samples(play: Callable[[str], Played]) -> None:
    """Goal: samples describe the group by the request of its type."""
    samples = play("streams-crash").outputs.group_states
    assert {(row.group_type, row.protocol_type, row.error) for row in samples} == {("streams", "streams", None)}
    assert {row.member_count for row in samples} == {2, 3}
    assert (samples[-1].state, samples[-1].group_epoch) == ("Stable", 6)
