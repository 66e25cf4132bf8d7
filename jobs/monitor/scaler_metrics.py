"""Makes the metrics that autoscalers may use besides the sum of a group's lag (`transforms.lag.rules.scaling`), with a
sample for each group. A group without a known lag has no sample."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from groupledger.jobs.monitor.families import Places
from groupledger.jobs.monitor.metric_list import BY_GROUP, listed_gauges
from groupledger.schemas.words import LagFlag
from groupledger.transforms.lag.rules.scaling import is_persistent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

    from groupledger.transforms.lag.rules import LagRow, Rollup


def scaler_metrics(cluster: str, rows: Iterable[LagRow], groups: Iterable[Rollup]) -> Iterator[Metric]:
    """Yields the metrics of the groups that are published, from all rows of the round."""
    with_lag, stuck = Counter[str](), Counter[str]()
    for row in rows:
        if row.lag and LagFlag.UNSUBSCRIBED not in row.flags:
            with_lag[row.group_id] += 1
            if is_persistent(row):
                stuck[row.group_id] += row.lag
    known = [(each.group_id, each.lag_sum) for each in groups if each.lag_sum is not None]
    places = Places(BY_GROUP, [(cluster, name) for name, _ in known])
    movable = [lag - stuck[name] for name, lag in known]
    yield listed_gauges("kafka_consumergroup_group_sum_lag_without_stuck", places, movable)
    partitions = [with_lag[name] for name, _ in known]
    yield listed_gauges("kafka_consumergroup_group_partitions_with_lag", places, partitions)
