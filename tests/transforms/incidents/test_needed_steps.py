"""Goal: the incidents of a group are the same whether the rules have all steps of its commits or only the needed ones,
and a group that commits rarely needs few."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.group_states import PREPARING_REBALANCE
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.transforms.incidents.commit_steps import with_suspicion
from groupledger.transforms.incidents.needed_steps import TIME, needed_steps, times_without_members
from groupledger.transforms.incidents.rules import GroupFacts, HeldPartition, RebalanceStretch, incidents
from groupledger.transforms.incidents.rules.facts import CommitStep, TopicEnd, commit_steps
from lab.truth.made import RULES, T, commit, facts, generation, interval, tenure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEEDS = 60
SPAN_S = 40_000
KINDS = ("group_without_members", "rebalance_stuck", "reconciliation_stuck", "commit_gap", "offset_rewind")
STEPS = (
    "group_id string, kafka_offset long, at_ms long, offset long, next_kafka_offset long, next_at_ms long,"
    " next_offset long, interval_ms double, waiting_from_ms long, new_from_ms long, unread_end long, is_step boolean"
)


@dataclass(frozen=True)
class Times:
    """The seconds, from `T` on, at which something begins and ends."""

    begin: int
    end: int


def times(random: Random, every_s: int, lengths_s: tuple[int, int]) -> list[Times]:
    begins = accumulate(random.randint(every_s // 2, every_s * 3 // 2) for _ in range(SPAN_S // every_s // 2))
    return [Times(begin, begin + random.randint(*lengths_s)) for begin in begins]


def group_of(seed: int) -> GroupFacts:
    """Returns a group of one member that commits every few minutes, for hours: it is away now and then, rebalances for
    long, holds a partition back, goes back and falls silent. The end of one of its partitions stands still sometimes,
    that of the other always."""
    random = Random(seed)
    away = times(random, 9_000, (60, 2_000))
    silent = times(random, 20_000, (2_000, 9_000))
    begins = [10, *(each.end for each in away)]
    ends = [*(each.begin for each in away), None]
    generations = [generation(2 * number + 1, *span) for number, span in enumerate(zip(begins, ends, strict=True))]
    generations += [
        generation(2 * number + 2, each.begin, each.end, member_count=0) for number, each in enumerate(away)
    ]
    causes: tuple[dict[str, Any], ...] = ({}, {"leave_cause": "session_expired", "leave_cause_confidence": 0.85})
    cause = random.choice(causes)
    tenures = enumerate(zip(begins, ends, strict=True))
    members = [tenure(f"m-{number}", *span, **({} if span[1] is None else cause)) for number, span in tenures]
    commits, position, second = [], 1_000, 20
    pause_s = random.choice((60, 150, 400))
    while second < SPAN_S:
        is_back = random.random() < 0.03
        position = position - 50 if is_back else second + 900
        commits.append(commit(position, T + second * 1_000, second))
        commits.append(commit(1_000, T + second * 1_000, second + 1, partition=1))
        second += random.randint(pause_s // 2, pause_s * 3 // 2)
        second = next((each.end + 1 for each in silent if each.begin <= second < each.end), second)
    idle = times(random, 8_000, (500, 5_000))
    samples = [
        TopicEnd(T + at * 1_000, next((each.begin for each in idle if each.begin <= at < each.end), at) + 1_000)
        for at in range(0, SPAN_S, 60)
    ]
    place, idle_place = TopicPartition("orders", 0), TopicPartition("orders", 1)
    idle_samples = [TopicEnd(each.sampled_at_ms, 1_000) for each in samples]
    return GroupFacts(
        f"g-{seed}",
        T + SPAN_S * 1_000,
        generations=sorted(generations, key=lambda row: row["kafka_offset"]),
        members=members,
        assignments=[
            interval(f"m-{number}", partition, *span)
            for number, span in enumerate(zip(begins, ends, strict=True))
            for partition in (0, 1)
        ],
        steps=commit_steps(commits, RULES.commit_gap_ms, {place: samples, idle_place: idle_samples}),
        stretches=[
            RebalanceStretch(T + each.begin * 1_000, T + each.end * 1_000, PREPARING_REBALANCE)
            for each in times(random, 15_000, (600, 3_000))
        ],
        held=[
            HeldPartition(
                incarnation=1,
                member_id="m-9",
                from_offset=each.begin,
                held_by="m-0",
                from_ms=T + each.begin * 1_000,
                until_ms=T + each.end * 1_000,
                **place._asdict(),
            )
            for each in times(random, 15_000, (180, 3_000))
        ],
    )


def step_row(group_id: str, step: CommitStep) -> tuple[Any, ...]:
    following = step.next_commit
    after = (None, None, None) if following is None else (following.kafka_offset, following.at_ms, following.offset)
    own = (step.commit.kafka_offset, step.commit.at_ms, step.commit.offset)
    samples = (step.waiting_from_ms, step.new_from_ms, step.unread_end)
    return (group_id, *own, *after, step.interval_ms, *samples, True)


def unread_of(spark: SparkSession, groups: dict[str, GroupFacts]) -> DataFrame:
    """Returns the times in which nobody could read."""
    began_at = datetime(1970, 1, 1, tzinfo=timezone.utc)
    instants = ("started_at", "ended_at", "current_state_at")
    rows = [
        {**dict.fromkeys(GENERATIONS.schema.names), **row, "group_id": name}
        | {each: None if row[each] is None else began_at + timedelta(microseconds=row[each]) for each in instants}
        for name, group in groups.items()
        for row in group.generations
    ]
    empty = times_without_members(spark.createDataFrame(rows, GENERATIONS.schema))
    others = [(name, each.first_ms, each.last_ms) for name, group in groups.items() for each in group.stretches]
    others += [(name, each.from_ms, each.until_ms) for name, group in groups.items() for each in group.held]
    return empty.union(spark.createDataFrame(others, "group_id string, from_ms long, until_ms long").select(*TIME))


def needed_of(spark: SparkSession, groups: dict[str, GroupFacts]) -> list[tuple[str, int]]:
    """Returns the needed steps, by group and offset."""
    rows = [step_row(name, step) for name, group in groups.items() for step in group.steps]
    as_of_ms = max(group.as_of_ms for group in groups.values())
    steps = with_suspicion(spark.createDataFrame(rows, STEPS), RULES, as_of_ms)
    needed = needed_steps(steps, unread_of(spark, groups), RULES, as_of_ms)
    return [(row["group_id"], row["kafka_offset"]) for row in needed.collect()]


def test_other_steps_change_no_incident(spark: SparkSession) -> None:
    groups = {f"g-{seed}": group_of(seed) for seed in range(SEEDS)}
    needed = needed_of(spark, groups)
    keys = {*needed}
    assert len(keys) == len(needed)
    assert len(keys) < sum(len(group.steps) for group in groups.values())
    kinds = set()
    for name, group in groups.items():
        of_all = incidents(group, RULES)
        given = [step for step in group.steps if (name, step.commit.kafka_offset) in keys]
        assert incidents(replace(group, steps=given), RULES) == of_all, name
        kinds |= {row["kind"] for row in of_all}
    assert {*KINDS} <= kinds


def test_they_do_not_grow_with_the_past(spark: SparkSession) -> None:
    """Goal: of a group that commits every quarter of an hour, all commits are steps; after a past that is ten times as
    long, the rules get as many: the first and the last one, the rewind, and three around a time without members."""

    def rare(quarters: int) -> GroupFacts:
        seconds = range(0, quarters * 900, 900)
        commits = [commit(second - 1_000 * (second == 1_800), T + second * 1_000, second) for second in seconds]
        ends = [TopicEnd(T + second * 1_000, second + 5_000) for second in range(0, quarters * 900, 300)]
        empty_s = (4_000, 6_000)
        spans = [(0, empty_s[0]), empty_s, (empty_s[1], None)]
        return facts(
            as_of_ms=T + seconds[-1] * 1_000,
            generations=[generation(n, *span, member_count=int(n != 1)) for n, span in enumerate(spans)],
            steps=commit_steps(commits, RULES.commit_gap_ms, {TopicPartition("orders", 0): ends}),
        )

    groups = {"short": rare(20), "long": rare(200)}
    assert [len(each.steps) for each in groups.values()] == [20, 200]
    needed = Counter(name for name, _ in needed_of(spark, groups))
    assert needed == {"short": 6, "long": 6}
