"""Measures how far what-if predictions are from what happens, on the simulator.

Each seed is a workload of restarts, crashes and scaling. The workload is simulated under each setting. The ledger of
one setting's run is asked what would have happened under the others, and the answers are compared with the runs under
those. For each pair of settings the program prints the median and the 95th percentile of the error (from the middle of
the predicted interval), and how often the real figure lay within the interval. Seeds can be run in pieces: `--keep`
writes each answer with the real figure into a file, and `--kept` sums up such files. `--only` asks only about pairs
with this setting; `consumer` is the protocol of KIP-848.

    python -m bench.what_if_accuracy [--seeds 1-200] [--only consumer] [--keep FILE]
    python -m bench.what_if_accuracy --kept FILE [FILE]...
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.what_if.answer import Interval
from lab.truth.what_if import FIGURES, SETTINGS, play, predicted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.truth.what_if import Happened

FROM: Final = ("range", "static", "cooperative-sticky", "consumer")
HEADER: Final = (
    f"{'had':<28}{'asked':<28}{'figure':<28}{'n':>6}{'median':>10}{'width':>10}{'error':>10}{'95%':>10}{'within':>9}"
)


class Errors:
    """What was predicted and what happened, of one figure under one setting asked from another."""

    def __init__(self) -> None:
        self.happened: list[float] = []
        self.widths: list[float] = []
        self.off: list[float] = []
        self.within = 0

    def note(self, asked: Interval, happened: float) -> bool:
        """Returns whether it lay within the interval, to the next whole."""
        is_within = asked.low - 0.5 <= happened <= asked.high + 0.5
        self.happened.append(happened)
        self.widths.append(asked.high - asked.low)
        self.off.append(abs((asked.low + asked.high) / 2 - happened))
        self.within += is_within
        return is_within

    def line(self) -> str:
        worst = quantiles(self.off, n=20)[-1] if len(self.off) > 1 else self.off[0]
        middles = "".join(f"{median(each):>10.1f}" for each in (self.happened, self.widths, self.off))
        return f"{len(self.off):>6}{middles}{worst:>10.1f}{self.within / len(self.off):>9.0%}"


def table(errors: Mapping[tuple[str, str, str], Errors]) -> Iterator[str]:
    """Yields the lines of the table of all errors, by what a group had, what was asked, and the figure."""
    yield HEADER
    for (had, asked, figure), each in sorted(errors.items()):
        yield f"{had:<28}{asked:<28}{figure:<28}{each.line()}"


def seeds_of(text: str) -> range:
    """Returns the seeds from one to another, or the one that is named."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds_of, default="1-200", help="a workload each: 1-200, or 7")
    parser.add_argument("--only", choices=SETTINGS, help="ask only about pairs with this setting")
    parser.add_argument("--keep", type=Path, help="a file to which the answers are added")
    parser.add_argument("--kept", type=Path, nargs="+", help="files that were kept, to be summed up")
    given = parser.parse_args()
    if given.kept:
        report(json.loads(line) for file in given.kept for line in file.read_text().splitlines())
        return
    found: list[dict[str, Any]] = []
    for seed in given.seeds:
        of_seed = list(answers_of(seed, {setting: play(seed, setting) for setting in SETTINGS}, given.only))
        found += of_seed
        if given.keep:
            with given.keep.open("a") as file:
                file.writelines(json.dumps(each) + "\n" for each in of_seed)
        print(f"workload {seed} of {given.seeds[-1]}", flush=True)
    report(found)


def answers_of(seed: int, runs: Mapping[str, Happened], only: str | None = None) -> Iterator[dict[str, Any]]:
    """Yields each figure predicted for a setting from another one's ledger, beside the real one; or a refusal. With
    `only`, one of the two settings is this one."""
    for had in FROM:
        asked = [setting for setting in SETTINGS if setting != had and only in {None, had, setting}]
        found = predicted(runs[had], [_asked(setting) for setting in asked])
        for number, setting in enumerate(asked):
            row = {"seed": seed, "had": had, "asked": setting}
            answer = None if found is None else found[number]
            if answer is None or answer.refusal is not None:
                yield {**row, "refusal": "The group can't be replayed." if answer is None else answer.refusal}
                continue
            came = runs[setting].figures()
            for figure in FIGURES:
                if figure in answer.figures and figure in came:
                    answered = answer.figures[figure].asked
                    yield {**row, "figure": figure, "low": answered.low, "high": answered.high, "came": came[figure]}


def report(rows: Iterable[Mapping[str, Any]]) -> None:
    errors: dict[tuple[str, str, str], Errors] = defaultdict(Errors)
    answered, refused = set(), 0
    for row in rows:
        if "refusal" in row:
            refused += 1
            print(f"workload {row['seed']} ({row['had']}), {row['asked']}: {row['refusal']}")
            continue
        answered.add((row["seed"], row["had"], row["asked"]))
        interval = Interval(row["low"], row["high"])
        if not errors[row["had"], row["asked"], row["figure"]].note(interval, row["came"]):
            print(
                f"workload {row['seed']} ({row['had']}), {row['asked']}: {row['figure']}"
                f" from {interval.low:.1f} to {interval.high:.1f} came to {row['came']:.1f}"
            )
    print(*table(errors), f"{len(answered):,} answers, {refused:,} refused", sep="\n")


def _asked(setting: str) -> str:
    """Returns the setting with all its parts, so that nothing of the known one stays."""
    membership = "static" if "static" in setting.split(",") else "dynamic"
    named = {*setting.split(",")} - {"static"}
    return f"{membership},{named.pop() if named else 'range'}"


if __name__ == "__main__":
    main()
