"""Makes Prometheus metrics of lag, with the names and labels that dashboards for kafka-lag-exporter expect.

`consumer_id` is left out, as member ids change with every restart; to Prometheus an absent label equals an empty one.
Settings choose the groups, topics, partitions and labels, and limit the number of series: the number of series left out
is in `groupledger_series_left_out`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from groupledger.jobs.monitor.activity_metrics import activity_metrics
from groupledger.jobs.monitor.families import Places
from groupledger.jobs.monitor.group_info import NO_INFO, GroupInfo
from groupledger.jobs.monitor.metric_list import (
    BY_GROUP,
    BY_TOPIC,
    listed,
    listed_gauges,
)
from groupledger.jobs.monitor.partition_lines import PartitionLines
from groupledger.jobs.monitor.scaler_metrics import scaler_metrics
from groupledger.jobs.process.name_patterns import names_matching
from groupledger.transforms.lag.rules import burrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from groupledger.jobs.monitor.activity_metrics import GroupActivity
    from groupledger.jobs.process.settings import MetricsSettings
    from groupledger.transforms.lag.rules import LagRow, Rollup

NOBODY: Mapping[str, object] = MappingProxyType({})
PER_PARTITION = 5  # families with one sample for each partition
# As softwaremill/klag-exporter numbers them.
STATE_CODES = {
    "Unknown": 0,
    "PreparingRebalance": 1,
    "CompletingRebalance": 2,
    "Stable": 3,
    "Dead": 4,
    "Empty": 5,
    "Assigning": 6,
    "Reconciling": 7,
}


class Summed(NamedTuple):
    """Holds a round and its sums. The rows come group by group, and those of a group differ from the rows of the round
    before only in their time as long as `at_rest` has the same object for it."""

    rows: Sequence[LagRow]
    rollups: Sequence[Rollup]
    at_rest: Mapping[str, object] = NOBODY


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a round that is published. Some partitions of `cut_group` may be left out."""

    rows: Sequence[LagRow]
    groups: Sequence[Rollup]
    topics: Sequence[Rollup]
    series_left_out: int
    cut_group: str | None


def scope_of(found: Summed, limits: MetricsSettings) -> Scope:
    """Chooses the groups, topics and partitions to publish. Groups with the most lag come first, and so are the last to
    be left out."""
    rows, rollups, _ = found
    matching = names_matching(limits.group_pattern, (each.group_id for each in rollups))
    topic_names = names_matching(limits.topic_pattern, {each.topic for each in rollups if each.topic is not None})
    groups = sorted(
        (each for each in rollups if each.topic is None and each.group_id in matching),
        key=lambda each: (-(each.lag_sum or 0), each.group_id),
    )[: limits.groups_max]
    rank = {each.group_id: number for number, each in enumerate(groups)}
    topics = [each for each in rollups if each.group_id in rank and each.topic in topic_names]
    chosen = [row for row in rows if row.group_id in rank and row.topic in topic_names] if limits.per_partition else []
    fitting = limits.series_max // PER_PARTITION
    if len(chosen) > fitting:
        chosen.sort(key=lambda row: (rank[row.group_id], row.topic, row.partition))
    cut_group = chosen[fitting].group_id if len(chosen) > fitting else None
    return Scope(chosen[:fitting], groups, topics, max(len(chosen) - fitting, 0) * PER_PARTITION, cut_group)


def lag_metrics(
    cluster: str,
    found: Summed,
    infos: Mapping[str, GroupInfo],
    limits: MetricsSettings,
    round_ms: int = 0,
    activity: GroupActivity | None = None,
    written: PartitionLines | None = None,
) -> Iterator[Metric]:
    """Yields the lag metrics of one round, which took `round_ms`, and the activity metrics of the published groups.
    `written` keeps the lines of groups at rest from round to round."""
    scope = scope_of(found, limits)
    whole = {name: token for name, token in found.at_rest.items() if name != scope.cut_group}
    shows_client = limits.member_labels == "client"
    yield from (written or PartitionLines()).metrics(cluster, scope.rows, whole, shows_client=shows_client)
    yield from _group_metrics(cluster, scope)
    yield from scaler_metrics(cluster, found.rows, scope.groups)
    yield from _info_metrics(cluster, scope.groups, infos)
    if activity is not None:
        in_scope = {each.group_id: infos.get(each.group_id, NO_INFO) for each in scope.groups}
        yield from activity_metrics(cluster, in_scope, activity)
    yield listed("kafka_consumergroup_poll_time_ms", [((cluster,), round_ms)])
    yield listed("groupledger_series_left_out", [((cluster,), scope.series_left_out)])


def _group_metrics(cluster: str, scope: Scope) -> Iterator[Metric]:
    groups = scope.groups
    places = _places(cluster, groups)
    for name, values in (
        ("kafka_consumergroup_group_max_lag", [each.lag_max for each in groups]),
        ("kafka_consumergroup_group_max_lag_seconds", [each.lag_seconds_max for each in groups]),
        ("kafka_consumergroup_group_sum_lag", [each.lag_sum for each in groups]),
        ("kafka_consumergroup_group_partitions_without_lag", [each.partitions_without_lag for each in groups]),
        ("kafka_consumergroup_group_catch_up_seconds", [each.catch_up_seconds for each in groups]),
        ("kafka_consumergroup_group_last_commit_age_seconds", [_seconds(each) for each in groups]),
        ("kafka_consumergroup_group_state", [STATE_CODES.get(each.group_state or "") for each in groups]),
        (
            "kafka_consumergroup_group_burrow_status",
            [burrow.SEVERITY[each.burrow_status] for each in groups],
        ),
    ):
        yield listed_gauges(name, places, values)
    statuses = Places((*BY_GROUP, "status"), [(cluster, each.group_id, each.status) for each in groups])
    yield listed_gauges("kafka_consumergroup_group_status", statuses, [1] * len(groups))
    topics = Places(BY_TOPIC, [(cluster, each.group_id, each.topic or "") for each in scope.topics])
    for name, numbers in (
        ("kafka_consumergroup_group_topic_sum_lag", [each.lag_sum for each in scope.topics]),
        (
            "kafka_consumergroup_group_topic_partitions_without_lag",
            [each.partitions_without_lag for each in scope.topics],
        ),
    ):
        yield listed_gauges(name, topics, numbers)


def _seconds(each: Rollup) -> float | None:
    return None if each.commit_age_ms is None else each.commit_age_ms / 1_000


def _info_metrics(cluster: str, groups: Sequence[Rollup], infos: Mapping[str, GroupInfo]) -> Iterator[Metric]:
    found = [infos.get(each.group_id, NO_INFO) for each in groups]
    places = _places(cluster, groups)
    idle = [
        None if info.idle_since_ms is None else max(each.sampled_at_ms - info.idle_since_ms, 0) / 1_000
        for each, info in zip(groups, found, strict=True)
    ]
    for name, values in (
        ("kafka_consumergroup_group_generation", [info.generation for info in found]),
        ("kafka_consumergroup_group_members", [info.member_count for info in found]),
        ("kafka_consumergroup_group_idle_seconds", idle),
    ):
        yield listed_gauges(name, places, values)
    rebalances = zip(places.values, (info.rebalances for info in found), strict=True)
    yield listed("kafka_consumergroup_group_rebalances_total", rebalances)


def _places(cluster: str, groups: Sequence[Rollup]) -> Places:
    return Places(BY_GROUP, [(cluster, each.group_id) for each in groups])
