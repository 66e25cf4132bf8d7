"""Goal: the rules know at which ends of a log the state of a key can't be known."""

from __future__ import annotations

from groupledger.transforms.coverage.rules.losses import LogLosses, Thinned, thinned_stretches
from groupledger.transforms.coverage.rules.stretches import Reading

WHOLE = Reading(from_offset=0, complete_from=0, complete_from_ms=1)


def thinned(begin: int, present_from: int, settled_from: int) -> Reading:
    return Reading(from_offset=begin, complete_from=present_from, complete_from_ms=1, settled_from=settled_from)


def test_what_was_read_whole_has_lost_nothing() -> None:
    assert thinned_stretches([WHOLE]) == []


def test_a_stretch_reaches_to_where_the_log_had_settled() -> None:
    """Goal: a round whose end lies within is not known for every key; before it and after it all is."""
    found = thinned_stretches([WHOLE, thinned(100, 150, 200)])
    assert found == [Thinned(100, 150, 200)]
    losses = LogLosses(thinned={3: found})
    known = [losses.thinned_at(3, end) is None for end in (50, 100, 101, 199, 200, 500)]
    assert known == [True, True, False, False, True, True]
    assert losses.thinned_at(4, 150) is None


def test_a_stretch_that_was_thinned_again_before_it_had_settled() -> None:
    """Goal: if the next reading begins before the log had settled, the log has settled where the next reading's log
    has."""
    found = thinned_stretches([WHOLE, thinned(100, 150, 300), thinned(200, 250, 400)])
    assert found == [Thinned(100, 150, 400), Thinned(200, 250, 400)]
