"""Goal: a first commit of a new partition after records that nobody had read is sighted; one among them is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.incidents.rules import incidents
from groupledger.transforms.incidents.rules.facts import NEW_PARTITION_MS, TopicEnd, commit_steps
from lab.truth.made import RULES, T, commit, facts, generation, interval

if TYPE_CHECKING:
    from collections.abc import Sequence

KIND = "partition_not_read"
TAKEN_S = 100  # when a member gets the new partition
NEW = ((60, 0), (80, 200))


def grown(
    first_offset: int = 202,
    samples: Sequence[tuple[int, int]] = NEW,
    *,
    at_s: int = TAKEN_S + 2,
    old_samples: Sequence[tuple[int, int]] = ((20, 5), (60, 9)),
    intervals: Sequence[dict[str, Any]] = (interval("m-1", 0, 10, None), interval("m-1", 1, TAKEN_S, None)),
) -> list[dict[str, Any]]:
    """Returns the incidents of a group that reads partition 0 and then gets partition 1; samples are (seconds, end)."""
    ends = {
        TopicPartition("orders", partition): [TopicEnd(T + second * 1_000, end) for second, end in line]
        for partition, line in ((0, old_samples), (1, samples))
    }
    commits = [
        commit(5, T + 50_000, 50),
        commit(first_offset, T + at_s * 1_000, at_s, 1),
        commit(first_offset + 9, T + at_s * 1_000 + 5_000, at_s + 5, 1),
    ]
    steps = commit_steps(commits, RULES.commit_gap_ms, ends)
    given = facts(
        generations=[generation(3, 10, TAKEN_S), generation(4, TAKEN_S, None)],
        members=[],
        rebalances=[],
        assignments=list(intervals),
        steps=steps,
    )
    return [row for row in incidents(given, RULES) if row["kind"] == KIND]


def test_records_before_anybody_knew_of_them() -> None:
    (row,) = grown()
    assert (row["severity"], row["never_read_max"], row["setting_to_change"]) == ("info", 200, "auto.offset.reset")
    assert (row["probable_root"], row["confidence"]) == ("auto_offset_reset", 0.5)
    assert (row["first_seen_at"], row["last_seen_at"]) == ((T + 60_000) * 1_000, (T + 102_000) * 1_000)
    assert "had up to 200 records before a member of the group took them" in row["explanation"]
    assert "to earliest" in row["explanation"]


def test_who_began_before_them() -> None:
    """Goal: nothing is reported if the first commit lies among the records, or if there were no records, or one
    marker."""
    assert len(grown(200)) == 1
    assert grown(25) == []
    assert grown(samples=[(60, 0), (80, 1)]) == []


def test_a_sample_after_the_partition_was_taken() -> None:
    """Goal: records that were written after a member had the partition do not count as unread by themselves; records
    from before count if the commit lies after all of them."""
    assert grown(samples=[(60, 0), (101, 200)]) == []
    (row,) = grown(samples=[(60, 150), (101, 200)])
    assert row["never_read_max"] == 200
    assert grown(190, samples=[(60, 150), (101, 200)]) == []


def test_a_partition_that_is_not_new() -> None:
    """Goal: a topic that is first sampled with all its partitions, a group that is new itself, one that owned the
    partition before, and a commit of much later give no incident."""
    assert grown(old_samples=[(60, 9)]) == []
    assert grown(intervals=[interval("m-1", 0, 100, None), interval("m-1", 1, TAKEN_S, None)]) == []
    assert grown(intervals=[interval("m-1", 0, 10, None), interval("m-1", 1, 55, None)]) == []
    assert grown(intervals=[interval("m-1", 0, 10, None)]) == []
    unknown = {**interval("m-1", 1, TAKEN_S, None), "is_start_known": False}
    assert grown(intervals=[interval("m-1", 0, 10, None), unknown]) == []
    assert grown(at_s=60 + NEW_PARTITION_MS // 1_000 + 1) == []
