"""Registers the plays: each is a function of a group that plays one cause, or trouble-free operation. They lie in
`families`.

A play begins when the broker is ready. It starts its group's members, records the cause as it begins it
(`Group.cause`), and returns when it has nothing more to do. Its members keep running until the end of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from lab.diagnosis.clients import CLIENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

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
    """Registers a play for these `clients`. The topic of its group has `partitions`, and each gets `rate` records a
    second. `ends_sessions` says that sessions are meant to expire in the play."""

    def register(function: Callable[[Group], None]) -> Callable[[Group], None]:
        PLAYS[function.__name__] = Play(function.__name__, function, clients, partitions, rate, ends_sessions)
        return function

    return register


def in_rounds(
    folder: Path, plays: Sequence[tuple[Play, str]], at_once: int
) -> Iterator[tuple[Path, Sequence[tuple[Play, str]]]]:
    """Yields the plays in rounds of at most `at_once`, each with a folder of its own. The list has the plays of one
    family together; each round gets some of every family."""
    count = -(-len(plays) // at_once)
    for number in range(count):
        yield folder / f"round-{number + 1:02}", plays[number::count]


def all_plays() -> dict[str, Play]:
    for family in FAMILIES:
        import_module(f"lab.diagnosis.families.{family}")
    return PLAYS
