"""Turns a what-if's intervals into one number to act on, never more than there was to save.

The replay may have more rebalances than were observed, and the interval of its runs reaches even higher. A setting
can't save what did not happen: so savings are limited to what was observed or, where that is not known, to what was
replayed. The number is the middle of the interval that remains. An interval that begins below 0 and ends above it shows
neither a saving nor a cost: then there is no number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.jobs.process.output import Answer

    Figure = Mapping[str, Any]

FIGURES = {
    "rebalances": "rebalances",
    "partitions_moved": "partitions moved",
    "stopped_partition_seconds": "stopped partition-seconds",
    "records_processed_twice": "records processed twice",
}
UNCLEAR = "unclear"


def capped(figure: Figure) -> Answer:
    """Returns the figure with its saving limited to the observed value or, if that is not known, to the replayed
    one."""
    most = figure["replayed_high"] if figure["observed_high"] is None else figure["observed_high"]
    if most is None:
        return dict(figure)
    return {**figure, **{name: min(figure[name], most) for name in ("spared_low", "spared_high")}}


def capped_answer(answer: Answer) -> Answer:
    return {**answer, **{name: capped(figure) for name, figure in _figures(answer)}}


def saving(figure: Figure) -> float | None:
    """Returns the saving, negative for a cost; None if it is unclear whether the setting saves or costs."""
    low, high = round(figure["spared_low"]), round(figure["spared_high"])
    if low < 0 < high:
        return None
    middle: float = (figure["spared_low"] + figure["spared_high"]) / 2
    return middle


def saving_text(figure: Figure) -> str:
    """Returns the saving as text: `6`, `about 20`, `about -3` for a cost, or `unclear`."""
    number = saving(figure)
    if number is None:
        return UNCLEAR
    is_exact = round(figure["spared_low"]) == round(figure["spared_high"])
    return f"{'' if is_exact else 'about '}{round(number):,}"


def interval_text(figure: Figure, name: str) -> str | None:
    """Returns an interval of the figure as text: `6`, or `6 to 9`; None if it is not known."""
    low, high = figure[f"{name}_low"], figure[f"{name}_high"]
    if low is None:
        return None
    low, high = round(low), round(high)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def would_be(figure: Figure) -> int:
    """Returns the value under the other setting: the observed value less the saving or, if either is not a single
    number, the middle of the simulated interval."""
    number, low, high = saving(figure), figure["observed_low"], figure["observed_high"]
    if number is None or low is None or low != high:
        middle: float = (figure["asked_low"] + figure["asked_high"]) / 2
        return round(middle)
    observed: float = low
    return round(observed) - round(number)


def with_numbers(answers: Iterable[Answer]) -> list[Answer]:
    """Returns answers for a program: each figure has its saving as `spared`, null if it is unclear."""
    return [
        {**answer, **{name: {"spared": saving(figure), **figure} for name, figure in _figures(answer)}}
        for answer in answers
    ]


def _figures(answer: Answer) -> list[tuple[str, Figure]]:
    return [(name, value) for name, value in answer.items() if isinstance(value, dict) and "spared_low" in value]
