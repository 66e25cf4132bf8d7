"""Measures how far what-if predictions are from what happens, on the simulator.

Each seed is a workload of restarts, crashes and scaling. It is run to the byte under one setting, its ledger is asked
what it would have come to under the others, and then it is run under those. For each pair of settings come the median
and the 95th percentile of the error (beside what happened in the middle), and how often it lay within the interval.

    python -m bench.what_if_accuracy [--seeds 200]
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from statistics import median, quantiles
from typing import TYPE_CHECKING

from lab.truth.what_if import FIGURES, SETTINGS, play, predicted

if TYPE_CHECKING:
    from groupledger.coordinator.what_if.answer import Told

FROM = ("range", "static", "cooperative-sticky")


class Errors:
    """What was predicted and what happened, of one figure under one setting asked from another."""

    def __init__(self) -> None:
        self.happened: list[float] = []
        self.off: list[float] = []
        self.within = 0

    def note(self, told: Told, happened: float) -> bool:
        """Returns whether it lay within the interval, to the next whole."""
        is_within = told.asked.low - 0.5 <= happened <= told.asked.high + 0.5
        self.happened.append(happened)
        self.off.append(abs((told.asked.low + told.asked.high) / 2 - happened))
        self.within += is_within
        return is_within

    def line(self) -> str:
        worst = quantiles(self.off, n=20)[-1] if len(self.off) > 1 else self.off[0]
        return (
            f"{len(self.off):>6}{median(self.happened):>10.1f}{median(self.off):>10.1f}{worst:>10.1f}"
            f"{self.within / len(self.off):>9.0%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    seeds = parser.parse_args().seeds
    errors: dict[tuple[str, str, str], Errors] = defaultdict(Errors)
    refused = told = 0
    for seed in range(1, seeds + 1):
        runs = {setting: play(seed, setting) for setting in SETTINGS}
        for known in FROM:
            asked = [_asked(setting) for setting in SETTINGS if setting != known]
            found = predicted(runs[known], asked) or []
            refused += not found
            for setting, answer in zip([each for each in SETTINGS if each != known], found, strict=False):
                refused += answer.refusal is not None
                told += answer.refusal is None
                figures = runs[setting].figures()
                for figure in FIGURES:
                    if figure in answer.told and figure in figures:
                        errors[known, setting, figure].note(answer.told[figure], figures[figure])
        if seed % 10 == 0:
            print(f"{seed} of {seeds} workloads", flush=True)
    print(f"{'had':<20}{'asked':<28}{'figure':<28}{'n':>6}{'median':>10}{'error':>10}{'95%':>10}{'within':>9}")
    for (known, setting, figure), each in sorted(errors.items()):
        print(f"{known:<20}{setting:<28}{figure:<28}{each.line()}")
    print(f"{told:,} answers told, {refused:,} refused")


def _asked(setting: str) -> str:
    """Returns the setting with all its parts, so that nothing of the known one stays."""
    membership = "static" if "static" in setting.split(",") else "dynamic"
    assigned_by = "cooperative-sticky" if "cooperative" in setting else "range"
    return f"{membership},{assigned_by}"


if __name__ == "__main__":
    main()
