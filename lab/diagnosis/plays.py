"""The registry of plays: a function of a group for each cause that can be caused, in the families beside this file.

A play begins when the broker is ready. It starts its group's members, writes down the cause as it begins it
(`Group.cause`), and returns when nothing more has to be done; its members keep running until the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from lab.diagnosis.clients import CLIENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.diagnosis.group import Group

FAMILIES = ("members", "rebalances", "progress", "refused", "offsets", "topics", "well", "pairs")


@dataclass(frozen=True, slots=True)
class Play:
    name: str
    run: Callable[[Group], None]
    clients: Sequence[str]
    partitions: int
    rate: float
    ends_sessions: bool


PLAYS: dict[str, Play] = {}


def play(
    clients: Sequence[str] = CLIENTS, *, partitions: int = 4, rate: float = 1.0, ends_sessions: bool = False
) -> Callable[[Callable[[Group], None]], Callable[[Group], None]]:
    """Registers a play, with the partitions of its group's topic, how many records each gets a second, and whether it
    means sessions to end."""

    def register(function: Callable[[Group], None]) -> Callable[[Group], None]:
        PLAYS[function.__name__] = Play(function.__name__, function, clients, partitions, rate, ends_sessions)
        return function

    return register


def all_plays() -> dict[str, Play]:
    for family in FAMILIES:
        import_module(f"lab.diagnosis.families.{family}")
    return PLAYS
