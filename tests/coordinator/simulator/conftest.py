"""Plays scenarios once per run of the tests, and returns their truth with times in minutes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.simulator.application import Application
    from groupledger.coordinator.simulator.scenarios.script import Script
    from groupledger.coordinator.simulator.simulation import Outputs, Simulation
    from groupledger.coordinator.simulator.truth import Truth

SEED = 7


@dataclass(frozen=True)
class Played:
    """A scenario that has run to its end."""

    simulation: Simulation
    outputs: Outputs
    applications: list[Application]

    @property
    def truth(self) -> Truth:
        return self.simulation.recorder.truth

    def triggers(self) -> list[tuple[int, str, tuple[str, ...] | None]]:
        """Returns (to_generation, trigger, changes) of every rebalance."""
        return [(cause.to_generation, cause.trigger, cause.changes) for cause in self.truth.causes]

    def generations(self) -> list[tuple[int, int, int | None, int]]:
        """Returns (incarnation, generation, revision, members) of every generation."""
        return [(row.incarnation, row.generation, row.revision, len(row.member_ids)) for row in self.truth.generations]

    def refusals(self) -> list[tuple[str, str, str]]:
        """Returns (api, error, root cause) of every refusal, in order."""
        return [(row.api, row.error, row.root_cause) for row in self.truth.rejections]

    def leave_causes(self) -> list[str | None]:
        return [row.leave_cause for row in self.truth.members]

    def minutes(self, time_ms: int) -> float:
        return (time_ms - BEGAN_AT_MS) / 60_000

    def action_ms(self, action: str) -> int:
        """Returns when the scenario first did this action."""
        return next(row.happened_at_ms for row in self.truth.actions if row.action == action)


@cache
def played(name: str) -> Played:
    scenario = SCENARIOS[name]
    applications: list[Application] = []

    def play_and_keep(script: Script) -> None:
        scenario.play(script)
        applications.extend(script.applications)

    simulation = prepare(replace(scenario, play=play_and_keep), SEED)
    simulation.run(BEGAN_AT_MS + round(scenario.hours * 3_600_000))
    return Played(simulation, simulation.take(is_last=True), applications)


@pytest.fixture
def play() -> Callable[[str], Played]:
    return played
