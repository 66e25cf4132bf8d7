"""Goal: a round that judges only what has changed gives the rows and the state of one that judges everything, whatever
happens between rounds; and so does a state that was restored from the tables."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from operator import attrgetter, itemgetter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.coverage.rules.losses import LogLosses, Thinned
from groupledger.transforms.lag.rules import (
    BurrowRules,
    Commit,
    End,
    GroupFacts,
    LagRow,
    LagState,
    Owner,
    PartitionWindow,
    Rollups,
    Round,
    Watermark,
    lag_row,
    rollup,
    state,
    topic_window,
)
from groupledger.transforms.lag.rules.of_group import RoundsToCompute, restore_group, restore_topics
from groupledger.transforms.lag.rules.points import POINTS_PER_WINDOW
from groupledger.transforms.lag.rules.sample_times import WINDOW_MS, bucket_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

START_MS = 1_760_000_000_000
PLACES = [TopicPartition(topic, partition) for topic in ("t", "u") for partition in range(2)]
GROUPS = ("a", "b", "c")  # each in a partition of the log of its own
QUIET = 0.85  # how likely it is that something stays as it was
OWNERS = (
    Owner(owned=True, member_id="m-1", client_id="c", client_host="/h"),
    Owner(owned=True, member_id="m-2"),
)


class Cluster:
    """What the rounds of a random cluster see. In each round most things stay as they were."""

    def __init__(self, random: Random, steps_ms: Sequence[int]) -> None:
        self.random, self.steps_ms = random, steps_ms
        self.quiet = QUIET
        self.at_ms = START_MS
        self.topics = {place: Watermark(0, 0, 10, 10, 0, "id-0") for place in PLACES}
        self.ends = dict.fromkeys(range(len(GROUPS)), End(0))
        self.next_offsets = dict.fromkeys(self.ends, 0)
        self.facts = dict.fromkeys(GROUPS, GroupFacts("Stable"))
        self.losses = LogLosses()
        self.away: set[Any] = set()  # places and partitions of the log whose broker is away, often for many rounds

    def happens(self) -> bool:
        return self.random.random() > self.quiet

    def calm_down(self) -> list[tuple[str, TopicPartition, Commit]]:
        """Returns commits with which most groups have read everything. From now on hardly anything happens."""
        self.quiet = 0.999
        self.away.clear()
        found = []
        for kafka_partition, group in enumerate(GROUPS):
            self.ends[kafka_partition] = End(self.ends[kafka_partition].offset)
            for place, now in self.topics.items():
                self.topics[place] = now._replace(last_stable_offset=now.high_watermark)
                end = self.next_offsets[kafka_partition]
                commit = Commit(now.high_watermark, self.at_ms - 500, kafka_partition, end, now.topic_id)
                if self.random.random() < 0.9:
                    found.append((group, place, commit))
                    self.next_offsets[kafka_partition] += 1
        return found

    def commits(self) -> list[tuple[str, TopicPartition, Commit]]:
        """Returns what is read of the log before the next round; the last of it may lie above the round's ends."""
        found = []
        for kafka_partition, group in enumerate(GROUPS):
            end = self.next_offsets[kafka_partition]
            for place in PLACES if self.at_ms > START_MS else PLACES * 2:
                if self.at_ms > START_MS and not self.happens():
                    continue
                newest = self.topics[place].high_watermark
                offsets = [self.random.choice([newest, newest, newest, newest - 3, newest + 1, 0, None])]
                if self.happens() and self.happens():
                    offsets = [None] + [max(newest - 2, 0)] * 11  # more than are kept
                topic_id = self.random.choice([None, self.topics[place].topic_id])
                for offset in offsets:
                    found.append((group, place, Commit(offset, self.at_ms - 1_000, kafka_partition, end, topic_id, 5)))
                    end += self.random.choice([1, 1, 2])
            self.next_offsets[kafka_partition] = end
            read_to = max(end - self.happens(), self.ends[kafka_partition].offset)
            self.ends[kafka_partition] = End(read_to, is_behind=self.happens())
        return found

    def round(self) -> Round:
        self.at_ms += self.random.choice(self.steps_ms)
        self._move_topics()
        self._move_facts()
        for partition, end in self.ends.items():
            if self.happens() and self.happens():
                hidden = {**self.losses.hidden_ends, partition: [end.offset]}
                thinned = {partition: [Thinned(max(end.offset - 2, 0), end.offset - 1, end.offset + 2)]}
                self.losses = LogLosses(hidden, thinned)
        for each in (*self.topics, *self.ends):
            if self.happens():
                self.away ^= {each} if each in self.away or self.happens() else set()
        answered = {place: each._replace(sampled_at_ms=self.at_ms) for place, each in self.topics.items()}
        return Round(
            self.at_ms,
            {partition: end for partition, end in self.ends.items() if not self._is_away(partition)},
            {place: each for place, each in answered.items() if not self._is_away(place)},
        )

    def _is_away(self, asked: Any) -> bool:
        return asked in self.away or (self.happens() and self.happens())

    def _move_topics(self) -> None:
        for place, now in self.topics.items():
            if self.happens():
                more, opened = self.random.choice([(1, 0), (20, 0), (5, 3), (-4, 0)]), None
                end = max(now.high_watermark + more[0], now.log_start_offset)
                opened = max(end - more[1], now.log_start_offset)
                self.topics[place] = now._replace(high_watermark=end, last_stable_offset=opened)
            elif self.happens():
                self.topics[place] = now._replace(last_stable_offset=now.high_watermark, markers_at_end=1)
            elif self.happens():
                self.topics[place] = now._replace(log_start_offset=now.last_stable_offset)
            elif self.happens():
                self.topics[place] = Watermark(0, 0, 3, 3, 0, f"id-{self.at_ms}")

    def _move_facts(self) -> None:
        for group in GROUPS:
            if self.happens():
                owners = {place: self.random.choice(OWNERS) for place in PLACES if self.happens()}
                topics = self.random.choice([None, frozenset({"t"})])
                state = self.random.choice(["Stable", "Empty", "PreparingRebalance"])
                self.facts[group] = GroupFacts(state, owners, self.happens(), topics)


