"""Lets a job die between two of its writes, as a SIGKILL would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class KilledError(Exception):
    """Stands for a SIGKILL: nothing after it happens, and what is written stays written."""


def kill(*_arguments: Any) -> None:
    raise KilledError


class KillBefore:
    """A write that kills its caller after so many calls."""

    def __init__(self, write: Callable[..., object], survived: int) -> None:
        self.has_killed = False
        self._write, self._left = write, survived

    def __call__(self, *arguments: Any) -> None:
        if self._left == 0:
            self.has_killed = True
            kill()
        self._left -= 1
        self._write(*arguments)
