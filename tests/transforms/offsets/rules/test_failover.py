"""Goal: a mirror that copies with gaps, begins again and compacts its syncs is simulated; the place of each commit in
the target is within the bounds, and so are the records that are really read again or skipped."""

from __future__ import annotations

import random
from bisect import bisect_left
from typing import NamedTuple

import pytest

from groupledger.schemas.words import FailoverOutcome
from groupledger.transforms.offsets.rules.failover import Place, Sync, failover_of, place_of, usable

SYNCS = [Sync(0, 0), Sync(100, 80), Sync(300, 200)]


class Mirror(NamedTuple):
    """`copied` are the upstream offsets of the copies, by downstream offset; `syncs` in the order of writing."""

    copied: list[int]
    syncs: list[Sync]
    end: int


def mirrored(source: random.Random, *, restarts: bool) -> Mirror:
    """Plays MirrorMaker: markers and compacted records are not copied, and some of the syncs are written."""
    end = source.randrange(1, 2_000)
    gone = {offset for offset in range(end) if source.random() < source.choice((0, 0.02, 0.3))}
    copied: list[int] = []
    syncs: list[Sync] = []
    every = source.choice((1, 7, 100))
    offset = 0
    while offset < end:
        if offset not in gone:
            if len(copied) % every == 0:
                syncs.append(Sync(offset, len(copied)))
            copied.append(offset)
        offset += 1
        if restarts and source.random() < 0.002:
            offset = max(offset - source.randrange(1, 300), 0)
            if offset not in gone and offset < end:  # the first record after a start always has a sync
                syncs.append(Sync(offset, len(copied)))
    return Mirror(copied, syncs, end)


def test_truth_is_within_the_bounds() -> None:
    """Goal: for every commit, without restarts; and the counts are those of a consumer that really goes on there."""
    for seed in range(300):
        source = random.Random(seed)
        mirror = mirrored(source, restarts=False)
        known = usable(mirror.syncs[source.randrange(len(mirror.syncs)) :] if mirror.syncs else [])
        for _ in range(20):
            commit, there = source.randrange(mirror.end + 1), source.randrange(len(mirror.copied) + 1)
            found = failover_of(commit, there, known)
            if not known or commit < known[0].upstream:
                assert found.outcome == FailoverOutcome.UNKNOWN
                continue
            true = bisect_left(mirror.copied, commit)
            assert found.place is not None
            assert found.place.lowest <= true <= found.place.highest, (seed, commit)
            assert (found.repeated_min or 0) <= max(true - there, 0) <= (found.repeated_max or 0)
            assert (found.skipped_min or 0) <= max(there - true, 0) <= (found.skipped_max or 0)


def test_restarts() -> None:
    """Goal: records that were copied twice make the bounds wider, never wrong: a copy of the next record is within
    them."""
    checked = 0
    for seed in range(300):
        source = random.Random(seed)
        mirror = mirrored(source, restarts=True)
        known = usable(mirror.syncs)
        for _ in range(20):
            commit = source.randrange(mirror.end + 1)
            place = place_of(commit, known)
            following = min((each for each in mirror.copied if each >= commit), default=None)
            if place is None or following is None:
                continue
            copies = [at for at, each in enumerate(mirror.copied) if each == following]
            assert any(place.lowest <= at <= place.highest for at in copies), (seed, commit)
            checked += 1
    assert checked > 3_000


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, Place(0, 0)),
        (1, Place(1, 1)),
        (40, Place(20, 40)),  # 20 are missing at most up to the next sync
        (100, Place(80, 80)),
        (299, Place(199, 200)),
        (350, Place(201, 250)),  # no sync after it: up to 49 records more
    ],
)
def test_places(offset: int, expected: Place) -> None:
    """Goal: at a sync the place is exact, between two syncs both bound it, and after the last sync that sync alone."""
    assert place_of(offset, SYNCS) == expected


def test_outcomes() -> None:
    """Goal: each outcome has its word and its counts."""
    assert failover_of(100, 80, SYNCS)[0] == FailoverOutcome.EXACT
    assert failover_of(100, 50, SYNCS)[2:] == (30, 30, 0, 0)
    assert failover_of(100, 50, SYNCS)[0] == FailoverOutcome.REPEATS
    assert failover_of(100, 95, SYNCS)[0] == FailoverOutcome.SKIPS
    assert failover_of(100, 95, SYNCS)[2:] == (0, 0, 15, 15)
    assert failover_of(350, 201, SYNCS)[0] == FailoverOutcome.MAY_REPEAT
    assert failover_of(350, 220, SYNCS)[0] == FailoverOutcome.NEAR
    assert failover_of(350, 220, SYNCS)[2:] == (0, 30, 0, 19)


def test_unknown() -> None:
    """Goal: without a sync, before the first one and without a commit the place is unknown."""
    for commit, syncs in ((5, []), (5, [Sync(6, 6)]), (None, SYNCS)):
        found = failover_of(commit, 5, syncs)
        assert found.outcome == FailoverOutcome.UNKNOWN
        assert found[2:] == (None,) * 4
    assert failover_of(5, None, SYNCS)[0] == FailoverOutcome.NO_COMMIT


def test_syncs_that_contradict() -> None:
    """Goal: if MirrorMaker began again, the syncs of before are dropped; more copies than records bound nothing."""
    assert usable([Sync(0, 0), Sync(100, 100), Sync(50, 101), Sync(70, 121)]) == [Sync(50, 101), Sync(70, 121)]
    assert usable([Sync(0, 0), Sync(0, 7)]) == [Sync(0, 7)]
    assert place_of(10, [Sync(0, 0), Sync(20, 90)]) == Place(1, 90)
