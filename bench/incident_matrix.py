"""Measures how true the incidents of real groups are, with a broker, Kafka's Java client, librdkafka and kafka-python.

The groups of the matrix (lab/kafka/matrix.py) are scaled, killed, stalled, restarted. It compares

    observed   the refusals in the request log and the removals in the server log with the incidents
    replayed   the reference coordinator's refusals with the broker's, from the requests without their answers, and then
               with 5% of the lines lost
    inferred   the members that were killed or stalled with those that the topic alone shows
    alarms     the incidents above severity info; none may be about a client to which nothing was done
    answers    the reference coordinator's answers with the broker's; each difference is listed

    python -m bench.incident_matrix [--runs 1]

The run ends with 1 if an observed incident is missing or wrong, or an alarm is false.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from bench.incident_measures import Measures, difference
from groupledger.schemas.kinds.incidents import REFUSALS
from groupledger.transforms.incidents.rules.observed import observed
from lab.kafka import matrix
from lab.kafka.incident_facts import refused_lines
from lab.kafka.local_broker import LocalBroker
from lab.kafka.matrix_incidents import facts_of, false_alarms, judged_removals, observed_removals, removals
from lab.truth.faults import only_topic
from lab.truth.scores import replayed_answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1)
    measures, random = Measures(), Random(1)  # noqa: S311  # which lines are lost repeats
    for _ in range(parser.parse_args().runs):
        with (
            tempfile.TemporaryDirectory(prefix="groupledger-matrix-") as directory,
            LocalBroker(Path(directory), log_requests=True) as broker,
        ):
            matrix.play(broker.bootstrap_servers, matrix.LONG)
            measure(measures, broker, random)
    measures.report()
    sys.exit(1 if any(measures.wrong.values()) else 0)


def measure(measures: Measures, broker: LocalBroker, random: Random) -> None:
    facts_by_group = facts_of(broker, matrix.LONG)
    for case in matrix.LONG:
        group, facts = case.group, facts_by_group[case.group]
        seen = (each.proofs[0].row_key for each in observed(facts) if each.kind in REFUSALS)
        lines = (f"requests/{number}" for number in refused_lines(broker, group))
        measures.compare("lines with a refusal", Counter(lines), Counter(seen), group)
        measures.compare("removals observed", Counter(removals(case)), Counter(observed_removals(facts)), group)
        measures.replayed(facts, random)
        measures.judged["inferred"] += judged_removals(case, facts)
        for known in (facts, only_topic(facts)):
            measures.counts["groups looked at for alarms"] += 1
            measures.note("groups looked at for alarms", false_alarms(case, known), group)
        answers = replayed_answers(facts, initial_rebalance_delay_ms=0)
        measures.differences.update(difference(*each) for each in measures.differing(facts, answers))


if __name__ == "__main__":
    main()
