"""Lag as Prometheus metrics, with the names and labels that dashboards for kafka-lag-exporter expect.

    kafka_consumergroup_group_offset, _lag, _lag_seconds, _messages_lost      by group and partition
    kafka_consumergroup_group_max_lag, _max_lag_seconds, _sum_lag, _state     by group
    kafka_consumergroup_group_topic_sum_lag                                   by group and topic
    kafka_partition_latest_offset, _earliest_offset                           by partition
    kafka_consumergroup_poll_time_ms                                          how long the round took

and of our own, by group: `_rebalances_total`, `_generation`, `_members`, `_last_commit_age_seconds`, `_idle_seconds`
(of a group without members, whose offsets will expire), `_catch_up_seconds`, `_status` (1, with the status as a label)
and `_burrow_status` (Burrow's codes); by group and partition: `_commit_age_seconds`. Beside each sum of lags stands how
many partitions are not in it since their lag is not known: `_partitions_without_lag`, `_topic_partitions_without_lag`.
What happened in the groups is in `activity_metrics`.

`consumer_id` is left out, as member ids are new with every restart; an absent label equals an empty one to Prometheus.
Settings choose the groups, topics, partitions and labels, and limit the number of series: the rest is counted
in `groupledger_series_left_out`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.jobs.monitor.activity_metrics import BY_GROUP, PREFIX, activity_metrics
from groupledger.jobs.monitor.families import Counter, Gauge, ManyGauges, Places, family
from groupledger.jobs.monitor.group_info import NO_INFO, GroupInfo
from groupledger.jobs.process.name_patterns import names_matching
from groupledger.transforms.lag.rules import burrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from groupledger.jobs.monitor.activity_metrics import GroupActivity
    from groupledger.jobs.process.settings import MetricsSettings
    from groupledger.transforms.lag.rules import LagRow, Rollup

BY_PARTITION = (*BY_GROUP, "topic", "partition", "member_host", "client_id")
WITHOUT_LAG = "Partitions that are not in the sum, as their lag is not known."
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


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a round that is published."""

    rows: Sequence[LagRow]
    groups: Sequence[Rollup]
    topics: Sequence[Rollup]
    series_left_out: int


def scope_of(rows: Sequence[LagRow], rollups: Sequence[Rollup], limits: MetricsSettings) -> Scope:
    """Chooses what is published. Groups with the most lag come first, and so are the last to be left out."""
    matching = names_matching(limits.group_pattern, (each.group_id for each in rollups))
    topic_names = names_matching(limits.topic_pattern, (row.topic for row in rows))
    groups = sorted(
        (each for each in rollups if each.topic is None and each.group_id in matching),
        key=lambda each: (-(each.lag_sum or 0), each.group_id),
    )[: limits.groups_max]
    rank = {each.group_id: number for number, each in enumerate(groups)}
    topics = [each for each in rollups if each.group_id in rank and each.topic in topic_names]
    told = [row for row in rows if row.group_id in rank and row.topic in topic_names] if limits.per_partition else []
    fitting = limits.series_max // PER_PARTITION
    if len(told) > fitting:
        told.sort(key=lambda row: (rank[row.group_id], row.topic, row.partition))
    return Scope(told[:fitting], groups, topics, max(len(told) - fitting, 0) * PER_PARTITION)


def lag_metrics(
    cluster: str,
    rows: Sequence[LagRow],
    rollups: Sequence[Rollup],
    infos: Mapping[str, GroupInfo],
    limits: MetricsSettings,
    round_ms: int = 0,
    activity: GroupActivity | None = None,
) -> Iterator[Metric]:
    """Yields the metrics of one round, which took `round_ms`, and of what happened in the published groups."""
    scope = scope_of(rows, rollups, limits)
    yield from _partition_metrics(cluster, scope.rows, limits)
    yield from _group_metrics(cluster, scope)
    yield from _info_metrics(cluster, scope.groups, infos)
    if activity is not None:
        told = {each.group_id: infos.get(each.group_id, NO_INFO) for each in scope.groups}
        yield from activity_metrics(cluster, told, activity)
    for name, text, value in (
        ("kafka_consumergroup_poll_time_ms", "How long the sampling round took.", round_ms),
        ("groupledger_series_left_out", "Series of partitions beyond metrics.series_max.", scope.series_left_out),
    ):
        yield family(Gauge, name, text, ("cluster_name",), [((cluster,), value)])


