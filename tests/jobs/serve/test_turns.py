"""Goal: turns go round among addresses, and nobody waits without end."""

from __future__ import annotations

from collections import Counter

import anyio
import anyio.lowlevel
import pytest

from groupledger.jobs.serve.turns import NoTurnError, Turns


def test_turns_go_round() -> None:
    """Goal: one request is answered at a time; a late one from another address waits for one of each address, and too
    many are refused."""
    order: list[str] = []
    refused: Counter[str] = Counter()
    at_once = Counter[str]()

    async def ask(turns: Turns, address: str) -> None:
        try:
            async with turns.one(address):
                at_once["now"] += 1
                assert at_once["now"] == 1
                await anyio.lowlevel.checkpoint()
                order.append(address)
                at_once["now"] -= 1
        except NoTurnError:
            refused[address] += 1

    async def run() -> None:
        turns = Turns(every=12, of_one=6)
        async with anyio.create_task_group() as group:
            for address in [*"aaaaaaaaa", *"bbb", "c", *"ddddd"]:
                group.start_soon(ask, turns, address)
        async with turns.one("a"):
            order.append("afterwards")

    anyio.run(run)
    assert order[:5] == ["a", "a", "b", "c", "d"]
    assert order[-1] == "afterwards"
    assert refused == {"a": 2, "d": 3}
    assert Counter(order) == {"a": 7, "b": 3, "c": 1, "d": 2, "afterwards": 1}


@pytest.mark.parametrize("is_given", [False, True])
def test_who_is_ended_while_waiting(*, is_given: bool) -> None:
    """Goal: a turn of somebody who is not there any more goes on to the next."""
    order: list[str] = []

    async def run() -> None:
        turns = Turns(every=9, of_one=9)
        scope = anyio.CancelScope()

        async def ended() -> None:
            with scope:
                async with turns.one("a"):
                    order.append("ended")

        async def goes_on() -> None:
            async with turns.one("b"):
                order.append("goes on")

        async with anyio.create_task_group() as group:
            async with turns.one("first"):
                group.start_soon(ended)
                await anyio.sleep(0.01)
                group.start_soon(goes_on)
                await anyio.sleep(0.01)
                if not is_given:
                    scope.cancel()
                    await anyio.sleep(0.01)
            scope.cancel()

    anyio.run(run)
    assert order == ["ended"] * is_given + ["goes on"]
