"""Counts the lines of Python that a call runs, which other work on the machine does not change."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

Result = TypeVar("Result")


def lines_run(call: Callable[[], Result]) -> tuple[Counter[CodeType], Result]:
    """Returns how many lines each function ran, and the result of the call. Each turn of a loop counts."""
    found: Counter[CodeType] = Counter()

    def in_function(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            found[frame.f_code] += 1
        return in_function

    before = sys.gettrace()
    sys.settrace(lambda _frame, _event, _argument: in_function)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return found, result
