"""Defines 67 scenarios of the classic protocol, which are played over an abstract driver.

A scenario is a function that sends requests, lets time pass, and compares the answers and records with what Kafka's own
tests and source say. The driver may be the coordinator in virtual time or a real broker. If a scenario requires
something that only some drivers can do (fail an append, make a group Dead), it lists that in `needs`. Names follow
Kafka's test suites.
"""

from . import failover, joining, liveness, offsets, rebalancing, static_members, syncing
from .coordinator_driver import CoordinatorDriver
from .driver import Driver, Member, StableGroup
from .registry import SCENARIOS, Scenario

__all__ = [
    "SCENARIOS",
    "CoordinatorDriver",
    "Driver",
    "Member",
    "Scenario",
    "StableGroup",
    "failover",
    "joining",
    "liveness",
    "offsets",
    "rebalancing",
    "static_members",
    "syncing",
]
