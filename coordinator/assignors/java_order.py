"""Reproduces Java's orders that an assignment shows: sorted strings, and the keys of a java.util.HashMap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.java_hash_map import hash_map_order, string_hash_code

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["computed_hash_map_order", "hash_map_order", "utf16_order"]


def utf16_order(text: str) -> bytes:
    """Returns a sort key that orders strings as Java's String.compareTo does, by UTF-16 code units; Python compares
    code points."""
    return text.encode("utf-16-be", "surrogatepass")


def computed_hash_map_order(keys: Iterable[str]) -> list[str]:
    """Returns the keys as a HashMap iterates them after `computeIfAbsent` of each in the given order.

    Unlike `put`, `computeIfAbsent` grows the table one call later, and adds a new key at the front of its bucket.
    Buckets of eight keys or more, which Java rearranges, are not modelled.
    """
    capacity = 16
    table: dict[str, None] = {}
    for key in keys:
        if len(table) > capacity * 3 // 4:
            capacity *= 2
        table[key] = None
    newest_first = list(reversed(table))
    return sorted(newest_first, key=lambda key: _spread(string_hash_code(key)) & (capacity - 1))


def _spread(hash_code: int) -> int:
    return hash_code ^ (hash_code & 0xFFFF_FFFF) >> 16
