"""Says what a group would read again, or never, if it moved now to a cluster that MirrorMaker copies its topics to.

The group would begin at its committed offset in the target cluster. Where it should begin is the offset of the copy of
the record that its commit in the source cluster names. Only MirrorMaker knows which offsets belong together: it writes
a sync for some of the records that it copies (`schemas.wire.offset_sync`). Between two syncs the place is an interval:

- at a sync, the place is exactly its copy;
- after a sync, it is at least one offset after the sync's copy, as MirrorMaker itself assumes (`OffsetSyncStore`);
- it is no more offsets after the copy than in the source, since each record is copied once, and markers of
  transactions and what compaction has removed are not copied at all;
- and it is not after the copy of the next sync; nor further before it than the commit is before that sync.

A sync whose upstream offset is lower than that of the one before shows that MirrorMaker began again from there: the
syncs before it are dropped, as MirrorMaker drops them. If two syncs are further apart in the target than in the source,
something was copied twice, or others write to the copy, and only the two syncs themselves are bounds. Before the first
known sync, nothing is known.

What is not copied yet is not part of this: the group reads it after the failover, if MirrorMaker copies it still.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.words import FailoverOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Sync(NamedTuple):
    """A record at the offset `upstream` of the source has its copy at `downstream` in the target."""

    upstream: int
    downstream: int


class Place(NamedTuple):
    """The offsets between which the place lies, both included."""

    lowest: int
    highest: int


class Failover(NamedTuple):
    """What happens to a partition. The counts are bounds of the records that are read again, or never; None where
    nothing is known."""

    outcome: str
    place: Place | None = None
    repeated_min: int | None = None
    repeated_max: int | None = None
    skipped_min: int | None = None
    skipped_max: int | None = None


def usable(syncs: Iterable[Sync]) -> list[Sync]:
    """Returns the syncs that hold together, sorted by both offsets. `syncs` are those of a partition in the order in
    which MirrorMaker wrote them."""
    kept: list[Sync] = []
    for sync in syncs:
        if kept and (sync.upstream < kept[-1].upstream or sync.downstream < kept[-1].downstream):
            kept.clear()
        if kept and sync.upstream == kept[-1].upstream:
            kept.pop()  # it was copied again
        kept.append(sync)
    return kept


def place_of(offset: int, syncs: Sequence[Sync]) -> Place | None:
    """Returns where in the target the record at `offset` of the source lies, by syncs as `usable` returns them. Returns
    None if no sync is at or before the offset."""
    after = bisect_right(syncs, offset, key=lambda sync: sync.upstream)
    if not after:
        return None
    last, following = syncs[after - 1], syncs[after] if after < len(syncs) else None
    if last.upstream == offset:
        return Place(last.downstream, last.downstream)
    lowest, highest = last.downstream + 1, last.downstream + offset - last.upstream
    if following is None:
        return Place(lowest, highest)
    if following.downstream - last.downstream > following.upstream - last.upstream:
        return Place(lowest, following.downstream)
    return Place(max(lowest, following.downstream - (following.upstream - offset)), min(highest, following.downstream))


def failover_of(source_offset: int | None, target_offset: int | None, syncs: Sequence[Sync]) -> Failover:
    """Returns what a failover would do to a partition, from the group's committed offsets in both clusters; None means
    that the group has none there."""
    place = None if source_offset is None else place_of(source_offset, syncs)
    if source_offset is None:
        return Failover(FailoverOutcome.UNKNOWN)
    if target_offset is None:
        return Failover(FailoverOutcome.NO_COMMIT, place)
    if place is None:
        return Failover(FailoverOutcome.UNKNOWN)
    lowest, highest = place.lowest - target_offset, place.highest - target_offset
    counts = (max(lowest, 0), max(highest, 0), max(-highest, 0), max(-lowest, 0))
    return Failover(_outcome(*counts), place, *counts)


def _outcome(repeated_min: int, repeated_max: int, skipped_min: int, skipped_max: int) -> str:
    if repeated_min:
        return FailoverOutcome.REPEATS
    if skipped_min:
        return FailoverOutcome.SKIPS
    if not repeated_max and not skipped_max:
        return FailoverOutcome.EXACT
    return FailoverOutcome.NEAR if skipped_max else FailoverOutcome.MAY_REPEAT
