"""Compares the durable part of a coordinator's state with its log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.classic.states import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.coordinator.model.offset_store import OffsetStore, PartitionMap
    from groupledger.coordinator.model.operation import Batch
    from groupledger.coordinator.model.shard import Shard


def assert_is_fold(coordinator: Coordinator, batches: Sequence[Batch], now_ms: int) -> None:
    """Asserts that offsets and groups are those that a failover would load from the log, up to the groups' soft
    state."""
    # Loaded without a limit: over capacity, a group would prepare a rebalance at once.
    folded = Coordinator(replace(coordinator.config, group_max_size=Config().group_max_size))
    for partition in range(coordinator.config.offsets_topic_num_partitions):
        folded.load(partition, [batch for batch in batches if batch.partition == partition], now_ms=now_ms)
        live_shard = coordinator.shard(partition)
        folded_shard = folded.shard(partition)
        if live_shard is not None and folded_shard is not None:
            _assert_shard_is_fold(live_shard, folded_shard)


def _assert_shard_is_fold(live: Shard, folded: Shard) -> None:
    assert live.log_end_offset == folded.log_end_offset
    assert _offsets(live.offsets) == _offsets(folded.offsets)
    assert not set(folded.groups) - set(live.groups)
    for group_id, group in live.groups.items():
        of_log = folded.groups.get(group_id)
        if of_log is None:
            # No record shows a group that began as a simple group, and in which no member has synced.
            assert not list(live.offsets.committed.of_group(group_id))
        else:
            assert isinstance(group, Group)
            assert isinstance(of_log, Group)
            _assert_group_is_fold(group, of_log)


def _assert_group_is_fold(live: Group, of_log: Group) -> None:
    assert of_log.state in (State.STABLE, State.EMPTY)
    assert of_log.generation_id <= live.generation_id
    if live.state is State.STABLE:
        assert _durable(live) == _durable(of_log)
    elif live.state is State.EMPTY and live.generation_id == of_log.generation_id:
        assert not of_log.members
        assert live.protocol_type == of_log.protocol_type


def _durable(group: Group) -> dict[str, Any]:
    """Subscribed topics are left out: the broker computes them per generation and at load, so that between a static
    member's restart with another topic list and the next rebalance only a failover makes them known.
    """
    return {
        "state": group.state,
        "generation": group.generation_id,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader_id,
        "static_members": group.static_members,
        "members": {
            member.member_id: (
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(group.protocol_name),
                member.assignment,
            )
            for member in group.members.values()
        },
    }


def _offsets(store: OffsetStore) -> dict[str, Any]:
    return {
        "committed": _by_place(store.committed),
        "pending": {producer_id: _by_place(offsets) for producer_id, offsets in store.pending.items()},
        "open": _by_place(store.open_transactions),
    }


def _by_place(values: PartitionMap[Any]) -> dict[tuple[str, str, int], Any]:
    return {
        (group_id, topic, partition): value
        for group_id in values.groups
        for topic, partition, value in values.of_group(group_id)
    }
