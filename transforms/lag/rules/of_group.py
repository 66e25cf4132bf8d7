"""Computes the lag of one group from its events: its earlier state, and the facts of each round.

    TOPIC                       a topic id that a topic partition has or had: its last sample, its highest end
    SAMPLE                      the ends of a topic partition in a round, or in one before
    COMMIT                      a commit; one that an earlier round counted has the end before it
    POINT                       a row of `lag` of an earlier round
    OWNER, GENERATION, MEMBER   intervals of the history, which hold between two offsets of the log
    STATE                       the group's state as the coordinator reported it in a round

`transforms.lag.lag` collects these events for all groups with Spark, `jobs.ask.lag_events` for one group without Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.coverage.rules.losses import NO_LOSSES, LogLosses
from groupledger.transforms.lag.rules.facts import Commit, Owner, Watermark
from groupledger.transforms.lag.rules.ownership import GroupHistory, OffsetRange
from groupledger.transforms.lag.rules.points import Point
from groupledger.transforms.lag.rules.state import LagState, Round
from groupledger.transforms.lag.rules.topic_window import FormerTopic, TopicWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from groupledger.transforms.lag.rules.row import LagRow
    from groupledger.transforms.lag.rules.state import End
    from groupledger.transforms.lag.rules.thresholds import LagRules

    Row = Mapping[str, Any]

# The kinds of event, in the order in which a group's state is made up.
TOPIC, SAMPLE, COMMIT, POINT, OWNER, GENERATION, MEMBER, STATE = range(8)


@dataclass(frozen=True, slots=True)
class RoundsToCompute:
    """Holds the rounds to compute, and what the log lacks. `ends` has the instant of each round, in order, with the
    ends of `__consumer_offsets` that it read. `ends_before` has, by partition, the last round before these, with the
    end that it read. `losses` are the losses of the log."""

    ends: Sequence[tuple[int, Mapping[int, End]]]
    ends_before: Mapping[int, tuple[int, End]]
    losses: LogLosses = NO_LOSSES

    @property
    def ends_after(self) -> dict[int, tuple[int, End]]:
        """Returns, by partition, the last round that read its end, and that end, once these rounds are computed."""
        found = dict(self.ends_before)
        for sampled_at_ms, ends in self.ends:
            found.update({partition: (sampled_at_ms, end) for partition, end in ends.items()})
        return found

    @property
    def commits_to(self) -> dict[int, int]:
        """Returns, by partition, the offset below which commits are needed. If the cleaner removed records around a
        round's end, commits after the end are needed, too: they show that an earlier commit may be missing."""
        found = {partition: end.offset for partition, (_, end) in self.ends_after.items()}
        for _, ends in self.ends:
            for partition, end in ends.items():
                thinned = self.losses.thinned_at(partition, end.offset)
                found[partition] = max(found[partition], thinned.known_from if thinned else 0)
        return found


def group_lag(
    group_id: str, kinds: Mapping[int, Sequence[Row]], rounds: RoundsToCompute, rules: LagRules
) -> Iterator[LagRow]:
    """Yields the rows of the rounds, in order; `kinds` are the events of the group by their kind."""
    state = LagState(rules)
    first_ms = rounds.ends[0][0]
    samples = kinds.get(SAMPLE, [])
    before = sorted((row for row in samples if row["at_ms"] < first_ms), key=itemgetter("at_ms"))
    restore_topics(state, kinds.get(TOPIC, []), before)
    restore_group(state, group_id, kinds.get(COMMIT, []), kinds.get(POINT, []), rounds)
    state.losses = rounds.losses
    history = group_history(kinds)
    states = {row["at_ms"]: row for row in kinds.get(STATE, [])}
    watermarks: dict[int, dict[TopicPartition, Watermark]] = {}
    for row in samples:
        watermarks.setdefault(row["at_ms"], {})[TopicPartition(row["topic"], row["partition"])] = watermark(row)
    kafka_partition = _kafka_partition(kinds)
    position = rounds.ends_before[kafka_partition][1].offset if kafka_partition in rounds.ends_before else 0
    for sampled_at_ms, ends in rounds.ends:
        if kafka_partition in ends:
            position = ends[kafka_partition].offset
        sampled = states.get(sampled_at_ms)
        subscription = frozenset(sampled["topics"]) if sampled and sampled["topics"] else None
        facts = history.facts_at(position, sampled["state"] if sampled else None, subscription)
        of_group = {kafka_partition: ends[kafka_partition]} if kafka_partition in ends else {}
        read = Round(sampled_at_ms, of_group, watermarks.get(sampled_at_ms, {}))
        yield from state.round(read, {group_id: facts})


