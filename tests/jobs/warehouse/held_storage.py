"""Storage in whose calls a writer sleeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class HeldStorage(LocalStorage):
    """A directory at one of whose calls the caller sleeps, while something else happens."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.has_slept = False
        self._calls_left = -1
        self._meanwhile: Callable[[], None] = lambda: None

    def hold(self, after_calls: int, meanwhile: Callable[[], None]) -> None:
        """Lets the caller sleep before the call that comes after so many from now on."""
        self._calls_left, self._meanwhile = after_calls, meanwhile

    def _count(self) -> None:
        self._calls_left -= 1
        if self._calls_left == -1:
            self.has_slept = True
            self._meanwhile()

    def read(self, name: str) -> str | None:
        self._count()
        return super().read(name)

    def write(self, name: str, text: str) -> None:
        self._count()
        super().write(name, text)

    def names(self, folder: str) -> list[str]:
        self._count()
        return super().names(folder)

    def rename(self, source: str, target: str) -> None:
        self._count()
        super().rename(source, target)

    def delete(self, name: str) -> None:
        self._count()
        super().delete(name)

    def delete_folder(self, name: str) -> None:
        self._count()
        super().delete_folder(name)
