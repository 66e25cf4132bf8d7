"""Cuts what is too much for one request or one query into chunks."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Item = TypeVar("Item")


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yields the items in their order, `size` at a time, and the rest."""
    left = iter(items)
    while chunk := list(islice(left, size)):
        yield chunk
