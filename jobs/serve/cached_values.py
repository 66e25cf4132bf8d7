"""Caches values computed from tables until one of the tables has another version.

`CachedValues` computes a value once, however many requests need it, and never drops a key, so it is for few keys; the
caller passes the versions of the tables. `CachedAnswers` is for as many keys as clients may ask for. It stores the
values that were asked for last, and records by itself which tables each was computed from.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.jobs.ask.cluster_rows import ClusterRows

Kind = TypeVar("Kind")
Versions = tuple[int | None, ...]
ANSWERS_MAX = 500


@dataclass(slots=True)
class _Entry:
    making: threading.Lock = field(default_factory=threading.Lock)
    # Replaced as a whole, so that who reads it without the lock has a pair that belongs together.
    made: tuple[Versions | None, Any] | None = None


class CachedValues:
    """Stores values by key. While one request computes a value again, the others get the previous value; if there is
    none yet, they wait."""

    def __init__(self) -> None:
        self._entries: dict[object, _Entry] = {}

    def get(
        self,
        key: object,
        versions: Versions,
        make: Callable[[], Any],
        is_final: Callable[[Any], bool] = lambda _: True,
    ) -> Any:
        """Returns the value for these versions of the tables. One that is not final is computed again by the next
        call."""
        entry = self._entries.setdefault(key, _Entry())
        made = entry.made
        if made is not None and made[0] == versions:
            return made[1]
        if made is not None and not entry.making.acquire(blocking=False):
            return made[1]
        if made is None:
            entry.making.acquire()
        try:
            if entry.made is None or entry.made[0] != versions:
                made_now = make()
                entry.made = versions if is_final(made_now) else None, made_now
            return entry.made[1]
        finally:
            entry.making.release()


class CachedAnswers:
    """Stores at most `most` values by key, and drops those that nobody asked for longest. A value is valid as long as
    every table that was opened to compute it has the same version."""

    def __init__(self, most: int = ANSWERS_MAX) -> None:
        self._most = most
        self._values: OrderedDict[object, tuple[dict[str, int | None], Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object, tables: ClusterRows, make: Callable[[], Kind]) -> Kind:
        """Returns the value of `key` for the cluster of `tables`; calls `make` if no valid value is stored. `make` must
        read through `tables` alone, so that its tables are known."""
        whole = (tables.cluster, key)
        with self._lock:
            versions, value = self._values.get(whole, ({}, None))
        if not versions or any(tables.version(table) != version for table, version in versions.items()):
            value = make()
            versions = tables.versions()
        with self._lock:
            self._values[whole] = versions, value
            self._values.move_to_end(whole)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        found: Kind = value
        return found
