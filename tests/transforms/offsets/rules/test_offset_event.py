"""Goal: the report of a change of an offset goes as far as the records prove it, and no further."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupledger.schemas.words import OffsetEventCause, OffsetEventEvidence, OffsetEventKind
from groupledger.transforms.offsets.rules.offset_event import (
    CLOCK_SKEW_MS,
    Commit,
    Generation,
    OffsetChange,
    OffsetEvent,
    OffsetRules,
    event_row,
    offset_event,
)

RULES = OffsetRules(retention_ms=60_000, retention_check_interval_ms=2_000)
COMMITTED_MS, EMPTY_MS = 100_000, 110_000
STABLE = Generation(protocol_type="consumer", member_count=2, since_ms=90_000)
EMPTY = Generation(protocol_type="consumer", member_count=0, since_ms=EMPTY_MS)
EMPTY_EPOCH = Generation(protocol_type="consumer", member_count=0, since_ms=None, begun_ms=500_000)
UNJOINED = Generation(protocol_type="", member_count=0, since_ms=EMPTY_MS)
BEFORE = Commit(kafka_offset=5, offset=40, committed_at_ms=COMMITTED_MS)
WITH_EPOCH = replace(BEFORE, leader_epoch=0)


def commit(offset: int | None, **fields: Any) -> Commit:
    return Commit(kafka_offset=9, offset=offset, committed_at_ms=120_000, **fields)


def step(after: Commit | None, at_ms: int = 120_000, **fields: Any) -> OffsetChange:
    usual: dict[str, Any] = {
        "before": BEFORE,
        "was_removed": False,
        "is_known": True,
        "generation": EMPTY,
        "is_group_known": True,
    }
    return OffsetChange(at_ms=at_ms, after=after, **{**usual, **fields})


def reported(step: OffsetChange) -> tuple[str, str | None] | None:
    event = offset_event(step, RULES)
    return None if event is None else (event.kind, event.cause)


# Commits


@pytest.mark.parametrize(
    ("generation", "cause"),
    [
        (STABLE, OffsetEventCause.MEMBER),
        (EMPTY, OffsetEventCause.NO_MEMBER),
        (UNJOINED, OffsetEventCause.NO_MEMBER),
        (replace(STABLE, member_count=None), None),
        (None, None),
    ],
)
def test_lower_commit(generation: Generation | None, cause: str | None) -> None:
    """Goal: a commit below the one before repeats what lies between, and the group then says who made it."""
    event = offset_event(step(commit(25), generation=generation), RULES)
    assert event == OffsetEvent(kind=OffsetEventKind.REWOUND, cause=cause, records_repeated=15)


@pytest.mark.parametrize(
    ("after", "fields", "is_skipped"),
    [
        (commit(50), {}, True),
        (commit(50), {"generation": STABLE}, False),  # a member goes on
        (commit(50), {"generation": UNJOINED}, False),  # a simple consumer, whose group somebody tried to join
        (commit(50), {"generation": None}, False),  # a simple consumer, or nobody knows
        (
            commit(50),
            {"generation": None, "before": replace(BEFORE, leader_epoch=0)},
            True,
        ),  # a reset of a simple group
        (commit(50), {"generation": UNJOINED, "before": replace(BEFORE, leader_epoch=0)}, True),
        (commit(50), {"generation": STABLE, "before": replace(BEFORE, leader_epoch=0)}, False),
        (commit(50), {"generation": None, "is_group_known": False, "before": WITH_EPOCH}, False),
        (commit(50, leader_epoch=0), {}, False),  # a consumer without a membership that has read up to there
        (commit(50), {"was_removed": True}, False),  # nobody knows where the group began again
        (commit(40), {}, False),
    ],
)
def test_higher_commit(after: Commit, fields: dict[str, Any], *, is_skipped: bool) -> None:
    """Goal: a higher commit skips records only if neither a member nor a consumer that has read can have made it: a
    commit of a simple consumer that reads names the leader epoch of its last record, if its commit before did."""
    event = offset_event(step(after, **fields), RULES)
    skipped = OffsetEvent(kind=OffsetEventKind.SKIPPED, cause=OffsetEventCause.NO_MEMBER, records_skipped=10)
    assert event == (skipped if is_skipped else None)


def test_another_topic_is_not_compared() -> None:
    """Goal: another topic id is a topic that was made anew, whichever way the offset went; the same id says that an
    offset which was removed went back."""
    of_first = replace(BEFORE, topic_id="first")
    for offset in (20, 40, 60):
        other = step(commit(offset, topic_id="second"), before=of_first)
        assert reported(other) == (OffsetEventKind.TOPIC_RECREATED, None)
    same = step(commit(20, topic_id="first"), before=of_first, was_removed=True)
    assert reported(same) == (OffsetEventKind.REWOUND, OffsetEventCause.AFTER_REMOVAL)
    assert reported(step(commit(20), was_removed=True)) is None


@pytest.mark.parametrize(
    "unknown",
    [{"is_known": False}, {"before": None}, {"before": replace(BEFORE, offset=None)}],
    ids=["thinned", "first", "no offset"],
)
def test_nothing_is_said_of_a_commit_without_one_to_compare(unknown: dict[str, Any]) -> None:
    """Goal: no move is reported over a thinned stretch, before the first commit, or from offset -1."""
    for offset in (20, 60, None):
        assert reported(step(commit(offset), **unknown)) is None


# Removals


DUE_MS = EMPTY_MS + RULES.retention_ms


@pytest.mark.parametrize(
    ("at_ms", "fields", "expected"),
    [
        (DUE_MS, {"ends_group": True}, (OffsetEventKind.EXPIRED, OffsetEventCause.RETENTION)),
        (DUE_MS + 2_000, {}, (OffsetEventKind.EXPIRED, OffsetEventCause.RETENTION)),
        (DUE_MS - 10_000, {"ends_group": True}, (OffsetEventKind.GROUP_DELETED, OffsetEventCause.DELETE_REQUEST)),
        (DUE_MS - 10_000, {"groups_at_once": 2}, (OffsetEventKind.TOPIC_DELETED, OffsetEventCause.TOPIC_DELETION)),
        (DUE_MS - 10_000, {}, (OffsetEventKind.DELETED, OffsetEventCause.DELETE_REQUEST_OR_TOPIC)),
        (DUE_MS - 1, {"ends_group": True}, (OffsetEventKind.REMOVED, None)),  # clocks differ
        (DUE_MS + 60_000, {"ends_group": True}, (OffsetEventKind.REMOVED, None)),  # a cleanup had been due long before
        # Without a generation, with members and before the first of them, age counts from the commit.
        (COMMITTED_MS + 60_000, {"generation": None}, (OffsetEventKind.EXPIRED, OffsetEventCause.RETENTION)),
        (COMMITTED_MS + 60_000, {"generation": STABLE}, (OffsetEventKind.EXPIRED, OffsetEventCause.RETENTION)),
        (COMMITTED_MS + 60_000, {"generation": UNJOINED}, (OffsetEventKind.EXPIRED, OffsetEventCause.RETENTION)),
        # Members of a KIP-848 group kept the offset, and left at 500 s.
        (
            501_000,
            {"generation": EMPTY_EPOCH, "ends_group": True},
            (OffsetEventKind.EXPIRED, OffsetEventCause.RETENTION),
        ),
        (520_000, {"generation": EMPTY_EPOCH}, (OffsetEventKind.REMOVED, None)),
        (
            COMMITTED_MS + 50_000,
            {"generation": replace(EMPTY_EPOCH, begun_ms=COMMITTED_MS + 10_000), "ends_group": True},
            (OffsetEventKind.GROUP_DELETED, OffsetEventCause.DELETE_REQUEST),
        ),
        (DUE_MS, {"is_known": False}, (OffsetEventKind.REMOVED, None)),
        (DUE_MS, {"is_group_known": False}, (OffsetEventKind.REMOVED, None)),
        (DUE_MS, {"before": None, "is_known": False}, (OffsetEventKind.REMOVED, None)),
        (DUE_MS, {"before": None}, None),  # there was nothing to remove
        (DUE_MS, {"was_removed": True}, None),
    ],
)
def test_removal(at_ms: int, fields: dict[str, Any], expected: tuple[str, str | None] | None) -> None:
    """Goal: the age of an offset distinguishes expiry from deletion, as the broker counts it; if the age does not
    decide, there is no cause."""
    assert reported(step(None, at_ms, **fields)) == expected


def test_reset_of_an_empty_group_does_not_keep_its_offsets() -> None:
    """Goal: the offsets of an empty group expire by the time at which it became empty, though a reset was later (as a
    real broker does)."""
    reset = replace(BEFORE, committed_at_ms=EMPTY_MS + 30_000)
    event = offset_event(step(None, DUE_MS, before=reset, ends_group=True), RULES)
    assert event is not None
    assert (event.kind, event.age_ms, event.evidence) == (
        OffsetEventKind.EXPIRED,
        RULES.retention_ms,
        OffsetEventEvidence.AGE,
    )


def test_commit_with_its_own_expiry() -> None:
    """Goal: a commit that names its expiry expires then, whatever its age."""
    own = replace(BEFORE, expire_at_ms=115_000)
    assert reported(step(None, 115_500, before=own)) == (OffsetEventKind.EXPIRED, OffsetEventCause.OWN_EXPIRY)
    later = replace(BEFORE, expire_at_ms=DUE_MS + 500_000)
    assert reported(step(None, DUE_MS, before=later)) == (
        OffsetEventKind.DELETED,
        OffsetEventCause.DELETE_REQUEST_OR_TOPIC,
    )


# Anything

OFFSETS = st.none() | st.integers(0, 2**63 - 1)
IDS = st.none() | st.sampled_from(["first", "second"])
COMMITS = st.builds(
    Commit,
    kafka_offset=st.integers(0, 100),
    offset=OFFSETS,
    committed_at_ms=st.integers(0, 2**47),
    leader_epoch=st.none() | st.integers(0, 9),
    topic_id=IDS,
    expire_at_ms=st.none() | st.integers(0, 2**47),
)
STEPS = st.builds(
    OffsetChange,
    at_ms=st.integers(0, 2**47),
    after=st.none() | COMMITS,
    before=st.none() | COMMITS,
    was_removed=st.booleans(),
    is_known=st.booleans(),
    generation=st.none() | st.sampled_from([STABLE, EMPTY, UNJOINED]),
    is_group_known=st.booleans(),
    ends_group=st.booleans(),
    groups_at_once=st.integers(1, 3),
)
COUNTS = {
    OffsetEventKind.REWOUND: ("records_repeated", -1),
    OffsetEventKind.SKIPPED: ("records_skipped", 1),
}


@given(STEPS)
def test_no_claim_without_what_it_rests_on(some: OffsetChange) -> None:
    """Goal: whatever the records are, a cause needs a known log; a count is positive and lies between the commits; and
    nothing that is removed before its time has expired."""
    event = offset_event(some, RULES)
    if event is None:
        return
    row = event_row(some, event)
    if not some.is_known:
        assert (event.kind, event.cause, row["offset_before"]) == (OffsetEventKind.REMOVED, None, None)
    for kind, (column, sign) in COUNTS.items():
        if event.kind == kind:
            assert row[column] == sign * (row["offset_after"] - row["offset_before"]) > 0
        else:
            assert row[column] is None
    if event.kind == OffsetEventKind.EXPIRED and event.cause == OffsetEventCause.RETENTION:
        assert event.age_ms is not None
        assert 0 <= event.age_ms - RULES.retention_ms <= RULES.retention_check_interval_ms + CLOCK_SKEW_MS
