"""Goal: rounds count what lies below their ends and nothing else; and the same rows come however the log was read."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import LagFlag
from groupledger.transforms.coverage.rules.losses import LogLosses, Thinned
from groupledger.transforms.lag.rules import (
    Commit,
    End,
    GroupFacts,
    GroupHistory,
    LagRow,
    LagState,
    OffsetRange,
    Owner,
    Round,
    Watermark,
    burrow,
    is_read_to,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

START_MS = 1_760_000_000_000
PLACE = TopicPartition("t", 0)


def read(number: int, end: int | None, high_watermark: int = 100, *, is_behind: bool = False) -> Round:
    at_ms = START_MS + number * 15_000
    ends = {} if end is None else {0: End(end, is_behind)}
    return Round(at_ms, ends, {PLACE: Watermark(at_ms, 0, high_watermark, high_watermark)})


def commit(kafka_offset: int, offset: int | None) -> Commit:
    return Commit(offset, START_MS, 0, kafka_offset)


def rows(state: LagState, round_: Round, facts: GroupFacts | None = None) -> list[tuple[int | None, int | None]]:
    return [(row.committed_offset, row.raw_lag) for row in state.round(round_, {"g": facts} if facts else {})]


def test_a_commit_counts_below_the_end() -> None:
    """Goal: a commit that is newer than the sample waits for its round, even if it is read already."""
    state = LagState()
    for kafka_offset, offset in ((0, 10), (1, 20), (2, 105)):
        state.commit("g", *PLACE, commit(kafka_offset, offset))
    assert rows(state, read(0, 0)) == []
    assert rows(state, read(1, 2)) == [(20, 80)]
    assert rows(state, read(2, 2)) == [(20, 80)]
    assert rows(state, read(3, 3, 110)) == [(105, 5)]


def test_commits_that_may_have_been_removed_without_a_trace() -> None:
    """Goal: if the log may hide the removal of commits, an earlier commit counts no more, unless the group commits
    again; it stays for a round that does not read so far, and in another partition of the log."""
    state = LagState()
    state.commit("g", *PLACE, commit(0, 10))
    state.commit("g", "t", 1, commit(1, 10))
    state.losses = LogLosses({0: [2], 1: [1]})
    assert rows(state, read(0, 2)) == [(10, 90), (10, None)]
    state.commit("g", *PLACE, commit(2, 20))
    assert rows(state, read(1, 3)) == [(20, 80)]
    assert rows(state, read(2, 3)) == [(20, 80)]
    state.losses = LogLosses({0: [2, 3]})
    assert rows(state, read(3, 3)) == [(20, 80)]
    assert rows(state, read(4, 4)) == []


def test_an_owned_partition_whose_commit_lies_before_a_hole() -> None:
    """Goal: the committed offset there is unknown, until a commit or a removal shows it; a partition that the group
    never committed is known as before."""
    state = LagState()
    owners = {TopicPartition("t", partition): Owner(owned=True, member_id="m") for partition in (0, 1)}
    facts = GroupFacts("Stable", owners, True, frozenset({"t"}))

    def reported(round_: Round) -> list[tuple[str, tuple[str, ...]]]:
        return [(row.status, row.flags) for row in state.round(round_, {"g": facts})]

    never = ("no_commit", ("no_commit",))
    state.commit("g", *PLACE, commit(0, 100))
    assert reported(read(0, 1)) == [("ok", ()), never]
    state.losses = LogLosses({0: [1]})
    assert reported(read(1, 2)) == [("unknown", ("commit_unknown",)), never]
    assert reported(read(2, 2)) == [("unknown", ("commit_unknown",)), never]
    state.commit("g", *PLACE, commit(2, 100))
    assert reported(read(3, 3)) == [("ok", ()), never]
    state.commit("g", *PLACE, commit(3, None))
    assert reported(read(4, 4)) == [never, never]


def test_a_log_that_was_cleaned_between_the_round_and_the_read() -> None:
    """Goal: a round saw the end 4, and the records up to 6 were removed before anybody read them. Who has committed
    after the round may have had another commit at it, so that it is not known what was committed, and neither none nor
    an earlier commit is claimed. Who has not committed since stood as the log shows, and so does everybody whose record
    lies in the part that has all its records, or in a round after the place where the log has settled."""
    owners = {TopicPartition("t", partition): Owner(owned=True, member_id="m") for partition in range(4)}
    facts = GroupFacts("Stable", owners, True, frozenset({"t"}))
    state = LagState()
    state.losses = LogLosses(thinned={0: [Thinned(begin=0, present_from=2, known_from=9)]})
    state.commit("g", "t", 0, commit(7, 100))  # partition 0 committed again after the round, and had none before
    state.commit("g", "t", 1, commit(1, 20))
    state.commit("g", "t", 1, commit(8, 100))  # partition 1 did, too, and its commit before may not be the last one
    state.commit("g", "t", 2, commit(3, 30))
    state.commit("g", "t", 2, commit(9, 100))  # partition 2 has all its records, partition 3 never committed

    def reported(round_: Round) -> list[tuple[int | None, str, tuple[str, ...]]]:
        found = state.round(round_, {"g": facts})
        return [(row.committed_offset, row.status, row.flags) for row in found if row.topic == "t"]

    unknown, never = (None, "unknown", ("commit_unknown",)), (None, "no_commit", ("no_commit",))
    assert reported(read(0, 4)) == [unknown, unknown, (30, "unknown", ("no_watermark",)), never]
    assert [offset for offset, _, _ in reported(read(1, 10))] == [100, 100, 100, None]


def test_group_deleted() -> None:
    """Goal: a group whose commits are removed has no rows, and nothing of its past counts when it comes back."""
    state = LagState()
    state.commit("g", *PLACE, commit(0, 10))
    assert rows(state, read(0, 1)) == [(10, 90)]
    state.commit("g", *PLACE, commit(1, None))
    assert rows(state, read(1, 2)) == []
    assert state.groups == {}
    state.commit("g", *PLACE, commit(2, 5))
    (row,) = state.round(read(2, 3), {})
    assert (row.committed_offset, row.lag_per_second, row.no_progress_since_ms) == (5, None, row.sampled_at_ms)


def test_owned_without_commit() -> None:
    """Goal: a partition that was added and is assigned has a row without numbers, as Kafka's tool shows it."""
    state = LagState()
    facts = GroupFacts("Stable", {TopicPartition("t", 1): Owner(owned=True, member_id="m")}, True, frozenset({"t"}))
    (row,) = state.round(read(0, 0), {"g": facts})
    assert (row.partition, row.committed_offset, row.lag, row.flags) == (1, None, None, ("no_commit",))


