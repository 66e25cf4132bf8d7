"""Goal: judging a group takes as many steps for each of its facts after a long past as after a short one."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from groupledger.transforms.incidents.rules import incidents
from groupledger.transforms.incidents.rules.settling import settling
from lab.truth.made import RULES
from tests.transforms.incidents.rules.long_past import TROUBLES, group_with_a_past

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from groupledger.transforms.incidents.rules import GroupFacts

HOURS, LONGER = 2 * len(TROUBLES), 4
FEW = 200  # lines, which a function may run whatever the past is


def lines_run(facts: GroupFacts) -> tuple[Counter[CodeType], list[dict[str, Any]]]:
    """Returns how many lines each function runs to judge a group, and its incidents. Each turn of a loop counts."""
    found: Counter[CodeType] = Counter()

    def in_function(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            found[frame.f_code] += 1
        return in_function

    before = sys.gettrace()
    sys.settrace(lambda _frame, _event, _argument: in_function)
    try:
        rows = incidents(facts, RULES)
        settling(facts, rows, RULES)
    finally:
        sys.settrace(before)
    return found, rows


def test_no_rule_looks_at_all_facts_for_each() -> None:
    short, rows_of_short = lines_run(group_with_a_past(HOURS))
    long, rows_of_long = lines_run(group_with_a_past(HOURS * LONGER))
    assert {row["kind"] for row in rows_of_short} == {row["kind"] for row in rows_of_long}
    assert len({row["kind"] for row in rows_of_long}) >= 15
    grown = {
        f"{code.co_filename}:{code.co_firstlineno} {code.co_name}": (short[code], lines)
        for code, lines in long.items()
        if lines > 1.2 * LONGER * short[code] + FEW
    }
    assert grown == {}
    assert short.total() < long.total() < 1.1 * LONGER * short.total()
