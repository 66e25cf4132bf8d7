"""Members of a streams group, and the topologies that they run, for the tests of a coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.groups.modern.topics import Topic
from groupledger.coordinator.model.groups.streams.topology import Subtopology, TopicInfo, Topology
from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupHeartbeatRequest
from tests.coordinator.model.consumers import GROUP, ORDERS, PAYMENTS, Cluster

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.streams.group import StreamsGroup
    from groupledger.coordinator.model.groups.streams.tasks import TaskIds

COUNTS = Subtopology(
    subtopology_id="0", source_topics=(ORDERS.name,), state_changelog_topics=(TopicInfo("app-counts-changelog"),)
)
CHANGELOG = Topic("app-counts-changelog", "AAAAAAAAAAAAAAAAAAAAAw", ORDERS.partition_count)
PASSED_ON = Subtopology(subtopology_id="1", source_topics=(PAYMENTS.name,))
TOPOLOGY = Topology(1, (COUNTS, PASSED_ON))
LEFT = -1


def streams_cluster(**settings: Any) -> Cluster:
    """Returns a cluster that has all topics of the topology, and gives tasks out at once."""
    cluster = Cluster(**{"group_streams_initial_rebalance_delay_ms": 0, **settings})
    cluster.coordinator.topics[CHANGELOG.name] = CHANGELOG
    return cluster


def beat(cluster: Cluster, member_id: str, epoch: int, *, owned: TaskIds | None = None, **fields: Any) -> Any:
    """Sends a heartbeat; with `owned`, the member says that it has these active tasks and no others."""
    tasks = {} if owned is None else {"active_tasks": owned, "standby_tasks": (), "warmup_tasks": ()}
    words = {"group_id": GROUP, "client_id": "client", **tasks, **fields}
    return cluster.ask(StreamsGroupHeartbeatRequest, member_id=member_id, member_epoch=epoch, **words)


def join(cluster: Cluster, member_id: str, **fields: Any) -> Any:
    words = {"rebalance_timeout_ms": 60_000, "topology": TOPOLOGY, "process_id": f"process of {member_id}"}
    return beat(cluster, member_id, 0, owned=(), **{**words, **fields})


def group_of(cluster: Cluster) -> StreamsGroup:
    group = cluster.coordinator.streams_group(GROUP)
    assert group is not None
    return group


def types(cluster: Cluster) -> list[str]:
    return [record.record_type.removeprefix("streams_group_") for batch in cluster.log for record in batch.records]
