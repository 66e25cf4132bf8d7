"""Defines what was played in a group, with which answers are compared: its causes, the clients concerned and the time.

A group is one of the many that play side by side. Its name, its topic's and its clients' are numbers, so that nothing
can be read from them. `causes` are names of `groupledger.schemas.kinds.causes`; a group in which nothing went wrong has
none, though something may have happened (a deploy, a scale-up).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@dataclass(slots=True)
class Cause:
    """A cause. `also` are causes that describe it equally well. `beside` are true, too, but not sufficient: such as a
    session that ended, where the last member was killed. `who` are the client ids concerned."""

    name: str
    also: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    who: list[str] = field(default_factory=list)
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(slots=True)
class Played:
    """A group that was played. `clients` are all client ids that it ever had. `fault` is the error of a play that
    failed, and `removals` are the sessions that ended without a cause in the play, as on a busy machine: such a group
    is not judged."""

    group_id: str
    play: str
    client: str
    began_ms: int
    causes: list[Cause] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    fault: str | None = None
    removals: int = 0


def write_truth(path: Path, played: Iterable[Played]) -> None:
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in played))


def read_truth(path: Path) -> list[Played]:
    found = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        found.append(Played(**{**row, "causes": [Cause(**cause) for cause in row["causes"]]}))
    return found
