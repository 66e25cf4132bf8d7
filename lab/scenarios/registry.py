"""Registers the scenarios, and defines what a scenario may need of its driver."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .driver import Driver

APPEND_FAILURE = "append_failure"
"""The driver can make the next append fail, whatever the error."""
RECORD_TOO_LARGE = "record_too_large"
"""The log takes no batch of TOO_LARGE bytes; the driver learns when one comes."""
DEAD_GROUP = "dead_group"
"""The driver can make a group Dead while its partition is still led."""
FORCED_STATE = "forced_state"
"""The driver can bring a group into a state that no request leads to."""
FAILOVER = "failover"
"""The driver can restart the coordinator from its log, also with other settings."""
UNLOAD = "unload"
"""The driver can give the group's partition away, and goes on talking to the coordinator that had it."""
LONG_WAIT = "long_wait"
"""The scenario waits for the 300 s of the new member timeout, or longer."""


@dataclass(frozen=True)
class Scenario:
    """A registered scenario, whose `name` follows Kafka's test suites. `needs` lists what only some drivers can do (the
    constants above), and `settings` are fields of the coordinator's Config that differ from the driver's."""

    number: int
    name: str
    play: Callable[[Driver], None]
    needs: frozenset[str]
    settings: dict[str, Any]


SCENARIOS: list[Scenario] = []


def scenario(
    number: int, name: str, *, needs: tuple[str, ...] = (), **settings: Any
) -> Callable[[Callable[[Driver], None]], Callable[[Driver], None]]:
    """Registers a scenario. Several scenarios may share a number, as parts of one that need different things of a
    driver."""

    def register(play: Callable[[Driver], None]) -> Callable[[Driver], None]:
        SCENARIOS.append(Scenario(number, name, play, frozenset(needs), settings))
        return play

    return register
