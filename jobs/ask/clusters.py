"""Determines which cluster a question is about: the only one of a warehouse need not be named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from groupledger.jobs.process.errors import UnknownNameError
from groupledger.jobs.process.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from groupledger.jobs.ask.snapshots import Snapshots


def clusters_of(snapshots: Snapshots) -> list[str]:
    """Returns the clusters that the warehouse has read anything from."""
    if not snapshots.exists("coverage"):
        return []
    names: list[str] = pc.unique(snapshots.rows("coverage", ("cluster",)).read_all()["cluster"]).to_pylist()
    return sorted(names)


def cluster_asked(known: Sequence[str], given: str | None, usual: Callable[[], str]) -> str:
    """Returns the cluster that was given or, where none was, the only one or else the usual one, which takes a while to
    find out. Raises UnknownNameError, with the clusters that there are."""
    if given is None and len(known) == 1:
        return known[0]
    name = given or usual()
    if name in known or not known:
        return name
    raise UnknownNameError(
        f"The warehouse has no cluster {name}: it has {', '.join(map(printable, known))}; give one with --cluster."
    )
