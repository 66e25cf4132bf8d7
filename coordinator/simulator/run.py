"""Prepares a simulation of one scenario with its groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.simulator.scenarios.script import MINUTE_MS, Script
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS, Simulation

if TYPE_CHECKING:
    from groupledger.coordinator.simulator.scenarios import Scenario

_GROUPS_BEGIN_WITHIN_MS = MINUTE_MS


def prepare(scenario: Scenario, seed: int, groups: int | None = None, began_at_ms: int = BEGAN_AT_MS) -> Simulation:
    """Returns a simulation that has not begun, in which the scenario is scheduled for `groups` groups. If `groups` is
    None, the scenario says how many."""
    simulation = Simulation(seed, scenario.settings, began_at_ms)
    for number in range(scenario.groups if groups is None else groups):
        group_id = scenario.names[number] if number < len(scenario.names) else f"{scenario.name}-{number:04d}"
        source = simulation.source.source("group", group_id)
        began_at_ms = simulation.now_ms + source.between(0, _GROUPS_BEGIN_WITHIN_MS)
        scenario.play(Script(simulation, group_id, number, source, began_at_ms))
    return simulation
