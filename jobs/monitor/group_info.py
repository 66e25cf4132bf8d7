"""Defines the facts of a group from the ledger that a monitor publishes beside its lag."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """Facts of a group; None is unknown. `idle_since_ms` is when it lost its last member, or when a simple consumer
    last committed; None while it has members."""

    rebalances: int | None = None
    generation: int | None = None
    member_count: int | None = None
    idle_since_ms: int | None = None
    storms: int | None = None
    kafka_partition: int | None = None


NO_INFO = GroupInfo()