def test_ends_of_the_round_before() -> None:
    """Goal: without an answer about the group's own partition, its commits are known until the round before: there is
    no lag, since the topic may have grown and the group may have committed since, and the rows say until when the
    commits are known."""
    state = LagState()
    state.commit("g", *PLACE, commit(0, 10))
    assert rows(state, read(0, 1)) == [(10, 90)]
    state.commit("g", *PLACE, commit(1, 50))
    (row,) = state.round(read(1, None, 500), {})
    assert (row.committed_offset, row.flags, row.status) == (10, ("commits_late",), "unknown")
    assert (row.lag, row.raw_lag, row.messages_lost, row.commits_until_ms) == (None, None, None, START_MS)
    (row,) = state.round(read(2, 1, is_behind=True), {})
    assert (row.committed_offset, row.flags) == (10, ("hidden_commits",))


def test_lag_of_a_commit_is_of_the_sample_before_it() -> None:
    """Goal: Burrow's window sees the end that was known when the commit came."""
    state = LagState()
    state.commit("g", *PLACE, commit(0, 10))
    rows(state, read(0, 1, 30))
    state.commit("g", *PLACE, commit(1, 20))
    rows(state, read(1, 2, 99))
    assert [*state.groups["g"][PLACE].ring.numbers[2::3]] == [burrow.UNKNOWN_LAG, 10]


def test_is_read_to() -> None:
    """Goal: a round waits for every partition that it read an end of."""
    ends = {0: End(5), 1: End(0)}
    assert is_read_to(ends, {0: 5})
    assert not is_read_to(ends, {0: 4, 1: 9})


@pytest.mark.parametrize("seed", range(5))
def test_same_rows_however_the_log_is_read(seed: int) -> None:
    """Goal: commits that come one by one, all at once, late or twice give the rows of those that come in time."""
    chance = random.Random(seed)
    commits = [(chance.choice("gh"), commit(number, chance.choice([None, *range(0, 100, 7)]))) for number in range(60)]
    ends = sorted(chance.randint(0, 60) for _ in range(12))
    rounds = [read(number, end, 100 + 3 * number) for number, end in enumerate(ends)]
    in_time, at_once, twice = LagState(), LagState(), LagState()
    passed = 0
    for group_id, each in commits:
        at_once.commit(group_id, *PLACE, each)
    for each_round, end in zip(rounds, ends, strict=True):
        for group_id, each in commits[passed:end]:
            in_time.commit(group_id, *PLACE, each)
        for group_id, each in commits[max(passed - 3, 0) : end]:
            twice.commit(group_id, *PLACE, each)
        passed = end
        expected = ordered(in_time.round(each_round, {}))
        assert ordered(at_once.round(each_round, {})) == expected
        assert ordered(twice.round(each_round, {})) == expected


