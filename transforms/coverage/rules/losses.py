"""Finds offsets of the log at which the state of keys or groups can no longer be known.

    hidden_ends   at these offsets groups may have ended without a record of it: a hole, or lost tombstones
    thinned       stretches from which Kafka's cleaner removed records before they were read

A sampling round needs the last commit of each key below the end of the log that the round saw. If the log was cleaned
between the round and the read, that commit may be gone, because the group has committed again above the end. This can
be detected. Every record that the cleaner removes has a later record of its key, and from some offset on
(`Reading.known_from`) the newest record of each earlier key is present. So a key without a record between the round's
end and that offset had, at the round, the value that the log shows. For a key with such a record, the value at the
round is not known, unless its record before the round's end lies in the part from which nothing was removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from groupledger.transforms.coverage.rules.stretches import Reading


@dataclass(frozen=True, slots=True)
class Thinned:
    """Holds a stretch, from offset `begin` on, from which Kafka's cleaner removed records before it was read. From
    `present_from` on every record is present; from `known_from` on the newest record of each earlier key is, too."""

    begin: int
    present_from: int
    known_from: int


@dataclass(frozen=True, slots=True)
class LogLosses:
    """Holds the losses by partition of `__consumer_offsets`. `hidden_ends` are offsets before which a group may have
    ended without a record of it; `thinned` are stretches with removed records, in the order of the log."""

    hidden_ends: Mapping[int, Sequence[int]] = field(default_factory=dict)
    thinned: Mapping[int, Sequence[Thinned]] = field(default_factory=dict)

    def thinned_at(self, partition: int, end: int) -> Thinned | None:
        """Returns the thinned stretch that contains `end`, the end of the log that a sampling round saw; None if the
        values of all keys at that end are known."""
        before = [each for each in self.thinned.get(partition, ()) if each.begin < end]
        return before[-1] if before and end < before[-1].known_from else None


NO_LOSSES = LogLosses()


def thinned_stretches(readings: Sequence[Reading]) -> list[Thinned]:
    """Returns the thinned stretches of one partition, in order. `known_from` of a stretch may lie in a later reading,
    if its own reading stopped before the newest record of each key was known."""
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
