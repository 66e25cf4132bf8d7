"""What happened in the groups, as metrics: counters and histograms that begin at zero with the monitor.

    ..._members_joined_total, ..._members_left_total       the latter by `cause`: session_expired, rebalance_timeout
                                                           (fenced), left_poll_timeout, left, and the rarer ones
    ..._rebalances_by_trigger_total                        by `trigger`, as the records show it
    ..._rebalance_seconds                                  by `trigger`: how long it took at least, from the end of the
                                                           join phase to the assignment; in groups of KIP-848 from the
                                                           epoch to the last member that was stable at it
    ..._rebalance_pause_seconds                            by `trigger`: how long nobody committed, at most
    ..._commits_total                                      committed offsets, one for each partition
    ..._coordinator_moves_total                            elections of a leader for the group's log partition, by
                                                           which another broker, or the same one again, coordinates it
    ..._storms_total                                       rebalance storms that the ledger holds, by the rule of
                                                           `rebalance_stats`
    ..._assigned_partitions, ..._max_partitions_per_member, ..._idle_members     who owns how much

`...` is `kafka_consumergroup_group`. The words of `cause` and `trigger` are those of `members.leave_cause` and
`rebalances.inferred_trigger`; those of a departure are there from the start, with 0, so that `increase` sees the first
one. A group that is left out of the other metrics is left out here.
"""

from __future__ import annotations

from collections import Counter as Counts
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groupledger.jobs.monitor.activity import BOUNDS_S, Activity, Count
from groupledger.jobs.monitor.families import Counter, Gauge, family, histogram
from groupledger.schemas.kinds.triggers import LEFT, LEFT_POLL_TIMEOUT, REBALANCE_TIMEOUT, SESSION_EXPIRED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from groupledger.jobs.monitor.group_info import GroupInfo
    from groupledger.transforms.lag.rules import Owner

PREFIX = "kafka_consumergroup_group"
BY_GROUP = ("cluster_name", "group")
CAUSES = (LEFT.name, LEFT_POLL_TIMEOUT.name, SESSION_EXPIRED.name, REBALANCE_TIMEOUT.name)


@dataclass(frozen=True, slots=True)
class Holding:
    """How the partitions of a group lie on its members."""

    assigned: int
    most: int
    owners: int


@dataclass(frozen=True, slots=True)
class GroupActivity:
    """The numbers of groups beside their lag. Commits and holdings are by group; the moves of the coordinators by
    partition of `__consumer_offsets`."""

    activity: Activity
    commits: Mapping[str, int] = field(default_factory=dict)
    coordinator_moves: Mapping[int, int] = field(default_factory=dict)
    holdings: Mapping[str, Holding] = field(default_factory=dict)


def holding_of(owners: Iterable[Owner]) -> Holding | None:
    """Returns how many partitions the owners hold; None if none is known to be held by a member."""
    counts = Counts(owner.member_id for owner in owners if owner.member_id is not None)
    return Holding(counts.total(), max(counts.values()), len(counts)) if counts else None


def activity_metrics(cluster: str, groups: Mapping[str, GroupInfo], told: GroupActivity) -> Iterator[Metric]:
    """Yields the metrics of the given groups."""
    yield from _by_word(cluster, groups, told.activity)
    joined = told.activity.counts.get(Count.JOINED, {})
    moves, held = told.coordinator_moves, told.holdings
    idle = {
        group: max(info.member_count - held[group].owners, 0)
        for group, info in groups.items()
        if info.member_count is not None and group in held
    }
    places = {group: of.kafka_partition for group, of in groups.items() if of.kafka_partition is not None}
    elections = {group: moves.get(place) for group, place in places.items()}
    numbers: tuple[tuple[type[Counter | Gauge], str, str, Mapping[str, float | None]], ...] = (
        (Counter, "members_joined", "Members that came.", {group: joined.get((group, ""), 0) for group in groups}),
        (Counter, "commits", "Offsets committed.", {group: told.commits.get(group, 0) for group in groups}),
        (Counter, "coordinator_moves", "Elections of the group's coordinator.", elections),
        (Counter, "storms", "Storms that the ledger knows.", {group: info.storms for group, info in groups.items()}),
        (Gauge, "assigned_partitions", "Partitions with an owner.", {group: of.assigned for group, of in held.items()}),
        (Gauge, "max_partitions_per_member", "The most that one has.", {group: of.most for group, of in held.items()}),
        (Gauge, "idle_members", "Members that own nothing.", idle),
    )
    for kind, name, text, values in numbers:
        samples = (((cluster, group), values.get(group)) for group in groups)
        yield family(kind, f"{PREFIX}_{name}", text, BY_GROUP, samples)


def _by_word(cluster: str, groups: Collection[str], activity: Activity) -> Iterator[Metric]:
    """Yields the metrics by cause and trigger."""
    by_cause = {(group, cause): 0 for group in groups for cause in CAUSES} | dict(activity.counts.get(Count.LEFT, {}))
    for name, text, label, values in (
        ("members_left", "Members that went.", "cause", by_cause),
        ("rebalances_by_trigger", "Rebalances.", "trigger", activity.counts.get(Count.REBALANCES, {})),
    ):
        samples = (((cluster, *key), value) for key, value in sorted(values.items()) if key[0] in groups)
        yield family(Counter, f"{PREFIX}_{name}", text, (*BY_GROUP, label), samples)
    for name, text, count in (
        ("rebalance_seconds", "How long rebalances took, at least.", Count.TOOK),
        ("rebalance_pause_seconds", "How long nobody committed around rebalances, at most.", Count.PAUSED),
    ):
        durations = sorted(activity.durations.get(count, {}).items())
        found = (((cluster, *key), each.counts, each.sum_s) for key, each in durations if key[0] in groups)
        yield histogram(f"{PREFIX}_{name}", text, (*BY_GROUP, "trigger"), BOUNDS_S, found)
