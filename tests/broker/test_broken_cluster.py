"""Goal: while brokers of a cluster are killed and freeze, no row about a group of any type is wrong.

`bench.cluster` plays the long form, with a monitor, a log cleaner and faults of clients. What is concluded from the
rows (causes, incidents, episodes, `why`) is only counted here: of four plays one still had a wrong conclusion
(`docs/accuracy.md`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from groupledger.jobs.cli.main import main
from lab.kafka.cluster_answers import judged, read_truth, slow_groups
from lab.kafka.cluster_product import AFTER, second_commands
from lab.kafka.cluster_short import play_short
from lab.kafka.local_broker import JARS_OF_RELEASE
from lab.truth.cluster_judge import NOT_KNOWN, RIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


SEED = 1
CONCLUDED = ("causes of departures", "incidents of groups", "episodes of brokers", "why in a broker's fault")


@pytest.mark.usefixtures("spark")
def test_nothing_is_wrong_when_brokers_fail(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Goal: owners and members at random instants, removals and lag agree with the truth or are not known. A group in
    which a session expired because the machine was slow is listed and not judged."""

    def make_ledger(servers: str, logs: Sequence[Path]) -> None:
        for words in second_commands(tmp_path, servers, logs):
            done = CliRunner().invoke(main, words)
            assert done.exit_code in (0, 1), done.output  # 1: a check found something

    play_short(tmp_path, SEED, JARS_OF_RELEASE["4.4"], make_ledger)
    truth = read_truth(tmp_path)
    slow = slow_groups(truth)
    record_property("groups that are not judged, and how many of their sessions expired by themselves", slow)
    lives = {name: life for name, life in truth.lives.items() if life["group_id"] not in slow}
    tally = judged(tmp_path, AFTER, replace(truth, lives=lives), SEED)
    record_property("outcomes", {": ".join(key): count for key, count in tally.counts.items()})
    record_property("wrong", tally.wrong)
    assert not [sentence for sentence in tally.wrong if not sentence.startswith(CONCLUDED)]
    owners = Counter(outcome for what, outcome in tally.counts.elements() if what.startswith("owners"))
    assert owners[RIGHT] > owners[NOT_KNOWN]
