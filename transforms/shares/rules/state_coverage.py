"""Finds the stretches of `__share_group_state` that begin with a pass, from the known stretches and the starts of the
logs.

A partition that was not read yet begins a stretch at its log's start: records that the broker pruned before do not
count as missing. If the log's start has passed the next offset to read, there is a hole up to the log's start, and a
stretch begins after the hole. If the previous stretch has no end yet, because a pass was cut short, it ends where its
rows end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from groupledger.schemas.words import Completeness

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class StateStretch:
    """A row of `share_state_coverage`: offsets [from_offset, to_offset); a time is None where it is not known."""

    kafka_partition: int
    from_offset: int
    to_offset: int
    from_time_ms: int | None
    to_time_ms: int | None
    completeness: str


def new_stretches(
    last: Mapping[int, StateStretch], positions: Mapping[int, int], log_starts: Mapping[int, int], at_ms: int
) -> list[StateStretch]:
    """Returns the stretches that change or begin with a pass at `at_ms`: the holes, the stretches before holes, which
    now end, and the new stretches, which are still empty.

    `last` is the last stretch of each partition that was read before, `positions` the next offset to read of each, and
    `log_starts` the first offset that each partition's log has.
    """
    found: list[StateStretch] = []
    for partition, log_start in sorted(log_starts.items()):
        before = last.get(partition)
        if before is not None and positions[partition] >= log_start:
            continue
        if before is not None:
            if positions[partition] > before.to_offset:
                found.append(replace(before, to_offset=positions[partition]))
            span = (positions[partition], log_start, before.to_time_ms, at_ms)
            found.append(StateStretch(partition, *span, Completeness.UNKNOWN))
        found.append(StateStretch(partition, log_start, log_start, at_ms, None, Completeness.COMPLETE))
    return found