def _partition_metrics(cluster: str, rows: Sequence[LagRow], limits: MetricsSettings) -> Iterator[Metric]:
    labels: list[tuple[str, ...]] = []
    ends: dict[tuple[str, ...], tuple[int, int]] = {}
    shows_client = limits.member_labels == "client"
    for row in rows:
        client = (row.client_host or "", row.client_id or "") if shows_client else ("", "")
        labels.append((cluster, row.group_id, row.topic, str(row.partition), *client))
        if row.high_watermark is not None and row.log_start_offset is not None:
            ends[cluster, row.topic, str(row.partition)] = (row.high_watermark, row.log_start_offset)
    places, of_topics = Places(BY_PARTITION, labels), Places(("cluster_name", "topic", "partition"), [*ends])
    values: Sequence[float | None]
    for name, text, values in (
        ("offset", "The committed offset.", [_committed(row) for row in rows]),
        ("lag", "Offsets that are left to read.", [row.lag for row in rows]),
        ("lag_seconds", "Age of the next record to read.", [row.lag_seconds for row in rows]),
        ("messages_lost", "Offsets that retention took first.", [row.messages_lost for row in rows]),
        ("commit_age_seconds", "How long ago the partition was committed.", [_seconds(row) for row in rows]),
    ):
        yield ManyGauges(f"{PREFIX}_{name}", text, places, values)
    for number, (name, text) in enumerate(
        (("latest", "The high watermark."), ("earliest", "The first offset that is kept."))
    ):
        values = [offsets[number] for offsets in ends.values()]
        yield ManyGauges(f"kafka_partition_{name}_offset", text, of_topics, values)


def _group_metrics(cluster: str, scope: Scope) -> Iterator[Metric]:
    groups = scope.groups
    for name, text, values in (
        ("max_lag", "The most lag of a partition.", [each.lag_max for each in groups]),
        ("max_lag_seconds", "The most seconds of a partition.", [each.lag_seconds_max for each in groups]),
        ("sum_lag", "The lag of all partitions.", [each.lag_sum for each in groups]),
        ("partitions_without_lag", WITHOUT_LAG, [each.partitions_without_lag for each in groups]),
        ("catch_up_seconds", "How long the lag takes as it shrinks now.", [each.catch_up_seconds for each in groups]),
        ("last_commit_age_seconds", "How long ago the group last committed.", [_seconds(each) for each in groups]),
        ("state", "0 unknown to 7 reconciling.", [STATE_CODES.get(each.group_state or "") for each in groups]),
        (
            "burrow_status",
            "Burrow's code: 1 OK, 2 WARN, 3 ERR.",
            [burrow.SEVERITY[each.burrow_status] for each in groups],
        ),
    ):
        yield _by_group(Gauge, cluster, name, text, groups, values)
    statuses = (((cluster, each.group_id, each.status), 1) for each in groups)
    yield family(Gauge, f"{PREFIX}_status", "1 for the group's status.", (*BY_GROUP, "status"), statuses)
    topics = [(cluster, each.group_id, each.topic or "") for each in scope.topics]
    for name, text, numbers in (
        ("sum_lag", "The lag of a topic's partitions.", [each.lag_sum for each in scope.topics]),
        ("partitions_without_lag", WITHOUT_LAG, [each.partitions_without_lag for each in scope.topics]),
    ):
        samples = zip(topics, numbers, strict=True)
        yield family(Gauge, f"{PREFIX}_topic_{name}", text, (*BY_GROUP, "topic"), samples)


def _committed(row: LagRow) -> int | None:
    return row.committed_offset if row.commits_until_ms is None else None


def _seconds(each: LagRow | Rollup) -> float | None:
    return None if each.commit_age_ms is None else each.commit_age_ms / 1_000


def _info_metrics(cluster: str, groups: Sequence[Rollup], infos: Mapping[str, GroupInfo]) -> Iterator[Metric]:
    found = [infos.get(each.group_id, NO_INFO) for each in groups]
    idle = [
        None if info.idle_since_ms is None else max(each.sampled_at_ms - info.idle_since_ms, 0) / 1_000
        for each, info in zip(groups, found, strict=True)
    ]
    for kind, name, text, values in (
        (Gauge, "generation", "The generation in force.", [info.generation for info in found]),
        (Gauge, "members", "Members of the group.", [info.member_count for info in found]),
        (Gauge, "idle_seconds", "For how long the group has had no members.", idle),
        (Counter, "rebalances", "Rebalances that the ledger knows.", [info.rebalances for info in found]),
    ):
        yield _by_group(kind, cluster, name, text, groups, values)


def _by_group(
    kind: type[Counter | Gauge],
    cluster: str,
    name: str,
    text: str,
    groups: Sequence[Rollup],
    values: Sequence[float | None],
) -> Metric:
    labels = ((cluster, each.group_id) for each in groups)
    return family(kind, f"{PREFIX}_{name}", text, BY_GROUP, zip(labels, values, strict=True))