class Tables:
    """Keeps what the tables would have after each round, to restore a state from it."""

    def __init__(self) -> None:
        self.samples: dict[TopicPartition, list[dict[str, Any]]] = {}
        self.commits: list[tuple[str, TopicPartition, dict[str, Any]]] = []
        self.rows: list[LagRow] = []
        self.ends: dict[int, tuple[int, End]] = {}
        self.last_ms = 0

    def add_commit(self, group: str, place: TopicPartition, commit: Commit) -> None:
        fields = {name: getattr(commit, name) for name in Commit.__slots__}
        row = place._asdict() | fields | {"at_ms": commit.commit_timestamp_ms, "high_watermark": None}
        self.commits.append((group, place, row))

    def add_round(self, read: Round, rows: list[LagRow]) -> None:
        after = self.ends | {partition: (read.sampled_at_ms, end) for partition, end in read.ends.items()}
        for _, place, row in self.commits:
            partition, samples = row["kafka_partition"], self.samples.get(place, [])
            if samples and partition in self.ends and self._is_new(row, self.ends) and not self._is_new(row, after):
                is_of_before = samples[-1]["at_ms"] == self.ends[partition][0]
                row["high_watermark"] = samples[-1]["high_watermark"] if is_of_before else None
        self.ends = after
        for place, each in read.watermarks.items():
            sample = place._asdict() | each._asdict() | {"at_ms": each.sampled_at_ms}
            self.samples.setdefault(place, []).append(sample)
        self.rows += rows
        self.last_ms = read.sampled_at_ms

    @staticmethod
    def _is_new(row: dict[str, Any], ends: dict[int, tuple[int, End]]) -> bool:
        return row["kafka_partition"] not in ends or row["kafka_offset"] >= ends[row["kafka_partition"]][1].offset

    def restored(self) -> LagState:
        found, rounds = LagState(), RoundsToCompute([], self.ends)
        samples = [row for rows in self.samples.values() for row in rows]
        held = (row for rows in self.samples.values() for row in still_held(rows))
        restore_topics(found, self._topics(samples), sorted(held, key=itemgetter("at_ms")))
        for group in GROUPS:
            commits = [row for place in PLACES for row in self._commits(group, place)]
            restore_group(found, group, commits, self._points(group, found.rules.status.window_ms), rounds)
        return found

    def _commits(self, group: str, place: TopicPartition) -> list[dict[str, Any]]:
        """Returns the last commits that a round has counted, with the last removal, and those that none has counted."""
        rows = [row for name, of, row in self.commits if (name, of) == (group, place)]
        counted = [row for row in rows if not self._is_new(row, self.ends)]
        removals = [row for row in counted if row["committed_offset"] is None]
        last = counted[-BurrowRules().intervals :]
        return [*(row for row in removals[-1:] if row not in last), *last, *rows[len(counted) :]]

    def _topics(self, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        ids: dict[Any, dict[str, Any]] = {}
        for row in samples:
            known = ids.setdefault((row["topic"], row["partition"], row["topic_id"]), row | {"has_transactions": False})
            known["at_ms"] = row["at_ms"]
            known["high_watermark"] = max(known["high_watermark"], row["high_watermark"])
            known["has_transactions"] |= row["last_stable_offset"] < row["high_watermark"]
        return [*ids.values()]

    def _points(self, group: str, window_ms: int) -> list[dict[str, Any]]:
        """Returns the newest row with a lag, and the newest without, of each twentieth of the window."""
        newest: dict[Any, LagRow] = {}
        for row in self.rows:
            if (
                row.group_id == group
                and row.committed_offset is not None
                and self.last_ms - row.sampled_at_ms <= window_ms
            ):
                twentieth = row.sampled_at_ms // (window_ms // POINTS_PER_WINDOW)
                newest[row.topic, row.partition, twentieth, row.lag is None] = row
        names = ("topic", "partition", "committed_offset", "lag", "kafka_offset")
        return [
            {name: getattr(each, name) for name in names}
            | {"at_ms": each.sampled_at_ms, "since_ms": each.no_progress_since_ms}
            for each in newest.values()
        ]


def still_held(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the samples of a topic partition that seeds keep: of each bucket the last and, if the end fell in it, the
    lowest; and the recent ones."""
    now_ms = samples[-1]["at_ms"]
    buckets: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in samples:
        width_ms = bucket_ms(now_ms - row["at_ms"])
        if now_ms - row["at_ms"] <= WINDOW_MS:
            buckets.setdefault((width_ms, row["at_ms"] // width_ms), []).append(row)
    kept, end_before = samples[-topic_window.RECENT_ENDS_MAX :], 0
    for of_bucket in buckets.values():
        lowest = min(of_bucket, key=itemgetter("high_watermark"))
        kept += [
            row for row in of_bucket if row is of_bucket[-1] or (row is lowest and row["high_watermark"] < end_before)
        ]
        end_before = of_bucket[-1]["high_watermark"]
    return kept


def known(of: LagState, at_ms: int) -> dict[Any, Any]:
    """Returns all that a state knows of topics and commits, without points that the next round drops."""
    from_ms = at_ms - of.rules.status.window_ms
    found: dict[Any, Any] = {
        place: (each.latest, each.former, each.longest, each.has_transactions, [*each.recent_ends], copy(each).samples)
        for place, each in of.topics.items()
    }
    for group, windows in of.groups.items():
        for place, each in windows.items():
            latest = None if each.latest is None else replace(each.latest, high_watermark_before=None)
            points = [point for point in each.points if point.sampled_at_ms >= from_ms]
            found[group, place] = (latest, [*each.ring.numbers], points, each.no_progress_since_ms)
    return found


def test_only_what_has_changed_is_judged() -> None:
    """Goal: the same rows, sums and state as without short cuts, round by round, whatever the log has lost and however
    the rest of a group ends."""
    at_rest = 0
    for seed in range(40):
        random = Random(seed)
        cluster, quick, plain = Cluster(random, (5_000, 15_000, 15_000, 15_000, 700_000)), LagState(), LagState()
        sums = Rollups()
        for number in range(36):
            commits = cluster.calm_down() if number % 12 == 4 else []
            cluster.quiet = QUIET if number % 12 == 10 else cluster.quiet
            for commit in commits + cluster.commits():
                for each in (quick, plain):
                    each.commit(commit[0], *commit[1], commit[2])
            read, facts = cluster.round(), {**cluster.facts}
            judge_everything(plain)
            quick.losses = plain.losses = cluster.losses
            rows = list(quick.round(read, facts))
            assert in_order(rows) == in_order(plain.round(read, facts))
            assert sums.of(rows, {**quick.at_rest}) == rollup(rows)
            if seed % 2:  # else nobody asks for points while a group is at rest
                assert known(quick, read.sampled_at_ms) == known(plain, read.sampled_at_ms)
            at_rest += len(quick.at_rest)
        assert known(quick, read.sampled_at_ms) == known(plain, read.sampled_at_ms)
    assert at_rest > 200


def judge_everything(of: LagState) -> None:
    for group in [*of.at_rest]:
        of._wake(group)
    of._last.clear()


@pytest.mark.parametrize("seed", range(40))
def test_a_recovered_state_goes_on_like_one_that_was_never_lost(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: after each kill the same rows and the same state, through outages longer than the status window, falling
    ends, removals that many commits follow, and rounds in which a group has a commit and no lag."""
    monkeypatch.setattr(topic_window, "RECENT_ENDS_MAX", BurrowRules().intervals)  # else it hides what is thinned out
    random = Random(seed)
    cluster, tables = Cluster(random, (5_000, 15_000, 40_000, 40_000, 200_000, 700_000)), Tables()
    kept = recovered = LagState()
    for number in range(60):
        commits = cluster.calm_down() if number % 15 == 9 else []
        cluster.quiet = QUIET if number % 15 == 14 else cluster.quiet
        if tables.rows and random.random() < 0.2:
            recovered = tables.restored()
            assert known(recovered, tables.last_ms) == known(kept, tables.last_ms)
        for group, place, commit in commits + cluster.commits():
            tables.add_commit(group, place, commit)
            for each in {id(kept): kept, id(recovered): recovered}.values():
                each.commit(group, *place, commit)
        read, facts = cluster.round(), {**cluster.facts}
        rows = in_order(kept.round(read, facts))
        if recovered is not kept:
            assert in_order(recovered.round(read, facts)) == rows
        tables.add_round(read, rows)


def in_order(rows: Iterable[LagRow]) -> list[LagRow]:
    return sorted(rows, key=attrgetter("group_id", "topic", "partition"))


def test_groups_at_rest_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a round in which one of a hundred groups moves judges the partitions of that group, and no others. It adds
    points to the windows of that group, and of the one that moved in the round before."""
    judged: list[str] = []
    observed: list[PartitionWindow] = []
    observe = PartitionWindow.observe

    def counted(place: Any, *others: Any) -> LagRow:
        judged.append(place.group_id)
        return lag_row(place, *others)

    def counted_window(window: PartitionWindow, *others: Any, **more: Any) -> None:
        observed.append(window)
        observe(window, *others, **more)

    monkeypatch.setattr(state, "lag_row", counted)
    monkeypatch.setattr(PartitionWindow, "observe", counted_window)
    lag, places = LagState(), [TopicPartition("t", partition) for partition in range(5)]
    groups = [f"g-{number}" for number in range(100)]
    for number, (group, place) in enumerate((group, place) for group in groups for place in places):
        lag.commit(group, *place, Commit(10, START_MS, 0, number))
    owned = dict.fromkeys(places, OWNERS[0])
    for number in range(6):
        judged.clear()
        observed.clear()
        at_ms = START_MS + number * 5_000
        if number:
            for place in places:
                lag.commit(groups[number], *place, Commit(10, at_ms, 0, 500 + number * 5 + place.partition))
        read = Round(at_ms, {0: End(500 + number * 5 + 5)}, {place: Watermark(at_ms, 0, 10, 10) for place in places})
        rows = [*lag.round(read, {group: GroupFacts("Stable", dict(owned)) for group in groups})]
        assert len(rows) == 500
        assert judged == ([groups[number]] * 5 if number else [row.group_id for row in rows])
        assert len(observed) == (10 if number > 1 else 500)
        assert len(lag.at_rest) == (99 if number else 0)
