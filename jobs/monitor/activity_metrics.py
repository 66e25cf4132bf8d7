"""Makes metrics of the events in groups: counters and histograms that begin at zero with the monitor.

The label `cause` has the words of `members.leave_cause`, and `trigger` those of `rebalances.inferred_trigger`. Every
usual cause of a departure is published from the start, with 0, so that `increase` sees the first departure. A group
that is left out of the other metrics is left out here.
"""

from __future__ import annotations

from collections import Counter as Counts
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groupledger.jobs.monitor.activity import BOUNDS_S, Activity, Count
from groupledger.jobs.monitor.metric_list import listed, listed_histogram
from groupledger.schemas.kinds.triggers import LEFT, LEFT_POLL_TIMEOUT, REBALANCE_TIMEOUT, SESSION_EXPIRED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from groupledger.jobs.monitor.group_info import GroupInfo
    from groupledger.transforms.lag.rules import Owner

CAUSES = (LEFT.name, LEFT_POLL_TIMEOUT.name, SESSION_EXPIRED.name, REBALANCE_TIMEOUT.name)


@dataclass(frozen=True, slots=True)
class PartitionSpread:
    """Says how the partitions of a group are spread: `assigned` partitions have an owner, the member with the most
    partitions owns `most`, and `owners` members own any."""

    assigned: int
    most: int
    owners: int


@dataclass(frozen=True, slots=True)
class GroupActivity:
    """Holds the figures of groups besides lag. `coordinator_moves` is by partition of `__consumer_offsets`; the other
    mappings are by group. `retention_loss_s` and `offsets_expire_s` are seconds until records or offsets are lost."""

    activity: Activity
    commits: Mapping[str, int] = field(default_factory=dict)
    coordinator_moves: Mapping[int, int] = field(default_factory=dict)
    holdings: Mapping[str, PartitionSpread] = field(default_factory=dict)
    retention_loss_s: Mapping[str, float] = field(default_factory=dict)
    offsets_expire_s: Mapping[str, float] = field(default_factory=dict)


def holding_of(owners: Iterable[Owner]) -> PartitionSpread | None:
    """Returns how the partitions are spread over their owners; None if no partition is known to have an owner."""
    counts = Counts(owner.member_id for owner in owners if owner.member_id is not None)
    return PartitionSpread(counts.total(), max(counts.values()), len(counts)) if counts else None


def activity_metrics(cluster: str, groups: Mapping[str, GroupInfo], activity: GroupActivity) -> Iterator[Metric]:
    """Yields the activity metrics for the given groups."""
    yield from _by_word(cluster, groups, activity.activity)
    joined = activity.activity.counts.get(Count.JOINED, {})
    moves, held = activity.coordinator_moves, activity.holdings
    idle = {
        group: max(info.member_count - held[group].owners, 0)
        for group, info in groups.items()
        if info.member_count is not None and group in held
    }
    places = {group: of.kafka_partition for group, of in groups.items() if of.kafka_partition is not None}
    elections = {group: moves.get(place) for group, place in places.items()}
    numbers: tuple[tuple[str, Mapping[str, float | None]], ...] = (
        ("kafka_consumergroup_group_members_joined_total", {group: joined.get((group, ""), 0) for group in groups}),
        ("kafka_consumergroup_group_commits_total", {group: activity.commits.get(group, 0) for group in groups}),
        ("kafka_consumergroup_group_coordinator_moves_total", elections),
        ("kafka_consumergroup_group_storms_total", {group: info.storms for group, info in groups.items()}),
        ("kafka_consumergroup_group_assigned_partitions", {group: of.assigned for group, of in held.items()}),
        ("kafka_consumergroup_group_max_partitions_per_member", {group: of.most for group, of in held.items()}),
        ("kafka_consumergroup_group_idle_members", idle),
        ("kafka_consumergroup_group_retention_loss_seconds", activity.retention_loss_s),
        ("kafka_consumergroup_group_offsets_expire_seconds", activity.offsets_expire_s),
    )
    for name, values in numbers:
        yield listed(name, (((cluster, group), values.get(group)) for group in groups))


def _by_word(cluster: str, groups: Collection[str], activity: Activity) -> Iterator[Metric]:
    """Yields the metrics by cause and trigger."""
    by_cause = {(group, cause): 0 for group in groups for cause in CAUSES} | dict(activity.counts.get(Count.LEFT, {}))
    for name, values in (
        ("kafka_consumergroup_group_members_left_total", by_cause),
        ("kafka_consumergroup_group_rebalances_by_trigger_total", activity.counts.get(Count.REBALANCES, {})),
    ):
        yield listed(name, (((cluster, *key), value) for key, value in sorted(values.items()) if key[0] in groups))
    for name, count in (
        ("kafka_consumergroup_group_rebalance_seconds", Count.TOOK),
        ("kafka_consumergroup_group_rebalance_pause_seconds", Count.PAUSED),
    ):
        durations = sorted(activity.durations.get(count, {}).items())
        found = (((cluster, *key), each.counts, each.sum_s) for key, each in durations if key[0] in groups)
        yield listed_histogram(name, BOUNDS_S, found)
