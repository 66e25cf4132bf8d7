"""Goal: the lines of partitions are those of each round's rows, though those of groups at rest are kept."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from groupledger.jobs.monitor import partition_lines
from groupledger.jobs.monitor.families import lines
from groupledger.jobs.monitor.partition_lines import AGE, SAME_AT_REST, PartitionLines
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.lag.rules import Commit, End, LagState, Round, Watermark
from tests.transforms.lag.rules.test_rounds import QUIET, START_MS, Cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pytest
    from prometheus_client import Metric

    from groupledger.transforms.lag.rules import LagRow


def written(of: PartitionLines, rows: list[LagRow], at_rest: Mapping[str, object]) -> list[Metric]:
    return [*of.metrics("c", rows, at_rest, shows_client=True)]


def text(metrics: Iterable[Any]) -> list[bytes]:
    return sorted(b"".join(part for each in metrics for part in each.written()).split(b"\n"))


def test_names_with_marks_of_a_format() -> None:
    """Goal: a per cent sign in a name stays one, where only ages are written into kept lines."""
    state = LagState()
    state.commit("50%s%%", "100%d", 0, Commit(5, START_MS - 1_500, 0, 0))
    place = TopicPartition("100%d", 0)
    rows = [*state.round(Round(START_MS, {0: End(1)}, {place: Watermark(START_MS, 0, 5, 5)}), {})]
    (found,) = (each for each in written(PartitionLines(), rows, {}) if each.name == AGE)
    labels = 'client_id="",cluster_name="c",group="50%s%%",member_host="",partition="0",topic="100%d"'
    assert text([found])[-1].decode() == f"{AGE}{{{labels}}} 1.5"


def test_lines_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the same lines and samples as without what is kept, round by round, for groups that share topics; of groups
    at rest only the ages of commits are written anew."""
    names: list[str] = []

    def counted(name: str, *others: Any) -> bytes:
        names.append(name)
        return lines(name, *others)

    monkeypatch.setattr(partition_lines, "lines", counted)
    at_rest_before = 0
    for seed in range(8):
        cluster, state, kept = Cluster(Random(seed), (5_000, 15_000)), LagState(), PartitionLines()
        before: dict[str, object] = {}
        for number in range(30):
            commits = cluster.calm_down() if number % 10 == 2 else []
            cluster.quiet = QUIET if number % 10 == 8 else cluster.quiet
            for group, place, commit in commits + cluster.commits():
                state.commit(group, *place, commit)
            rows, at_rest = list(state.round(cluster.round(), {**cluster.facts})), {**state.at_rest}
            expected = written(PartitionLines(), rows, {})
            names.clear()
            found = written(kept, rows, at_rest)
            groups = {row.group_id for row in rows}
            resting = {name for name in groups & at_rest.keys() if before.get(name) is at_rest[name]}
            assert [names.count(name) for name in SAME_AT_REST] == [len(groups) - len(resting)] * len(SAME_AT_REST)
            at_rest_before += len(resting)
            assert text(found) == text(expected)
            assert [each.samples for each in found] == [each.samples for each in expected]
            before = at_rest
    assert at_rest_before > 25
