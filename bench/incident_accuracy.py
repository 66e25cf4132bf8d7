"""Measures how true the incidents are: compares every kind of evidence with what really happened, over several seeds.

The simulator plays a group of every scenario with planted faults, and one of every clean scenario. Their logs and their
topic go through the ledger's parsers, and the rules' claims are compared with the truth:

    observed   exactly the refused requests and the removals are in incidents
    replayed   the same from the requests alone, without their answers; and then with 5% of the lines lost
    inferred   from the topic and samples: precision and recall by kind, and how often a confidence was right
    clean      no incident above severity info, with both logs and without
    answers    the reference coordinator's answers equal the recorded ones; each difference is listed

If a coordinator crashes, a parked join or a removal that was not written yet is in no request log. And the truth does
not know a member that no generation has counted. Differences for these two reasons are counted separately ("apart").

    python -m bench.incident_accuracy [--seeds 200] [--first-seed 1]

The run ends with 1 if an observed incident is missing or wrong, if a clean run has an incident above severity info, or
if an answer differs that no failover explains.
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from typing import TYPE_CHECKING

from bench.incident_measures import Measures, difference
from lab.truth.faults import (
    CLEAN,
    FAILOVERS,
    FAULTS,
    LONG_FAULTS,
    NORMAL_LIFE,
    only_topic,
    play,
)
from lab.truth.scores import (
    alarms,
    expected_refusals,
    is_lost_in_failover,
    is_one_sided,
    judged_inferred,
    observed_refusals,
    observed_removals,
    replayed_answers,
)

if TYPE_CHECKING:
    from lab.truth.faults import Played

TOGETHER = (CLEAN, FAULTS, FAILOVERS, NORMAL_LIFE, LONG_FAULTS)
SCENARIOS = tuple(dict.fromkeys(name for names in TOGETHER for name in names))
INFERRED = "inferred"
INFERRED_LATER = "inferred, jobs and waiting"  # apart, so that the figures of the others compare with earlier ones
REPORT_EVERY = 10  # seeds: a long run that is broken off has printed something


class Measurement(Measures):
    def __init__(self) -> None:
        super().__init__()
        self.judged[INFERRED_LATER] = []

    def group(self, played: Played, random: Random) -> None:
        where = f"{played.name} {played.group.group_id}"
        self._observed(played, where)
        self.replayed(played.facts, random)
        is_later = played.name in (*NORMAL_LIFE, *LONG_FAULTS)
        self.judged[INFERRED_LATER if is_later else INFERRED] += judged_inferred(played)
        self._answers(played, where)
        if played.name in (*CLEAN, *NORMAL_LIFE):
            for facts in (played.facts, only_topic(played.facts)):
                self.counts["clean runs"] += 1
                self.note("clean runs", alarms(facts), where)

    def _observed(self, played: Played, where: str) -> None:
        self.compare("refusals observed", expected_refusals(played), observed_refusals(played), where)
        expected, removals, apart = observed_removals(played)
        self.compare("removals observed", expected, removals, where)
        self.apart.update({f"removal: {why}": count for why, count in apart.items()})

    def _answers(self, played: Played, where: str) -> None:
        for request, error in self.differing(played.facts, replayed_answers(played.facts)):
            what = difference(request, error)
            if is_lost_in_failover(played.facts, request.happened_at_ms):
                self.apart[what] += 1
                continue
            self.differences[what] += 1
            if is_one_sided(request, error):
                self.note("answers compared", [f"{request.proof.row_key}: {request.api} {request.member_id}"], where)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--scenario", choices=SCENARIOS, action="append")
    arguments = parser.parse_args()
    measurement = Measurement()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    for seed in seeds:
        random = Random(seed)  # noqa: S311  # runs repeat
        for names in (arguments.scenario,) if arguments.scenario else TOGETHER:
            for played in play(*names, seed=seed):
                measurement.group(played, random)
        print(f"seed {seed}: {sum(measurement.wrong.values()):,} wrong so far", flush=True)
        if seed % REPORT_EVERY == 0 and seed != seeds[-1]:
            measurement.report()
    measurement.report()
    sys.exit(1 if any(measurement.wrong.values()) else 0)


if __name__ == "__main__":
    main()
