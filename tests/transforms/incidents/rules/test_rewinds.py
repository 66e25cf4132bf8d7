"""Goal: records read again are counted as often as they were read, by any owner of their partition; two committers that
take turns, and a topic that was made anew, are distinguished from that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.incidents.rules import GroupFacts, incidents
from groupledger.transforms.incidents.rules.facts import TopicEnd, commit_steps
from groupledger.transforms.offsets.rules.read_again import Move, read_again, total
from lab.truth.made import RULES, T, commit, facts, generation, interval

PLACE = TopicPartition("orders", 0)


def kinds(given: GroupFacts) -> dict[str, dict[str, Any]]:
    return {row["kind"]: row for row in incidents(given, RULES)}


def steps(*commits: Any, ends: Any = ()) -> Any:
    samples = [TopicEnd(T + seconds * 1_000, end) for seconds, end in ends]
    return commit_steps(commits, RULES.commit_gap_ms, {PLACE: samples})


def line(*offsets: int, every_ms: int = 5_000) -> Any:
    return steps(*(commit(offset, T + number * every_ms, 20 + number) for number, offset in enumerate(offsets)))


def moves(*pairs: tuple[int, int]) -> list[Move]:
    return [Move(PLACE, number, number * 5_000, before, after) for number, (before, after) in enumerate(pairs)]


def test_rewinds() -> None:
    """Goal: partitions that go back together are one rewind, with the records read again; without members it is a
    reset, with them a seek."""
    commits = [commit(500, T, 20), commit(700, T, 21, 1), commit(100, T + 60_000, 60), commit(200, T + 60_000, 61, 1)]
    (row,) = incidents(facts(steps=steps(*commits), assignments=[]), RULES)
    assert (row["kind"], row["probable_root"]) == ("offset_rewind", "client_seek_or_reset")
    assert (row["duplicates_min"], row["duplicates_max"]) == (900, 900)
    assert [(each["partition"], each["refused_offset"]) for each in row["partitions"]] == [(0, 500), (1, 700)]
    empty = [generation(3, 10, 50), generation(4, 50, None, member_count=0)]
    (row,) = incidents(facts(steps=steps(*commits), assignments=[], generations=empty), RULES)
    assert row["probable_root"] == "admin_reset"


def test_a_new_owner_that_begins_too_early() -> None:
    """Goal: no sentence says that a consumer called seek if the partition changed owners between the two commits."""
    owners = [interval("m-1", 0, 10, 40), interval("m-2", 0, 40, None)]
    for lower, root in ((60, "handover"), (30, "client_seek_or_reset")):
        back = steps(commit(500, T, 20), commit(490, T + 5_000, lower))
        (row,) = incidents(facts(steps=back, assignments=owners), RULES)
        assert row["probable_root"] == root
        assert "seek" in row["explanation"]


def test_records_are_counted_each_time_that_they_were_read() -> None:
    """Goal: records that are read again before the next move count, and no record counts twice that was read once."""
    assert total(read_again(moves((100, 50)))) == (50, 50)
    assert total(read_again(moves((100, 50), (60, 50)))) == (60, 60)  # ten of them, and then all fifty
    assert total(read_again(moves((100, 50), (110, 50), (110, 50)))) == (170, 170)  # a loop over the same records
    assert total(read_again([])) is None


def test_two_committers_that_take_turns() -> None:
    """Goal: a member that goes on after it lost its partition reads nothing twice for certain, however often the two
    take turns, and is a finding of its own; the group did not go back."""
    ahead, behind = range(60_000, 63_000, 100), range(100, 400, 10)
    rows = kinds(facts(steps=line(*(offset for pair in zip(ahead, behind, strict=True) for offset in pair))))
    assert set(rows) == {"two_committers"}
    row = rows["two_committers"]
    assert "went back 30 times within 290 s" in row["explanation"]
    assert row["duplicates_min"] == 0
    assert row["duplicates_max"] == 62_900 - 100
    loop = kinds(facts(steps=line(*[1_000, 900] * 5)))
    assert set(loop) == {"offset_rewind"}
    assert (loop["offset_rewind"]["duplicates_min"], loop["offset_rewind"]["duplicates_max"]) == (500, 500)


def test_a_topic_that_was_made_anew_is_no_rewind() -> None:
    """Goal: a commit of another topic of the same name goes nowhere back, be it known by its id or by the log's end."""
    back = (commit(700, T, 20), commit(10, T + 60_000, 30))
    assert set(kinds(facts(steps=steps(*back)))) == {"offset_rewind"}
    assert set(kinds(facts(steps=steps(*back, ends=[(30, 900)])))) == {"offset_rewind"}
    assert kinds(facts(steps=steps(*back, ends=[(30, 12)]))) == {}
    assert kinds(facts(steps=[replace(step, is_recreated_topic=True) for step in steps(*back)])) == {}


def test_a_reset_reads_nothing_by_itself() -> None:
    """Goal: records before which a reset puts a group count as read again when a member has come to read them."""
    back = steps(commit(100, T + 60_000, 60), commit(40, T + 70_000, 70))
    empty = [generation(3, 10, 50), generation(4, 50, None, member_count=0)]
    row = kinds(facts(steps=back, generations=empty))["offset_rewind"]
    assert (row["duplicates_min"], row["duplicates_max"]) == (0, 60)
    later = [generation(3, 10, 50), generation(4, 50, 80, member_count=0), generation(5, 80, None)]
    row = kinds(facts(steps=back, generations=later))["offset_rewind"]
    assert (row["duplicates_min"], row["duplicates_max"]) == (60, 60)


def test_a_rewind_of_a_group_that_nobody_knows() -> None:
    """Goal: a group is said to have had no members only where a record shows it: its generation was empty, or a
    tombstone had ended it. A number of members that is not known is no empty group."""
    back = steps(commit(100, T + 1_000, 20), commit(40, T + 2_000, 30))

    def root(*generations: dict[str, Any]) -> Any:
        return kinds(facts(steps=back, generations=list(generations)))["offset_rewind"]["probable_root"]

    assert root() == "client_seek_or_reset"
    assert root(generation(3, 10, None)) == "client_seek_or_reset"
    assert root(generation(3, 10, 25, ended_by="hole")) == "client_seek_or_reset"
    assert root(generation(3, 10, None, member_count=None)) == "client_seek_or_reset"
    assert root(generation(3, 10, None, member_count=0)) == "admin_reset"
    assert root(generation(3, 10, 25, ended_by="tombstone")) == "admin_reset"
