"""Goal: a commit that the log's start has passed, or that a topic made anew has reached, is one event, with the most
that was lost, however rounds are read."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.transforms.offsets.rules.sampled_losses import OF_COMMIT, sampled_losses

BEGAN_AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
Row = dict[str, Any]


def round_at(minute: int, lost: int, *, kafka_offset: int = 9, committed: int = 100) -> Row:
    return {
        **dict(zip(OF_COMMIT, ("g", "t", 0, 3, kafka_offset), strict=True)),
        "sampled_at": BEGAN_AT + timedelta(minutes=minute),
        "committed_offset": committed,
        "messages_lost": lost,
        "committed_at": BEGAN_AT,
        "raw_lag": 50,
        "log_start_offset": committed + lost,
        "flags": ["messages_lost"],
    }


def anew(minute: int, end: int, *, start: int = 0) -> Row:
    """A round in which the commit of offset 100 is of a former topic, and the new one ends there."""
    odd = {"messages_lost": None, "raw_lag": end - 100, "log_start_offset": start, "flags": ["topic_recreated"]}
    return round_at(minute, 0) | odd


def test_first_round_and_most_lost() -> None:
    """Goal: the first round gives the time, and the largest number counts; every column of the table is filled."""
    (event,) = sampled_losses([round_at(5, 20), round_at(6, 35)], [])
    assert (event["happened_at"], event["records_skipped"]) == (BEGAN_AT + timedelta(minutes=5), 35)
    assert (event["offset_before"], event["offset_after"], event["kafka_offset"]) == (100, 135, 9)
    assert {"cluster", *event} == set(OFFSET_EVENTS.schema.names)


def test_a_topic_that_was_made_anew() -> None:
    """Goal: nothing is lost before the new log reaches the commit of the former one; then all records before the commit
    are lost, and retention may have taken some of them since."""
    assert sampled_losses([anew(5, 99), anew(5, 150, start=100)], []) == []
    (event,) = sampled_losses([anew(5, 99), anew(6, 100), anew(7, 300, start=20)], [])
    assert (event["kind"], event["happened_at"]) == ("topic_recreated", BEGAN_AT + timedelta(minutes=6))
    assert (event["offset_before"], event["offset_after"], event["records_skipped"]) == (100, 0, 100)
    assert sampled_losses([anew(7, 300, start=20)], [event]) == []
    other_reason = {**anew(6, 100), "flags": ["no_watermark"]}
    assert sampled_losses([other_reason], []) == []


def test_what_did_not_change_is_not_reported_again() -> None:
    """Goal: a round that shows the same as the one before writes nothing."""
    reported = sampled_losses([round_at(5, 20)], [])
    assert sampled_losses([round_at(6, 20)], reported) == []


ROUNDS = st.lists(
    st.builds(round_at, st.integers(0, 99), st.integers(1, 9), kafka_offset=st.integers(1, 3)),
    max_size=12,
    unique_by=lambda row: (row["sampled_at"], row["kafka_offset"]),
)


@given(ROUNDS, st.integers(0, 12))
def test_any_cut(rounds: list[Row], cut: int) -> None:
    """Goal: found in two passes, or with a pass repeated, the same events."""

    def losses_after(*passes: list[Row]) -> dict[int, Row]:
        events: dict[int, Row] = {}
        for rows in passes:
            events |= {row["kafka_offset"]: row for row in sampled_losses(rows, events.values())}
        return events

    whole = losses_after(rounds)
    assert losses_after(rounds[:cut], rounds[cut:]) == whole
    assert losses_after(rounds[:cut], rounds[:cut], rounds[cut:]) == whole
