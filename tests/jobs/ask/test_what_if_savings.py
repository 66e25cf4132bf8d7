"""Goal: a what-if says one number, never more than there was, and none where it can't be acted on."""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.jobs.ask.what_if_savings import capped, saving, saving_text, with_numbers, would_be
from groupledger.jobs.ask.what_if_stored import sentence, totals


def figure(
    low: float, high: float, observed: float | None = 3, replayed: float = 4, asked: float = 1
) -> dict[str, Any]:
    found = {"observed_low": observed, "observed_high": observed, "replayed_low": replayed, "replayed_high": replayed}
    return found | {"asked_low": asked, "asked_high": asked, "spared_low": low, "spared_high": high}


@pytest.mark.parametrize(
    ("of", "text", "remains"),
    [
        (figure(3, 3), "3", 0),
        (figure(2, 5), "about 2", 1),  # once "2 to 5 of 3"
        (figure(5, 7), "3", 0),
        (figure(5, 7, observed=None), "4", 1),
        (figure(-4, -2), "about -3", 6),
        (figure(-0.4, 0.4), "0", 3),
        (figure(-2, 3), "unclear", 1),
        (figure(-2, 40, observed=1_500), "unclear", 1),
        (figure(1_000, 1_400, observed=1_500), "about 1,200", 300),
    ],
)
def test_one_number(of: dict[str, Any], text: str, remains: int) -> None:
    """Goal: a saving is at most the figure that was observed or, without one, replayed; saving and remainder add up to
    that figure."""
    cut = capped(of)
    assert (saving_text(cut), would_be(cut)) == (text, remains)
    assert capped(cut) == cut


def test_for_a_program() -> None:
    """Goal: the number has its interval beside it; a figure that is not computed stays null."""
    answer = {"group_id": "g", "rebalances": capped(figure(2, 5)), "partitions_moved": None}
    (reported,) = with_numbers([answer])
    assert (reported["rebalances"]["spared"], reported["rebalances"]["spared_high"], reported["partitions_moved"]) == (
        2.5,
        3,
        None,
    )


def answer(name: str, of: dict[str, Any]) -> dict[str, Any]:
    return {"group_id": name, "setting": "static", "refusal": None, "rebalances": capped(of)}


def test_the_sum_of_groups() -> None:
    """Goal: the sentence begins with one number for the groups for which it is clear, and claims nothing about the
    others."""
    (total,) = totals([answer("a", figure(2, 9)), answer("b", figure(5, 7)), answer("c", figure(-9, 9))])
    assert (total["groups_told"], total["rebalances_observed"], total["rebalances_spared_high"]) == (2, 6, 6)
    assert sentence(total) == (
        "static: about 6 of 6 rebalances avoided in 2 of 3 groups for which it can be computed; most in b, a."
    )
    (cost,) = totals([answer("a", figure(-4, -4))])
    assert sentence(cost) == "static: 4 more than 3 rebalances in 1 of 1 groups for which it can be computed."
    assert saving(figure(-9, 9)) is None
