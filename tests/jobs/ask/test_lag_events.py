"""Goal: the inputs for the lag of a group are read from the tables as earlier rounds left them, and as Spark reads
them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.lag_events import GroupEvents
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.lag.rules import BurrowRules, End, LagRules, StatusRules
from groupledger.transforms.lag.rules.of_group import COMMIT, OWNER, POINT, SAMPLE, TOPIC, RoundsToCompute
from groupledger.transforms.lag.rules.sample_times import WINDOW_MS
from groupledger.transforms.lag.rules.topic_window import RECENT_ENDS_MAX

if TYPE_CHECKING:
    from pathlib import Path

FIRST_MS, ROUND_MS = 1_760_000_000_000, 1_000
GROUP, KAFKA_PARTITION = "g'; --", 3
# What the rounds saw of the log's end, and of the end of the group's topic, which is made anew in the last one.
LOG_ENDS, TOPIC_ENDS = (10, 20, 20, 30), (100, 200, 250, 7)
LAST_MS = FIRST_MS + 2 * ROUND_MS  # the last round before those that are computed


def sampled(number: int, **fields: Any) -> dict[str, Any]:
    at = instant_of_ms(FIRST_MS + number * ROUND_MS)
    return {"sampled_at": at, "sample_date": at.date(), **fields}


def watermark(number: int, topic: str, partition: int, end: int, topic_id: str = "a") -> dict[str, Any]:
    offsets = {"log_start_offset": 0, "high_watermark": end, "last_stable_offset": end, "topic_id": topic_id}
    return sampled(number, topic=topic, partition=partition, **offsets)


def commit(kafka_offset: int, topic: str = "t", group_id: str = GROUP) -> dict[str, Any]:
    value = {"topic": topic, "partition": 0, "offset": kafka_offset, "commit_timestamp_ms": FIRST_MS}
    place = {"kafka_partition": KAFKA_PARTITION, "kafka_offset": kafka_offset, "group_id": group_id}
    return {**place, "record_type": "offset_commit", "is_tombstone": False, "offset_commit": value}


def interval(member_id: str, begin: int, end: int | None, **fields: Any) -> dict[str, Any]:
    place = {"group_id": GROUP, "incarnation": 1, "member_id": member_id, "is_open": int(end is None)}
    return {**place, "from_offset": begin, "to_offset": end, **fields}


def events(folder: Path, rules: LagRules, **tables: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Returns what is read of a warehouse for its last round."""
    rows = [watermark(number, OFFSETS_TOPIC, KAFKA_PARTITION, end) for number, end in enumerate(LOG_ENDS)]
    rows += [watermark(number, OFFSETS_TOPIC, 4, 99) for number in range(len(LOG_ENDS))]
    rows += [watermark(number, "t", 0, end, "b" if number == 3 else "a") for number, end in enumerate(TOPIC_ENDS)]
    tables["watermarks"] = rows + tables.get("watermarks", [])
    for name, found in tables.items():
        arrow = pa.Table.from_pylist([{"cluster": "c", **row} for row in found], schema_of(name))
        write_deltalake(str(folder / name), arrow)
    read = GroupEvents(ClusterRows(str(folder), "c"), GROUP, KAFKA_PARTITION)
    rounds = RoundsToCompute(read.rounds(LAST_MS + 1, LAST_MS + WINDOW_MS), read.end_before(LAST_MS))
    assert rounds.ends == [(LAST_MS + ROUND_MS, {KAFKA_PARTITION: End(30, is_behind=False)})]
    assert rounds.ends_before == {KAFKA_PARTITION: (LAST_MS, End(20, is_behind=False))}
    return read.of(rounds, LAST_MS, rules)


def test_commits_and_the_ends_before_them(tmp_path: Path) -> None:
    """Goal: commits that a round has counted are read back only as far as rules need the last of them, each with the
    end of the newest round that did not count it; an end stands before the commit at its offset. Commits that no round
    has counted are read up to the round; commits of other groups are not."""
    offsets = (5, 9, 10, 19, 20, 29, 30)
    rows = [*map(commit, offsets), commit(11, OFFSETS_TOPIC), commit(12, group_id="other")]
    found = events(tmp_path, LagRules(burrow=BurrowRules(intervals=3)), coordinator_records=rows)
    reported = [(row["kafka_offset"], row["high_watermark"]) for row in found[COMMIT]]
    assert reported == [(9, None), (10, 100), (11, None), (19, 100), (20, None), (29, None)]


