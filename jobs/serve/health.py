"""Says whether the server can do its work. `/livez` says that it runs; `/readyz` whether its warehouse can be read.

However often `/readyz` is requested, the warehouse is read at most every FRESH_S seconds, in a thread of its own. So
neither questions nor a storage that does not respond delay the answer by more than WAIT_S seconds.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from groupledger.jobs.serve.readers import status_and_sentence

if TYPE_CHECKING:
    from groupledger.jobs.serve.answers import Warehouse

FRESH_S = 5.0
WAIT_S = 2.0


async def lives() -> str | None:
    return None


@dataclass(slots=True)
class Readiness:
    """Says whether the warehouse can be read, from a look that is at most FRESH_S seconds old or still in progress."""

    warehouse: Warehouse
    _limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    _look: asyncio.Task[list[str]] | None = None
    _began: float = 0.0

    async def __call__(self) -> str | None:
        """Returns why the server is not ready; None if it is."""
        now = time.monotonic()
        if self._look is None or (self._look.done() and now - self._began >= FRESH_S):
            self._look = asyncio.create_task(to_thread.run_sync(self.warehouse.clusters, limiter=self._limiter))
            self._began = now
        await asyncio.wait({self._look}, timeout=WAIT_S)
        if not self._look.done():
            return "The ledger's tables can't be read at present."
        error = self._look.exception()
        return None if error is None else status_and_sentence(error, self.warehouse.place)[1]