def by_kind(events: Iterable[Row]) -> dict[int, list[Row]]:
    """Returns the events by their kind. The events must come in the order of their kinds."""
    return {kind: list(of_kind) for kind, of_kind in groupby(events, itemgetter("kind"))}


def _kafka_partition(kinds: Mapping[int, Sequence[Row]]) -> int:
    """Returns the partition of `__consumer_offsets` that holds the group, -1 if no event has it."""
    rows = (*kinds.get(COMMIT, ()), *kinds.get(GENERATION, ()))
    return next((row["kafka_partition"] for row in rows), -1)


def restore_topics(state: LagState, topics: Iterable[Row], samples: Iterable[Row]) -> None:
    """Restores the windows of the topics from earlier samples, which come in the order of time. `topics` has a row for
    each id under which a topic partition was ever seen: the time of its last sample, and its highest high watermark.
    The newest id is that of the present topic, the id before it that of the former topic. Samples with another id than
    the present one are left out; samples without an id stay."""
    ids: dict[TopicPartition, list[Row]] = {}
    for row in topics:
        ids.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row)
    current = {}
    for place, rows in ids.items():
        # Brokers before Kafka 2.8 send no ids.
        known = [row for row in rows if row["topic_id"] is not None] or rows
        *formers, now = sorted(known, key=itemgetter("at_ms"))
        current[place] = now["topic_id"]
        former = None
        if formers:
            last = formers[-1]
            former = FormerTopic(last["topic_id"], last["at_ms"], last["high_watermark"])
        state.topics[place] = TopicWindow(former, now["high_watermark"], has_transactions=bool(now["has_transactions"]))
    for row in samples:
        place = TopicPartition(row["topic"], row["partition"])
        if row["topic_id"] in (None, current.get(place)):
            state.sample(place, watermark(row))


def restore_group(
    state: LagState,
    group_id: str,
    commits: Iterable[Row],
    points: Iterable[Row],
    rounds: RoundsToCompute,
) -> None:
    """Restores the part of the state that is about a group, from `commits` and from `points`, the rows of `lag` of
    earlier rounds. Commits that no earlier round counted are left to the rounds to come."""
    for partition, (sampled_at_ms, end) in rounds.ends_before.items():
        state.restore_ends(sampled_at_ms, {partition: end})
    for row in sorted(commits, key=itemgetter("kafka_offset")):
        place, commit = TopicPartition(row["topic"], row["partition"]), commit_of(row)
        before = rounds.ends_before.get(commit.kafka_partition)
        if before is None or commit.kafka_offset >= before[1].offset:
            state.commit(group_id, *place, commit)
        else:
            state.restore_commit(group_id, place, commit)
    found: dict[TopicPartition, list[Row]] = {}
    windows = state.groups.get(group_id, {})
    for row in sorted(points, key=itemgetter("at_ms")):
        place = TopicPartition(row["topic"], row["partition"])
        if place in windows and row["kafka_offset"] > windows[place].removed_at:
            found.setdefault(place, []).append(row)
    for place, rows in found.items():
        seen = (Point(row["at_ms"], row["committed_offset"], row["lag"]) for row in rows if row["lag"] is not None)
        windows[place].restore(seen, rows[-1]["committed_offset"], rows[-1]["since_ms"])
    state.drop_removed(group_id)


def group_history(kinds: Mapping[int, Iterable[Row]]) -> GroupHistory:
    def interval(row: Row) -> OffsetRange:
        return OffsetRange(row["kafka_offset"], row["to_offset"])

    @cache  # a member has many partitions
    def owner(member_id: str, client_id: str | None, client_host: str | None) -> Owner:
        return Owner(True, member_id, client_id, client_host)

    return GroupHistory(
        generations=[(interval(row), row["is_ownership_known"]) for row in kinds.get(GENERATION, ())],
        owners=[
            (
                interval(row),
                TopicPartition(row["topic"], row["partition"]),
                owner(row["member_id"], row["client_id"], row["client_host"]),
            )
            for row in kinds.get(OWNER, ())
        ],
        members=[
            (interval(row), None if row["topics"] is None else frozenset(row["topics"]))
            for row in kinds.get(MEMBER, ())
        ],
        kafka_partition=next((row["kafka_partition"] for row in kinds.get(GENERATION, ())), -1),
    )


def watermark(row: Row) -> Watermark:
    return Watermark(
        row["at_ms"],
        row["log_start_offset"],
        row["high_watermark"],
        row["last_stable_offset"],
        row["leader_epoch"],
        row["topic_id"],
        row["markers_at_end"],
    )


def commit_of(row: Row) -> Commit:
    return Commit(
        row["committed_offset"],
        row["at_ms"],
        row["kafka_partition"],
        row["kafka_offset"],
        row["topic_id"],
        row["leader_epoch"],
        row["high_watermark"],
    )
