"""Goal: each scenario of share groups shows what it says, and their members behave as Kafka's share consumers do."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.model.messages import ShareGroupHeartbeatRequest
from groupledger.coordinator.simulator.scenarios.share import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.coordinator.simulator.conftest import Played

pytestmark = pytest.mark.slow

STARTED = ["joined", "partitions_initialized", "joined"]
HEARTBEAT = "SHARE_GROUP_HEARTBEAT"
# The causes of epochs, the refusals, and the reasons for which members left.
SHOWN: dict[str, tuple[list[str], set[tuple[str, str]], list[str]]] = {
    "share-scale": ([*STARTED, *["joined"] * 3, "left", "left", "partitions_freed"], set(), ["left", "left"]),
    "share-crash": (
        [*STARTED, "joined", "session_expired", "partitions_freed", "joined"],
        set(),
        ["session_expired"],
    ),
    "share-pause": (
        [*STARTED, "joined", "session_expired", "partitions_freed", "joined"],
        {(HEARTBEAT, "UNKNOWN_MEMBER_ID")},
        ["session_expired"],
    ),
    "share-topics": (
        [
            *(*STARTED, "joined", "metadata_changed", "partitions_initialized"),
            *("metadata_changed", "metadata_changed", "topics_changed", "partitions_initialized"),
        ],
        set(),
        [],
    ),
    "share-failover": (
        [*STARTED, "joined", "joined"],
        {(HEARTBEAT, "COORDINATOR_LOAD_IN_PROGRESS"), (HEARTBEAT, "NOT_COORDINATOR")},
        [],
    ),
}


def heartbeats(played: Played) -> dict[str, list[ShareGroupHeartbeatRequest]]:
    """Returns the heartbeats of each member in order."""
    sent = [each.request for each in played.outputs.exchanges if isinstance(each.request, ShareGroupHeartbeatRequest)]
    by_member = sorted(sent, key=attrgetter("member_id"))
    return {member_id: [*requests] for member_id, requests in groupby(by_member, attrgetter("member_id"))}


def test_all_are_here() -> None:
    assert [scenario.name for scenario in SHARED] == [*SHOWN]


@pytest.mark.parametrize("name", SHOWN)
def test_what_it_shows(play: Callable[[str], Played], name: str) -> None:
    """Goal: the epochs' causes, the refusals and the departures."""
    truth = play(name).truth
    refusals = {(row.api, row.error) for row in truth.rejections}
    causes = [row.leave_cause for row in truth.members if row.leave_cause is not None]
    assert ([row.trigger for row in truth.epochs], refusals, causes) == SHOWN[name]


def test_members_share_partitions(play: Callable[[str], Played]) -> None:
    """Goal: five members share four partitions, and each partition has a member; the truth agrees with the consumers'
    holdings at the end."""
    played = play("share-scale")
    held = [row for row in played.truth.holdings if row.to_kafka_offset is None]
    places = [(row.topic, row.partition) for row in held]
    assert {number for _, number in places} == {0, 1, 2, 3}
    reported = {
        application.consumer.member_id: [each.partition for each in application.consumer.assignment]
        for application in played.applications
        if application.consumer is not None
    }
    assert reported == {name: sorted(row.partition for row in held if row.member_id == name) for name in reported}
    scaled_in_ms = played.action_ms("scale_in")
    had_some = {row.member_id for row in played.truth.holdings if row.valid_from_ms < scaled_in_ms}
    assert len(had_some) == 5


def test_what_a_member_says(play: Callable[[str], Played]) -> None:
    """Goal: a member says its subscription as it joins and when it has changed; one that closes leaves with epoch -1
    and subscribes to nothing, and one that was forgotten joins again under its id, and says all once more."""
    for requests in heartbeats(play("share-topics")).values():
        (first, *others) = [each for each in requests if each.subscribed_topic_names is not None]
        assert first is requests[0]
        assert first.member_epoch == 0
        (changed,) = others
        assert len(changed.subscribed_topic_names or ()) == 2
        assert changed.member_epoch > 0
    left = [requests[-1] for requests in heartbeats(play("share-scale")).values() if requests[-1].member_epoch == -1]
    assert [each.subscribed_topic_names for each in left] == [(), ()]
    joins = {
        member_id: [each for each in requests if each.member_epoch == 0]
        for member_id, requests in heartbeats(play("share-pause")).items()
    }
    assert sorted(map(len, joins.values())) == [1, 1, 2]
    assert all(each.subscribed_topic_names for requests in joins.values() for each in requests)


def test_samples(play: Callable[[str], Played]) -> None:
    """Goal: samples describe the group by the request of its type."""
    samples = play("share-crash").outputs.group_states
    assert {(row.group_type, row.protocol, row.protocol_type, row.state, row.error) for row in samples} == {
        ("share", "simple", "share", "Stable", None)
    }
    assert {row.member_count for row in samples} == {2, 3}
    assert samples[-1].group_epoch == 7
