"""Goal: judging a group takes as many steps for each of its facts after a long past as after a short one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.transforms.incidents.rules import incidents
from groupledger.transforms.incidents.rules.settling import settling
from lab.truth.made import RULES
from tests.transforms.incidents.lines_run import lines_run
from tests.transforms.incidents.rules.long_past import TROUBLES, group_with_a_past

if TYPE_CHECKING:
    from collections import Counter
    from types import CodeType

HOURS, LONGER = 2 * len(TROUBLES), 4
FEW = 200  # lines, which a function may run whatever the past is


def judged(hours: int) -> tuple[Counter[CodeType], set[str]]:
    """Returns how many lines each function runs to judge a group, and the kinds of its incidents."""
    facts = group_with_a_past(hours)

    def judge() -> set[str]:
        rows = incidents(facts, RULES)
        settling(facts, rows, RULES)
        return {row["kind"] for row in rows}

    return lines_run(judge)


def test_no_rule_looks_at_all_facts_for_each() -> None:
    short, kinds = judged(HOURS)
    long, kinds_after_all = judged(HOURS * LONGER)
    assert kinds == kinds_after_all
    assert len(kinds) >= 15
    grown = {
        f"{code.co_filename}:{code.co_firstlineno} {code.co_name}": (short[code], lines)
        for code, lines in long.items()
        if lines > 1.2 * LONGER * short[code] + FEW
    }
    assert grown == {}
    assert short.total() < long.total() < 1.1 * LONGER * short.total()
