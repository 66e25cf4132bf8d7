"""The scenarios by name, each a short function that schedules what befalls one group."""

from types import MappingProxyType

from coordinator.simulator.scenarios.day import DAY, SINGLE
from coordinator.simulator.scenarios.registry import Scenario

SCENARIOS = MappingProxyType({scenario.name: scenario for scenario in (*SINGLE, DAY)})

__all__ = ["SCENARIOS", "Scenario"]
