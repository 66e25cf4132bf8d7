"""Holds the rounds that were sampled and whose commits the ingest has not read yet.

Lag is computed from two inputs that are read separately: the ends of the logs, which a round samples, and the commits,
which the ingest reads later. Both must be of one round. So a round waits here until the ingest has passed the ends of
`__consumer_offsets` that the round saw. Its lag is then correct, though published late. When a micro-batch takes longer
than the interval, rounds come faster than they can be published. If the ingest passes several at once, only the newest
is published; if too many wait, every second one is dropped.

A round that has waited for too long is published without the groups whose commits the ingest has not read up to its
ends; the other groups are complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.jobs.kafka.sampling import ends_of
from groupledger.jobs.monitor.commits import unread_offsets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from groupledger.jobs.kafka.sampling import SampledRound

WAITING_MAX = 12


@dataclass(frozen=True, slots=True)
class Ready:
    """A round to compute. `passed` are the partitions of `__consumer_offsets` that the ingest has read up to the
    round's ends."""

    sampled: SampledRound
    passed: Collection[int]


class PendingRounds:
    """Holds the rounds that wait, oldest first. `known_ms` is the time of the newest round whose commits are all read;
    None before the first. After `age_max_ms` without a round to publish, one is published even if some of its commits
    are missing."""

    def __init__(self, age_max_ms: int) -> None:
        self.known_ms: int | None = None
        self._age_max_ms = age_max_ms
        self._waiting: list[SampledRound] = []
        self._last_ready_ms = 0

    def add(self, sampled: SampledRound) -> None:
        self._waiting.append(sampled)
        if len(self._waiting) > WAITING_MAX:
            self._waiting = self._waiting[::-2][::-1]  # the newest stays

    def take(self, positions: Mapping[int, int], now_ms: int) -> Ready | None:
        """Returns the round to compute, and removes it if all its commits are read; None if no round can be published
        yet. Rounds are published in the order of time. `positions` are the next offsets that the ingest reads, by
        partition."""
        passed = [each for each in self._waiting if not unread_offsets(positions, ends_of(each.watermarks))]
        if passed:
            newest = passed[-1]
            self.known_ms = newest.sampled_at_ms
            self._waiting = [each for each in self._waiting if each.sampled_at_ms > newest.sampled_at_ms]
            if newest.sampled_at_ms > self._last_ready_ms:
                return self._ready(newest, positions)
        if self._waiting and now_ms - (self._last_ready_ms or self._waiting[0].sampled_at_ms) > self._age_max_ms:
            return self._ready(self._waiting[-1], positions)
        return None

    def _ready(self, sampled: SampledRound, positions: Mapping[int, int]) -> Ready:
        self._last_ready_ms = sampled.sampled_at_ms
        ends = ends_of(sampled.watermarks)
        return Ready(sampled, ends.keys() - unread_offsets(positions, ends).keys())