def test_topics_that_were(tmp_path: Path) -> None:
    """Goal: each topic id is read with its last sample before the rounds and its highest end; besides, the samples of
    the group's topics in the window, and those of the rounds."""
    ages = (*range(1, RECENT_ENDS_MAX), *range(1_000, 1_064))
    samples = [watermark(-age, "t", 0, 1) for age in ages]
    samples += [watermark(-(WINDOW_MS // ROUND_MS) - 10, "t", 0, 900), watermark(0, "strange", 0, 5)]
    samples.append(sampled(1, topic="t", partition=1))  # no broker answered
    found = events(tmp_path, LagRules(), coordinator_records=[commit(5)], watermarks=samples)
    topics = [(row["topic"], row["topic_id"], row["at_ms"], row["high_watermark"]) for row in found[TOPIC]]
    assert topics == [("t", "a", LAST_MS, 900)]
    times = sorted((LAST_MS - row["at_ms"]) // ROUND_MS for row in found[SAMPLE])
    # Of about a thousand seconds ago one sample stays for each 32.768 seconds.
    assert times[: RECENT_ENDS_MAX + 1] == list(range(-1, RECENT_ENDS_MAX))
    assert 2 <= len(times) - (RECENT_ENDS_MAX + 1) <= 5


@pytest.mark.parametrize(("window_rounds", "expected"), [(1, [(2, 8)]), (12, [(0, 6), (2, 8)])])
def test_points(tmp_path: Path, window_rounds: int, expected: list[tuple[int, int]]) -> None:
    """Goal: the points of the rounds of one window before are read back, where there was a commit."""
    rows = [
        sampled(number, group_id=GROUP, topic="t", partition=0, committed_offset=offset, lag=1)
        for number, offset in enumerate((6, None, 8, 9))
    ]
    rules = LagRules(status=StatusRules(window_ms=window_rounds * ROUND_MS))
    found = events(tmp_path, rules, coordinator_records=[commit(5)], lag=rows)
    points = [((row["at_ms"] - FIRST_MS) // ROUND_MS, row["committed_offset"]) for row in found[POINT]]
    assert sorted(points) == expected


def test_points_without_lag(tmp_path: Path) -> None:
    """Goal: of each twentieth of the window, the newest row with a lag is read back, and the newest without."""
    rows = [
        sampled(number, group_id=GROUP, topic="t", partition=0, committed_offset=number, lag=lag)
        for number, lag in ((-5, None), (-4, 1), (-3, 1), (-2, 1), (-1, None), (0, 1), (1, None), (2, None))
    ]
    rules = LagRules(status=StatusRules(window_ms=20 * 4 * ROUND_MS))
    found = events(tmp_path, rules, coordinator_records=[commit(5)], lag=rows)
    assert sorted((row["committed_offset"], row["lag"]) for row in found[POINT]) == [
        (-5, None),
        (-2, 1),
        (-1, None),
        (0, 1),
        (2, None),
    ]


def test_a_removal_that_many_commits_follow(tmp_path: Path) -> None:
    """Goal: the last removal is read back, too, so that rows from before it are forgotten."""
    removals = [{**commit(offset), "is_tombstone": True} for offset in (6, 8, 12)]
    rows = [*map(commit, (5, 7, 9, 10, 11)), *removals]
    found = events(tmp_path, LagRules(burrow=BurrowRules(intervals=2)), coordinator_records=rows)
    assert [row["kafka_offset"] for row in found[COMMIT]] == [11, 12]
    rows.append(commit(13))
    found = events(tmp_path / "later", LagRules(burrow=BurrowRules(intervals=1)), coordinator_records=rows)
    assert [row["kafka_offset"] for row in found[COMMIT]] == [12, 13]


def test_a_fall_of_the_end(tmp_path: Path) -> None:
    """Goal: of samples in one bucket of their age, the lowest is read back besides the last, if the end fell there."""
    fallen = {-1_000: 90, -999: 80, -998: 85, -997: 95, -990: 99, -980: 100}
    samples = [watermark(number, "u", 0, end) for number, end in fallen.items()]
    samples += [watermark(number, "u", 0, 100) for number in range(-RECENT_ENDS_MAX, 0)]
    found = events(tmp_path, LagRules(), coordinator_records=[commit(5, "u")], watermarks=samples)
    numbers = sorted((row["at_ms"] - FIRST_MS) // ROUND_MS for row in found[SAMPLE] if row["topic"] == "u")
    assert numbers[:-RECENT_ENDS_MAX] == [-1_000, -999, -980]


def test_owners(tmp_path: Path) -> None:
    """Goal: the owners at the rounds are read back, each with the host of the tenure in which the ownership began, also
    if the member id came back."""
    tenures = [interval("m", 0, 15, client_host="first"), interval("m", 15, None, client_host="second")]
    owned = [interval("m", begin, end, topic="t", partition=0) for begin, end in ((1, 5), (14, 25), (26, None))]
    found = events(tmp_path, LagRules(), coordinator_records=[], members=tenures, assignments=owned)
    rows = [(row["kafka_offset"], row["to_offset"], row["client_host"]) for row in found[OWNER]]
    assert rows == [(14, 25, "first"), (26, None, "second")]


def test_nothing(tmp_path: Path) -> None:
    """Goal: a group that neither committed nor owned anything has no events of topics."""
    found = events(tmp_path, LagRules(), coordinator_records=[])
    assert not any(found.values())
