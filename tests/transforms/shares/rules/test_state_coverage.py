"""Goal: records that were pruned before they were read are a hole, and nothing else is."""

from __future__ import annotations

from groupledger.transforms.shares.rules.state_coverage import StateStretch, new_stretches

FIRST = StateStretch(0, 3, 10, 1_000, 2_000, "complete")


def test_the_first_pass_has_no_hole() -> None:
    """Goal: a log that was pruned before anybody read it begins where it begins now."""
    assert new_stretches({}, {}, {1: 0, 0: 7}, 5_000) == [
        StateStretch(0, 7, 7, 5_000, None, "complete"),
        StateStretch(1, 0, 0, 5_000, None, "complete"),
    ]


def test_pruning_of_what_was_read_changes_nothing() -> None:
    """Goal: the log's start may come up to the next offset to read."""
    for log_start in (3, 9, 12):
        assert new_stretches({0: FIRST}, {0: 12}, {0: log_start}, 5_000) == []


def test_a_hole() -> None:
    """Goal: a stretch begins after the last row, up to which the stretch before is extended, and another stretch
    follows it."""
    assert new_stretches({0: FIRST}, {0: 12}, {0: 20}, 5_000) == [
        StateStretch(0, 3, 12, 1_000, 2_000, "complete"),
        StateStretch(0, 12, 20, 2_000, 5_000, "unknown"),
        StateStretch(0, 20, 20, 5_000, None, "complete"),
    ]
    assert len(new_stretches({0: FIRST}, {0: 10}, {0: 20}, 5_000)) == 2
