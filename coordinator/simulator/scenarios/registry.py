"""Defines a scenario: its name, its purpose, and the function that schedules it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groupledger.coordinator.simulator.simulation import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.simulator.scenarios.script import Script


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario. `play` schedules all actions on one group, which take `hours` of virtual time. `settings` are those
    of the cluster."""

    name: str
    summary: str
    play: Callable[[Script], None]
    hours: float = 0.5
    settings: Settings = field(default_factory=Settings)
    groups: int = 1  # unless the run says otherwise
    names: tuple[str, ...] = ()  # of the first groups; the others have numbers


def scenario(
    name: str, summary: str, *, hours: float = 0.5, settings: Settings | None = None
) -> Callable[[Callable[[Script], None]], Scenario]:
    """Returns a decorator that turns a function into a scenario. The function schedules the scenario's actions on one
    group."""
    return lambda play: Scenario(name=name, summary=summary, play=play, hours=hours, settings=settings or Settings())
