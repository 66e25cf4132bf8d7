"""Measures how true the history is: compares the ledger of every scenario with what really happened, over several
seeds.

The simulator plays each scenario with a few groups, its capture goes through the decoder and the fold, and every row is
compared with the truth. If a table differs, the rows are printed, and the run ends with 1. Then the log cleaner removes
records of the same log up to a random instant, as if a ledger had begun to read there: none of its claims may be wrong.
At the end the inferred triggers and leave causes are printed, by precision and recall, and how often each confidence
was right.

    python -m bench.history_accuracy [--seeds 5] [--groups 2]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from lab.truth.against_truth import (
    by_confidence,
    differences,
    holes,
    leaves,
    logged_triggers,
    lost_generations,
    owner_answers,
    scores,
    triggers,
    untimely_tenures,
    wrong_claims,
)
from lab.truth.simulated import PLAYED, groups_of, ledger_of, thinned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.truth.against_truth import Guessed
    from lab.truth.simulated import Group, Ledger

INSTANTS_PER_GROUP = 50
SHOWN_PER_GROUP = 5


class Measurement:
    """Counts comparisons and mistakes."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.triggers: list[Guessed] = []
        self.leaves: list[Guessed] = []

    def complete(self, group: Group, random: Random) -> None:
        ledger = ledger_of(group)
        for table, different in differences(group, ledger).items():
            self._note(group, table, len(ledger.rows[table]), different)
        self._note(group, "members in time", len(ledger.rows["members"]), untimely_tenures(group, ledger))
        holes_wrong = sorted(holes(ledger) ^ lost_generations(group))
        self._note(group, "holes", len(holes(ledger)), [f"{place} is no hole, or no row" for place in holes_wrong])
        logged = logged_triggers(group, ledger)
        unlike = [f"{each.truth}, and not {each.guess}" for each in logged if each.truth != each.guess]
        self._note(group, "triggers by log", len(logged), unlike)
        self._owners("owners at an instant", group, ledger, random)
        self.triggers += triggers(group, ledger)
        self.leaves += leaves(group, ledger)

    def compacted(self, group: Group, random: Random) -> None:
        ledger = ledger_of(group)
        rows = sum(len(ledger.rows[table]) for table in ("generations", "rebalances", "assignments"))
        self._note(group, "claims after compaction", rows, wrong_claims(group, ledger))
        self._owners("owners after compaction", group, ledger, random)

    def _owners(self, what: str, group: Group, ledger: Ledger, random: Random) -> None:
        for _ in range(INSTANTS_PER_GROUP):
            answers = owner_answers(group, ledger, random.randrange(BEGAN_AT_MS, group.until_ms))
            self._note(group, what, answers.definite, answers.wrong)
            self.rows[f"{what}: unknown"] += answers.unknown

    def _note(self, group: Group, what: str, rows: int, wrong: list[str]) -> None:
        self.rows[what] += rows
        self.wrong[what] += len(wrong)
        for line in wrong[:SHOWN_PER_GROUP]:
            print(f"{group.group_id}, {what}: {line}", flush=True)

    def report(self) -> None:
        print(f"\n{'compared':<34}{'rows':>9}{'wrong':>7}")
        for what, count in self.rows.items():
            print(f"{what:<34}{count:>9,}{self.wrong[what]:>7,}")
        report_guesses("inferred trigger", self.triggers)
        report_guesses("leave cause", self.leaves)


def report_guesses(what: str, guesses: list[Guessed]) -> None:
    print(f"\n{what:<34}{'truth':>9}{'guessed':>9}{'right':>7}{'precision':>11}{'recall':>8}")
    for name, score in scores(guesses).items():
        counts = f"{score.truth_count:>9,}{score.guess_count:>9,}{score.right_count:>7,}"
        print(f"{name:<34}{counts}{share(score.precision):>11}{share(score.recall):>8}")
    right = sum(guessed.truth == guessed.guess for guessed in guesses)
    print(f"{'all':<34}{len(guesses):>9,}{len(guesses):>9,}{right:>7,}{share(right / len(guesses)):>11}")
    for confidence, count, right in by_confidence(guesses):
        print(f"  confidence {confidence:.1f} and more{'':<20}{count:>9,}{right:>7,}{share(right / count):>11}")
    print_confusions(guesses)


def print_confusions(guesses: Iterable[Guessed]) -> None:
    confused = Counter((guessed.truth, guessed.guess) for guessed in guesses if guessed.truth != guessed.guess)
    for (truth, guess), count in confused.most_common():
        print(f"  {truth} taken for {guess}: {count:,}")


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--scenario", choices=PLAYED, action="append")
    arguments = parser.parse_args()
    measurement = Measurement()
    for seed in range(1, arguments.seeds + 1):
        for name in arguments.scenario or PLAYED:
            random = Random(f"{name} {seed}")  # noqa: S311  # runs repeat
            for group in groups_of(name, seed, arguments.groups):
                if not PLAYED[name].settings.is_compacted:
                    measurement.complete(group, random)
                measurement.compacted(group if PLAYED[name].settings.is_compacted else thinned(group, random), random)
        print(f"seed {seed}: {sum(measurement.wrong.values()):,} wrong so far", flush=True)
    measurement.report()
    sys.exit(1 if any(measurement.wrong.values()) else 0)


if __name__ == "__main__":
    main()
