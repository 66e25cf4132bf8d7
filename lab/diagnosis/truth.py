"""Defines the truth with which answers are compared: the causes that were played in a group, the clients concerned and
the time.

A group is one of the many that are played side by side. Its name and those of its topic and its clients are numbers, so
that they reveal nothing about the play. `causes` are names of `groupledger.schemas.kinds.causes`. A healthy group has
no causes, or only those of normal operation (a deploy, a scale-up).
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
    """A cause that was played. `also` are causes that describe it equally well. `beside` are causes that are true, too,
    but not sufficient as an answer, such as an expired session if the last member was killed. `who` are the client ids
    concerned."""

    name: str
    also: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    who: list[str] = field(default_factory=list)
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(slots=True)
class Played:
    """A group that was played. `clients` are all client ids that it ever had. A group is not judged if its play failed
    with the error `fault`, or if sessions expired that the play did not mean to end, as on a busy machine; `removals`
    is their number."""

    group_id: str
    play: str
    client: str
    began_ms: int
    causes: list[Cause] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    fault: str | None = None
    removals: int = 0

    @property
    def spoiled_by(self) -> str | None:
        """Returns why the group is not judged; None if it is."""
        return self.fault or (f"{self.removals} sessions ended by themselves" if self.removals else None)


def write_truth(path: Path, played: Iterable[Played]) -> None:
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in played))


def read_truth(path: Path) -> list[Played]:
    found = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        found.append(Played(**{**row, "causes": [Cause(**cause) for cause in row["causes"]]}))
    return found
