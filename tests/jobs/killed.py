"""Lets a job die between two of its writes, as a SIGKILL would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class KilledError(Exception):
    """Stands for a SIGKILL: nothing after it happens, and what is written stays written."""


def killing(write: Callable[..., Any], survived: int) -> Callable[..., None]:
    """Returns a write that kills its caller after so many calls."""
    left = survived

    def act(*arguments: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KilledError
        write(*arguments)

    return act
