"""Adds up the measurements of incidents over many groups: comparisons and mistakes, claims by precision and recall, and
answers of the reference coordinator that differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lab.truth.faults import with_losses, without_answers
from lab.truth.scores import judged_replay

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from groupledger.transforms.incidents.rules import GroupFacts, Request
    from lab.truth.scores import Judged

LOST_SHARE = 0.05


class Measures:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.judged: dict[str, list[Judged]] = {
            "replayed, answers stripped": [],
            "replayed, 5% of lines lost": [],
            "inferred": [],
        }
        self.differences: Counter[str] = Counter()
        self.apart: Counter[str] = Counter()

    def replayed(self, facts: GroupFacts, random: Random) -> None:
        """Judges incidents from the requests alone, with all lines and with some lost."""
        stripped = without_answers(facts)
        self.judged["replayed, answers stripped"] += judged_replay(stripped, facts)
        lost = with_losses(stripped, random, LOST_SHARE)
        self.judged["replayed, 5% of lines lost"] += judged_replay(lost, facts)

    def compare(self, what: str, expected: Counter[object], found: Counter[object], where: str) -> None:
        """Compares two multisets, and notes what is missing and what is too many."""
        self.counts[what] += expected.total()
        missing = [f"missing {each}" for each in (expected - found).elements()]
        self.note(what, missing + [f"too many {each}" for each in (found - expected).elements()], where)

    def differing(self, facts: GroupFacts, answers: list[tuple[Request, int]]) -> list[tuple[Request, int]]:
        """Returns the reference coordinator's answers that differ from those in the log."""
        self.counts["requests"] += len(facts.requests)
        self.counts["answers compared"] += len(answers)
        return [(request, error) for request, error in answers if request.error_code != error]

    def note(self, what: str, wrong: Iterable[str], where: str) -> None:
        for line in wrong:
            self.wrong[what] += 1
            print(f"{where}, {what}: {line}", flush=True)

    def report(self) -> None:
        print(f"\n{'compared':<34}{'number':>9}{'wrong':>7}")
        for what, count in self.counts.items():
            print(f"{what:<34}{count:>9,}{self.wrong[what]:>7,}")
        for what, judged in self.judged.items():
            report_judged(what, judged)
        for title, differences in (
            ("answers that differ", self.differences),
            ("apart, see the head of the bench", self.apart),
        ):
            print(f"\n{title}: {differences.total():,}")
            for what, count in differences.most_common():
                print(f"  {what}: {count:,}")


def difference(request: Request, error: int) -> str:
    return f"{request.api}: the log has {request.error_code}, the reference coordinator {error}"


def report_judged(what: str, judged: list[Judged]) -> None:
    print(f"\n{what:<34}{'truth':>9}{'claimed':>9}{'right':>7}{'precision':>11}{'recall':>8}")
    for kind in sorted({each.kind for each in judged}):
        of_kind = [each for each in judged if each.kind == kind]
        truth, claimed = sum(each.is_true for each in of_kind), sum(each.is_claimed for each in of_kind)
        right = sum(each.is_true and each.is_claimed for each in of_kind)
        print(f"{kind:<34}{truth:>9,}{claimed:>9,}{right:>7,}{share(right, claimed):>11}{share(right, truth):>8}")
    for tenth in range(10, -1, -1):
        claims = [each for each in judged if each.is_claimed and int(each.confidence * 10 + 1e-9) == tenth]
        if claims:
            right = sum(each.is_true for each in claims)
            print(f"  confidence {tenth / 10:.1f} and more{'':<29}{len(claims):>4,}{right:>7,}", end="")
            print(f"{share(right, len(claims)):>11}")


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"
