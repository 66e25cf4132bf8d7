"""Defines the facts of a group from the ledger that a monitor publishes beside its lag."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """Facts of a group; None if a fact is unknown. `idle_since_ms` is the time at which the group lost its last member
    or, for a simple consumer, last committed; it is also None while the group has members."""

    rebalances: int | None = None
    generation: int | None = None
    member_count: int | None = None
    idle_since_ms: int | None = None
    storms: int | None = None
    kafka_partition: int | None = None


NO_INFO = GroupInfo()