def ordered(found: Iterable[LagRow]) -> list[LagRow]:
    return sorted(found, key=lambda row: (row.group_id, row.topic, row.partition))


def test_owners_at_a_position() -> None:
    """Goal: an interval holds from after its record up to the record that ends it; subscriptions follow the members
    and, if the ledger has no members, the sample."""
    history = GroupHistory(
        generations=[(OffsetRange(5, 20), True), (OffsetRange(20, None), False)],
        owners=[(OffsetRange(5, 20), PLACE, Owner(owned=True, member_id="a"))],
        members=[
            (OffsetRange(5, 20), frozenset({"t"})),
            (OffsetRange(10, 20), frozenset({"u"})),
            (OffsetRange(20, None), None),
        ],
    )
    owners = [history.facts_at(position, None).owner(PLACE) for position in (5, 6, 20, 21)]
    assert [(owner.owned, owner.member_id) for owner in owners] == [
        (None, None),
        (True, "a"),
        (True, "a"),
        (None, None),
    ]
    assert history.facts_at(6, None).owner(TopicPartition("u", 0)) == Owner(owned=False, is_subscribed=False)
    assert history.facts_at(11, None).owner(TopicPartition("u", 0)) == Owner(owned=False)
    assert history.facts_at(21, None).subscribed_topics is None
    sampled = GroupHistory().facts_at(1, "Stable", frozenset({"t"}))
    assert (sampled.owner(PLACE).owned, sampled.owner(TopicPartition("gone", 0)).owned) == (None, False)


def test_a_commit_that_cant_be_taken_in() -> None:
    """Goal: a commit that no rule can hold costs its group the round, and no other group; the committed offset there is
    unknown until the group commits again."""
    reported: dict[str, Exception] = {}
    state = LagState(report=reported.__setitem__)
    for number, group in enumerate("abc"):
        state.commit(group, *PLACE, commit(number, 10))
        state.commit(group, "t", 1, commit(number, 10))
    assert len([*state.round(read(0, 4), {})]) == 6
    state.commit("a", *PLACE, commit(4, 20))
    state.commit("b", *PLACE, replace(commit(5, 20), commit_timestamp_ms=None))  # type: ignore[arg-type]
    state.commit("c", *PLACE, commit(6, 20))
    facts = {"b": GroupFacts(owners={PLACE: Owner(True, "m", "c", "h")})}
    assert sorted((row.group_id, row.committed_offset) for row in state.round(read(1, 7), facts)) == [
        *(("a", 10), ("a", 20)),
        *(("c", 10), ("c", 20)),
    ]
    assert [*reported] == ["b"]
    assert isinstance(reported["b"], TypeError)
    of_b = {row.partition: row for row in state.round(read(2, 7), facts) if row.group_id == "b"}
    assert (of_b[0].committed_offset, of_b[0].flags) == (None, (LagFlag.COMMIT_UNKNOWN,))
    assert of_b[1].committed_offset == 10
    state.commit("b", *PLACE, commit(8, 30))
    assert {row.committed_offset for row in state.round(read(3, 9), facts) if row.group_id == "b"} == {10, 30}
    assert [*reported] == ["b"]


def test_a_group_that_cant_be_judged() -> None:
    """Goal: a group whose facts no rule can hold has no row in the round, not even of a partition that could be judged;
    all others have theirs, and the group has its own again as soon as it can be judged."""
    reported: dict[str, Exception] = {}
    state = LagState(report=reported.__setitem__)
    for number, group in enumerate("abc"):
        state.commit(group, *PLACE, commit(number, 10))
    state.commit("b", "t", 1, commit(3, 10))
    broken = GroupFacts(owners={TopicPartition("t", 1): Owner(True, "m", "c", "h")}, subscribed_topics=5)  # type: ignore[arg-type]
    assert sorted(row.group_id for row in state.round(read(0, 4), {"b": broken})) == ["a", "c"]
    assert [*reported] == ["b"]
    assert isinstance(reported["b"], TypeError)
    assert sorted(row.group_id for row in state.round(read(1, 4), {})) == ["a", "b", "b", "c"]
    assert [*reported] == ["b"]
