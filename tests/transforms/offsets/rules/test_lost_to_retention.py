"""Goal: a commit that the log's start has passed is one event, with the most that was lost, however rounds are told."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.transforms.offsets.rules.lost_to_retention import OF_COMMIT, lost_to_retention

BEGAN_AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
Row = dict[str, Any]


def round_at(minute: int, lost: int, *, kafka_offset: int = 9, committed: int = 100) -> Row:
    return {
        **dict(zip(OF_COMMIT, ("g", "t", 0, 3, kafka_offset), strict=True)),
        "sampled_at": BEGAN_AT + timedelta(minutes=minute),
        "committed_offset": committed,
        "messages_lost": lost,
        "committed_at": BEGAN_AT,
    }


def test_first_round_and_most_lost() -> None:
    """Goal: the first round gives the time, and the largest number counts; every column of the table is filled."""
    (event,) = lost_to_retention([round_at(5, 20), round_at(6, 35)], [])
    assert (event["happened_at"], event["records_skipped"]) == (BEGAN_AT + timedelta(minutes=5), 35)
    assert (event["offset_before"], event["offset_after"], event["kafka_offset"]) == (100, 135, 9)
    assert {"cluster", *event} == set(OFFSET_EVENTS.schema.names)


def test_what_did_not_change_is_not_told_again() -> None:
    """Goal: a round that shows the same as the one before writes nothing."""
    told = lost_to_retention([round_at(5, 20)], [])
    assert lost_to_retention([round_at(6, 20)], told) == []


ROUNDS = st.lists(
    st.builds(round_at, st.integers(0, 99), st.integers(1, 9), kafka_offset=st.integers(1, 3)),
    max_size=12,
    unique_by=lambda row: (row["sampled_at"], row["kafka_offset"]),
)


@given(ROUNDS, st.integers(0, 12))
def test_any_cut(rounds: list[Row], cut: int) -> None:
    """Goal: told in two passes, or with a pass repeated, the same events."""

    def told_after(*passes: list[Row]) -> dict[int, Row]:
        events: dict[int, Row] = {}
        for rows in passes:
            events |= {row["kafka_offset"]: row for row in lost_to_retention(rows, events.values())}
        return events

    whole = told_after(rounds)
    assert told_after(rounds[:cut], rounds[cut:]) == whole
    assert told_after(rounds[:cut], rounds[:cut], rounds[cut:]) == whole
