"""The scenarios by name. Each is a short function that schedules all actions on one group."""

from types import MappingProxyType

from groupledger.coordinator.simulator.scenarios.day import DAY, DEMO, SINGLE
from groupledger.coordinator.simulator.scenarios.failures import ABOUT_REBALANCES
from groupledger.coordinator.simulator.scenarios.jobs import JOBS
from groupledger.coordinator.simulator.scenarios.modern import MODERN
from groupledger.coordinator.simulator.scenarios.registry import Scenario
from groupledger.coordinator.simulator.scenarios.share import SHARED
from groupledger.coordinator.simulator.scenarios.streams import STREAMED
from groupledger.coordinator.simulator.scenarios.topics import ABOUT_TOPICS

_CLASSIC = (*SINGLE, *ABOUT_TOPICS, *ABOUT_REBALANCES, *JOBS)
WITH_EPOCHS = (*MODERN, *SHARED, *STREAMED)
"""The scenarios of groups that have epochs: those of KIP-848, share groups and streams groups."""
SCENARIOS = MappingProxyType({scenario.name: scenario for scenario in (*_CLASSIC, *WITH_EPOCHS, DAY, DEMO)})

__all__ = ["SCENARIOS", "WITH_EPOCHS", "Scenario"]
