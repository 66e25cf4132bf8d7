"""Lets passwords be tried one at a time, and in turn among the addresses that they come from.

bcrypt is slow on purpose, so guesses form a queue. Each address has a queue of its own, and the queues take turns: a
user from another address waits for one guess of each guesser, and not for all of them. Each queue has a limit, and so
has their sum.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class NoTurnError(Exception):
    """Too many requests are waiting already."""


@dataclass(slots=True)
class Turns:
    """Gives one turn at a time. At most `every` requests wait, and at most `of_one` from one address."""

    every: int
    of_one: int
    _is_taken: bool = False
    _waiting: int = 0
    _queues: OrderedDict[str, deque[anyio.Event]] = field(default_factory=OrderedDict)

    @asynccontextmanager
    async def one(self, address: str) -> AsyncIterator[None]:
        """Waits for a turn, and has it until the end of the block. Raises NoTurnError if too many requests wait
        already."""
        if self._is_taken:
            await self._wait(address)
        self._is_taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, address: str) -> None:
        queue = self._queues.setdefault(address, deque())
        if self._waiting >= self.every or len(queue) >= self.of_one:
            if not queue:
                del self._queues[address]
            raise NoTurnError
        mine = anyio.Event()
        queue.append(mine)
        self._waiting += 1
        try:
            await mine.wait()
        except BaseException:
            # It is ended while it waits, as the server ends, or when it was just its turn.
            if mine in queue:
                queue.remove(mine)
                self._waiting -= 1
            else:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Gives the turn to the first of the address whose turn it is. It stays taken all the while."""
        while self._queues:
            address, queue = self._queues.popitem(last=False)
            if not queue:
                continue
            self._waiting -= 1
            queue.popleft().set()
            if queue:
                self._queues[address] = queue
            return
        self._is_taken = False
