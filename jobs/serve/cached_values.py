"""Caches values computed from tables until one of the tables has another version, and computes each once, however many
requests need it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Versions = tuple[int | None, ...]


@dataclass(slots=True)
class _Entry:
    making: threading.Lock = field(default_factory=threading.Lock)
    # Replaced as a whole, so that who reads it without the lock has a pair that belongs together.
    made: tuple[Versions, Any] | None = None


class CachedValues:
    """Cached values, by key. While one request computes a value again, the others get the previous value, or wait for
    the first."""

    def __init__(self) -> None:
        self._entries: dict[object, _Entry] = {}

    def get(self, key: object, versions: Versions, make: Callable[[], Any]) -> Any:
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
                entry.made = versions, make()
            return entry.made[1]
        finally:
            entry.making.release()
