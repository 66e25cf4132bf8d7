"""How true the incidents are: every kind of evidence beside what really happened, over several seeds.

The simulator plays a group of every scenario with planted faults, and one of every clean one; their logs and their
topic go through the ledger's parsers, and the rules' claims are compared with the truth:

    observed   every refused request is in an incident, and none else; so with removals
    replayed   the same from the requests alone, their answers stripped; and then with 5% of the lines lost
    inferred   from the topic alone: precision and recall by kind, and how often a confidence was right
    clean      nothing above severity info, with both logs and without
    answers    the reference coordinator's beside the recorded ones, each difference listed

    python -m bench.incident_accuracy [--seeds 200] [--first-seed 1]

The run ends with 1 if what is observed is not whole, a clean run raises an alarm, or an answer differs that no absence
of the coordinator explains.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from tests.transforms.incident_rules.faults import (
    CLEAN,
    FAILOVERS,
    FAULTS,
    only_topic,
    play,
    with_losses,
    without_answers,
)
from tests.transforms.incident_rules.scores import (
    alarms,
    answer_differences,
    expected_refusals,
    is_told_apart,
    judged_inferred,
    judged_replay,
    observed_refusals,
    observed_removals,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.transforms.incident_rules.faults import Played
    from tests.transforms.incident_rules.scores import Judged

LOST_SHARE = 0.05
REPORT_EVERY = 10  # seeds: a long run that is broken off has told something


class Measurement:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.judged: dict[str, list[Judged]] = {
            "replayed, answers stripped": [],
            "replayed, 5% of lines lost": [],
            "inferred": [],
        }
        self.differences: Counter[str] = Counter()

    def group(self, played: Played, random: Random) -> None:
        self._observed(played)
        stripped = without_answers(played.facts)
        self.judged["replayed, answers stripped"] += judged_replay(stripped, played.facts)
        lost = with_losses(stripped, random, LOST_SHARE)
        self.judged["replayed, 5% of lines lost"] += judged_replay(lost, played.facts)
        self.judged["inferred"] += judged_inferred(played)
        self._answers(played)
        if played.name in CLEAN:
            for facts in (played.facts, only_topic(played.facts)):
                self.counts["clean runs"] += 1
                self._note("clean runs", alarms(facts), played)

    def _observed(self, played: Played) -> None:
        expected_removals, removals = observed_removals(played)
        for what, expected, found in (
            ("refusals observed", expected_refusals(played), observed_refusals(played)),
            ("removals observed", expected_removals, removals),
        ):
            self.counts[what] += expected.total()
            missing = [f"missing {each}" for each in (expected - found).elements()]
            self._note(what, missing + [f"too many {each}" for each in (found - expected).elements()], played)

    def _answers(self, played: Played) -> None:
        self.counts["answers compared"] += len(played.facts.requests)
        for request, error in answer_differences(played.facts):
            self.differences[f"{request.api}: the log has {request.error_code}, the reference coordinator {error}"] += 1
            if is_told_apart(request, error):
                self._note("answers compared", [f"{request.proof.row_key}: {request.api} {request.member_id}"], played)

    def _note(self, what: str, wrong: Iterable[str], played: Played) -> None:
        for line in wrong:
            self.wrong[what] += 1
            print(f"{played.name} {played.group.group_id}, {what}: {line}", flush=True)

    def report(self) -> None:
        print(f"\n{'compared':<34}{'number':>9}{'wrong':>7}")
        for what, count in self.counts.items():
            print(f"{what:<34}{count:>9,}{self.wrong[what]:>7,}")
        for what, judged in self.judged.items():
            report_judged(what, judged)
        print("\nanswers that differ")
        for what, count in self.differences.most_common():
            print(f"  {what}: {count:,}")


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--scenario", choices=(*CLEAN, *FAULTS, *dict.fromkeys(FAILOVERS)), action="append")
    arguments = parser.parse_args()
    measurement = Measurement()
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        random = Random(seed)  # noqa: S311  # runs repeat
        for names in (arguments.scenario,) if arguments.scenario else (CLEAN, FAULTS, FAILOVERS):
            for played in play(*names, seed=seed):
                measurement.group(played, random)
        print(f"seed {seed}: {sum(measurement.wrong.values()):,} wrong so far", flush=True)
        if seed % REPORT_EVERY == 0:
            measurement.report()
    measurement.report()
    sys.exit(1 if any(measurement.wrong.values()) else 0)


if __name__ == "__main__":
    main()
