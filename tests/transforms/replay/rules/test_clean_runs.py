"""Histories of real coordinators and assignors give no finding, whole or with holes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.transforms.history.rules.events import Coverage
from groupledger.transforms.replay.rules import Finding, replay
from lab.truth.histories import GROUP, Commit, position, summaries
from lab.truth.runs import play_run
from tests.transforms.history.rules.live import ACTIONS, COOPERATIVE, LiveGroup, play

if TYPE_CHECKING:
    from lab.truth.histories import Entry

LOG_END = 10**6
histories = st.builds(
    play,
    st.sampled_from(["range", "roundrobin", "sticky", COOPERATIVE]),
    st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5)), min_size=4, max_size=16),
)


def found(log: list[Entry]) -> list[Finding]:
    return list(replay(GROUP, 3, summaries(sorted(log, key=position))))


@settings(max_examples=30, deadline=None)
@given(live=histories)
def test_a_live_group_is_true(live: LiveGroup) -> None:
    """Goal: whatever happens to a group, `validate` accepts the records that a coordinator writes and an assignor
    gives."""
    assert found([Coverage(0, "complete"), *live.log()]) == []


@settings(max_examples=30, deadline=None)
@given(live=histories, data=st.data())
def test_what_is_missing_is_no_lie(live: LiveGroup, data: st.DataObject) -> None:
    """Goal: a log that was compacted up to somewhere, and has a hole somewhere after that, gives no finding."""
    log = live.log()
    first, second, third = sorted(data.draw(st.lists(st.integers(0, len(log)), min_size=3, max_size=3)))
    offsets = [*(position(entry)[0] for entry in log), LOG_END]
    last = {_key(entry): entry for entry in log[:first]}
    marks = {0: "compacted", offsets[first]: "complete", offsets[second]: "unknown", offsets[third]: "complete"}
    kept = [entry for entry in log[:first] if last[_key(entry)] is entry]
    rest = [*log[first:second], *log[third:]]
    assert found([*(Coverage(*mark) for mark in marks.items()), *kept, *rest]) == []


def _key(entry: object) -> object:
    return (entry.topic, entry.partition) if isinstance(entry, Commit) else None


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["range-mixed", "roundrobin-static", "sticky-dynamic", "cooperative-sticky-mixed", "protocol-upgrade"]
)
def test_a_clean_run_gives_no_finding(name: str) -> None:
    """Goal: scaling and rolling restarts under every protocol are true; bench.replay_findings plays all scenarios."""
    groups = play_run(name, seed=5)
    assert sum(len(group.log) for group in groups) > 1
    assert [finding for group in groups for finding in group.findings()] == []
