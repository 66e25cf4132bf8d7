"""Simulates a script under a setting and computes the figures that a ledger would show, and the cost of the setting.

Rebalances are the increments of the generation (or epoch) from the first event on. A partition has moved if it is
assigned to another member than its last owner, in the generation before or one earlier (the same rule as in
`transforms.history.rules.cost`). A partition is stopped while nobody consumes it although some process of the group is
up.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from groupledger.coordinator.protocols.compare import play
from groupledger.coordinator.protocols.consumption import cost_of
from groupledger.coordinator.protocols.world import WAKES_LATE_MS
from groupledger.coordinator.what_if.workload import RECORDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from groupledger.coordinator.protocols.script import Script
    from groupledger.coordinator.what_if.setting import Setting
    from groupledger.schemas.kafka.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one run. `records_processed_twice` assumes one record a second in each partition."""

    rebalances: float
    partitions_moved: float
    stopped_partition_seconds: float
    records_processed_twice: float

    def __iter__(self) -> Iterator[float]:
        return iter([getattr(self, name) for name in FIGURES])


FIGURES: Final = tuple(each.name for each in fields(Figures))
NOTHING: Final = Figures(0, 0, 0, 0)


def figures(script: Script, setting: Setting, seed: int, *, wakes_late_ms: int = WAKES_LATE_MS) -> Figures:
    """Returns the figures of a script under a setting. A waiting thread wakes up to `wakes_late_ms` too late (see
    `World`)."""
    outcome = play(script, "what-if", setting.make(), seed, wakes_late_ms=wakes_late_ms)
    counted = [owners for at, owners in outcome.assignments if at >= script.from_ms]
    before = [owners for at, owners in outcome.assignments if at < script.from_ms][-2:]
    stopped_ms = sum(
        cost_of(outcome.intervals, outcome.created_ms, start, end).unowned_ms for start, end in times_up(script)
    )
    return Figures(
        rebalances=len(counted),
        partitions_moved=moved([*before, *counted], len(before)),
        stopped_partition_seconds=stopped_ms / 1_000,
        records_processed_twice=outcome.cost.processed_twice / RECORDS_PER_SECOND,
    )


def moved(assignments: list[Mapping[TopicPartition, str]], known: int) -> int:
    """Returns how many partitions got another owner, summed over all assignments except the first `known` ones."""
    count = 0
    last: dict[TopicPartition, str] = {}
    former: Mapping[TopicPartition, str] = {}
    for number, owners in enumerate(assignments):
        if number >= known:
            count += sum(last.get(partition, owner) != owner for partition, owner in owners.items())
        # Partitions taken from their owners are remembered for one more round, unless all members have gone.
        last = {partition: owner for partition, owner in last.items() if owners and partition in former} | dict(owners)
        former = owners
    return count


def times_up(script: Script) -> Iterable[tuple[int, int]]:
    """Yields each time, as (from_ms, to_ms), in which at least one process of the group is up, from the first event
    on."""
    up = len(script.members_at_start)
    since = script.from_ms
    for event in script.events:
        change = {"join": 1, "leave": -1, "crash": -1}.get(event.action, 0)
        if up and not up + change:
            yield since, event.at_ms
        elif not up and change > 0:
            since = event.at_ms
        up += change
    if up:
        yield since, script.until_ms
