"""Goal: a question that reaches beyond what was read is noticed, by each source that it needs, and no other is."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from groupledger.schemas.words import Source, words_of
from groupledger.transforms.coverage.rules.known import (
    Time,
    is_nothing_known,
    last_instant,
    topic_known_until,
    why_not_known,
)

END = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)
KNOWN = {**dict.fromkeys(words_of(Source)), Source.TOPIC: END, Source.SAMPLES: END, Source.INCIDENTS: END - SECOND}
ALL = (Source.TOPIC, Source.SAMPLES, Source.INCIDENTS)


@pytest.mark.parametrize(
    ("time", "beyond"),
    [
        (Time(), ()),
        (Time(since=END - 2 * SECOND), ()),
        (Time(since=END - SECOND), (Source.INCIDENTS,)),
        (Time(since=END), ALL),
        (Time(until=END - SECOND), ()),
        (Time(until=END), (Source.INCIDENTS,)),
        (Time(until=END + SECOND), ALL),
        (Time.at(None), ()),
        (Time.at(END - 2 * SECOND), ()),
        (Time.at(END), (Source.TOPIC, Source.INCIDENTS)),  # a stretch of the log ends before its end
        (Time(instants=(END - 2 * SECOND, END + SECOND)), ALL),
    ],
)
def test_beyond(time: Time, beyond: tuple[str, ...]) -> None:
    """Goal: a window without an end reaches as far as the sources do, and one with an end as far as it says."""
    for source in ALL:
        assert (why_not_known(KNOWN, (source,), time) is not None) == (source in beyond), source


def test_a_sentence() -> None:
    """Goal: one sentence has all the sources that fall short, and the remedy; no earlier time helps if one of them was
    never read."""
    time = Time(until=END + SECOND)
    assert why_not_known(KNOWN, (Source.TOPIC, Source.INCIDENTS), time) == (
        "Not known for all of the time that was asked: the log is read up to 2026-01-01T12:00:00.000Z only, and"
        " incidents were looked for until 2026-01-01T11:59:59.000Z only; run `groupledger pipeline`,"
        " or ask for a time before."
    )
    never = {**KNOWN, Source.INCIDENTS: None}
    assert why_not_known(never, (Source.TOPIC, Source.INCIDENTS), Time()) == (
        "Not known for all of the time that was asked: nobody has looked for incidents yet; run `groupledger pipeline`."
    )


def test_nothing_known() -> None:
    """Goal: a window is answered if one source knows a part of it."""
    both = (Source.TOPIC, Source.INCIDENTS)
    assert is_nothing_known(KNOWN, both, Time(since=END))
    assert not is_nothing_known(KNOWN, both, Time(since=END - SECOND))
    assert is_nothing_known(KNOWN, (Source.REQUEST_LOG,), Time(since=END))
    assert not is_nothing_known(KNOWN, both, Time())
    assert last_instant(KNOWN, both) == END
    assert last_instant(KNOWN, (Source.REQUEST_LOG,)) is None


def test_the_log() -> None:
    """Goal: the log is known until the last pass that came to its end, groups as far as each of their partitions."""
    coverage: list[dict[str, object]] = [
        {"kafka_partition": 1, "to_time": END - SECOND},
        {"kafka_partition": 1, "to_time": END},
        {"kafka_partition": 2, "to_time": END + SECOND},
        {"kafka_partition": 3, "to_time": None},
    ]
    assert topic_known_until(coverage, ()) == topic_known_until(coverage, {2}) == END + SECOND
    assert topic_known_until(coverage, {1}) == topic_known_until(coverage, {1, 2}) == END
    assert topic_known_until(coverage, {3}) is topic_known_until(coverage, {1, 3}) is topic_known_until([], ()) is None
