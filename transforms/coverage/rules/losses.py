"""Says what the log no longer tells whoever asks how things stood at one of its offsets.

    hidden_ends   at these offsets what was before may have ended without a trace: a hole, or state that was lost
    thinned       stretches that Kafka's cleaner has thinned before they were read

A sampling round asks what was committed below the end that it saw. If the log was cleaned between the round and the
read, a commit below that end may be gone, because the group has committed again above it. It leaves a trace: whatever
the cleaner removes has a later record of its key, and where the log has settled (`rules.evidence`) the newest record of
each key is there. So a key without a record between the round's end and there stands as the log shows, and of one that
has such a record it is not known how it stood at the round, unless its record is in the part of which nothing was
removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from groupledger.transforms.coverage.rules.stretches import Reading


@dataclass(frozen=True, slots=True)
class Thinned:
    """A stretch from `begin` on that was thinned: every record from `present_from` on is there, and from `known_from`
    on each key stands as the log shows."""

    begin: int
    present_from: int
    known_from: int


@dataclass(frozen=True, slots=True)
class LogLosses:
    """The losses by partition of `__consumer_offsets`; thinned stretches are in the order of the log."""

    hidden_ends: Mapping[int, Sequence[int]] = field(default_factory=dict)
    thinned: Mapping[int, Sequence[Thinned]] = field(default_factory=dict)

    def thinned_at(self, partition: int, end: int) -> Thinned | None:
        """Returns the stretch in which a round's end lies, if keys may have stood there as nobody can know."""
        before = [each for each in self.thinned.get(partition, ()) if each.begin < end]
        return before[-1] if before and end < before[-1].known_from else None


NO_LOSSES = LogLosses()


def thinned_stretches(readings: Sequence[Reading]) -> list[Thinned]:
    """Returns the thinned stretches of one partition. Where a reading ended before its log had settled, the next one
    says where it has."""
    found: list[Thinned] = []
    following: Reading | None = None
    known_from = 0
    for reading in reversed(readings):
        is_settled = following is None or reading.known_from <= following.begin
        known_from = reading.known_from if is_settled else max(known_from, reading.known_from)
        if reading.known_from > reading.begin:
            found.append(Thinned(reading.begin, reading.complete_from, known_from))
        following = reading
    return found[::-1]
