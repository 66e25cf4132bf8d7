"""Determines the cluster of a question: it may be left out if the warehouse has only one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from groupledger.jobs.process.errors import UnknownNameError
from groupledger.jobs.process.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from groupledger.jobs.ask.snapshots import Snapshots


def clusters_of(snapshots: Snapshots) -> list[str]:
    """Returns the clusters that have rows in the warehouse."""
    if not snapshots.exists("coverage"):
        return []
    names: list[str] = pc.unique(snapshots.rows("coverage", ("cluster",)).read_all()["cluster"]).to_pylist()
    return sorted(names)


def chosen_cluster(known: Sequence[str], given: str | None, usual: Callable[[], str]) -> str:
    """Returns the given cluster. Without one, returns the only cluster or, if there are several, the result of `usual`,
    a slow call. If the warehouse has other clusters but not this one, raises UnknownNameError with a list of them."""
    if given is None and len(known) == 1:
        return known[0]
    name = given or usual()
    if name in known or not known:
        return name
    raise UnknownNameError(
        f"The warehouse has no cluster {name}: it has {', '.join(map(printable, known))}; give one with --cluster."
    )
