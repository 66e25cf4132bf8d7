"""Holds the state of all groups of a cluster, round by round: commits and samples in, rows of `lag` out.

A sampling round first reads the ends of the `__consumer_offsets` partitions, then the rest. A commit counts if it lies
below the end of its partition, whatever was read of the log by then. That end is the last stable offset, beyond which
no read_committed reader gets. If it lies below the high watermark, the rows say so.

    state.commit(...)          as the log is read, in the order of each partition; commits after the round's ends, too
    state.round(round, ...)    once the log is read up to `round.ends`; rounds in their order

Only what has changed is judged. A partition where nothing is left to read gets the row of the round before with the new
time, as long as it has no new commit, and its sample and its group's facts are the same (`row.is_settled`). If that is
so for all partitions of a group, the group is at rest, and the next rounds do not look at its partitions (`quiet`).

The caller waits until the log is read that far (`is_read_to`). State is bounded, as `PartitionWindow` and `TopicWindow`
say. State that was recovered from the tables (`jobs.derive.lag`) gives the same rows as the state that was lost, if the
log has no losses and Burrow's `min_distance_ms` is 0: a round drops what lies before a loss only if nothing was
committed after it by then, and commits closer than that share a slot of the ring. The tables show neither.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import LagFlag
from groupledger.transforms.coverage.rules.losses import NO_LOSSES
from groupledger.transforms.lag.rules.facts import NO_FACTS, Commit, GroupFacts, Watermark
from groupledger.transforms.lag.rules.partition_window import PartitionWindow
from groupledger.transforms.lag.rules.quiet import Judged, QuietGroup, Situation, quiet_group
from groupledger.transforms.lag.rules.row import (
    Circumstances,
    GroupPartition,
    LagRow,
    is_settled,
    lag_row,
    settled_row,
)
from groupledger.transforms.lag.rules.sample_times import Thinning
from groupledger.transforms.lag.rules.thresholds import LagRules
from groupledger.transforms.lag.rules.topic_window import TopicWindow
from groupledger.transforms.troubles import RULE_ERRORS, stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from groupledger.transforms.troubles import Report


@dataclass(frozen=True, slots=True)
class End:
    """Holds the end of one `__consumer_offsets` partition that a round read. Commits below `offset` count.

    `is_behind` means that an open transaction keeps a reader from the log's end.
    """

    offset: int
    is_behind: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """Holds the result of one sampling round. `ends` and `watermarks` lack the partitions whose broker did not
    answer."""

    sampled_at_ms: int
    ends: Mapping[int, End]
    watermarks: Mapping[TopicPartition, Watermark]


def is_read_to(ends: Mapping[int, End], positions: Mapping[int, int]) -> bool:
    """Returns whether the log is read up to the round; `positions` are the next offsets to read, by partition."""
    return all(positions.get(partition, 0) >= end.offset for partition, end in ends.items())


def _still_settled(
    row: LagRow, window: PartitionWindow | None, topic: TopicWindow | None, at_ms: int, is_lost: bool
) -> bool:
    """Returns whether an earlier row is settled, and neither commit nor sample has changed since."""
    if not is_settled(row) or topic is None or not topic.is_unchanged(row.sampled_at_ms, at_ms):
        return False
    if window is None or window.latest is None:
        return row.kafka_offset is None and is_lost == (LagFlag.COMMIT_UNKNOWN in row.flags)
    return window.latest.kafka_offset == row.kafka_offset


class LagState:
    def __init__(self, rules: LagRules | None = None, report: Report = stop) -> None:
        """Makes an empty state. A group whose rows can't be computed in a round is reported to `report`, and has no
        rows in that round. If the state can't take a commit of a group, the group's commits are not known until it
        commits again.

        `losses` may be set at any time. If records may be missing at a place in the log, commits below it no longer
        count in a round whose end lies above it, until the group commits again. The same holds if the cleaner removed
        records around a round's end, and the group has committed after that end.
        """
        self.losses = NO_LOSSES
        self.rules = rules or LagRules()
        self._report = report
        self.topics: dict[TopicPartition, TopicWindow] = {}
        self.groups: dict[str, dict[TopicPartition, PartitionWindow]] = {}
        self._begun_ms, self._begun = 0, array("q")  # the newest first sample, and the times of all that had it
        self._ends: dict[int, tuple[int, End]] = {}  # with the round that read it
        self._waiting: list[tuple[str, TopicPartition, Commit]] = []
        self._hidden_to: dict[int, int] = {}  # of each partition of the log, the last of them that a round has passed
        self._lost: set[tuple[str, TopicPartition]] = set()  # whose last commit is not known
        self._last: dict[str, Judged] = {}  # of the groups that the last round judged
        self._quiet: dict[str, QuietGroup] = {}  # at rest since an earlier round
        self._restless: set[TopicPartition] = set()  # of this round: their sample has changed, or they have none
        self._thinned: dict[tuple[str, TopicPartition], int] = {}  # of this round: a commit at or above that counts

    def commit(self, group_id: str, topic: str, partition: int, commit: Commit) -> None:
        """Adds a commit or a removal. It counts from the first round whose end lies above it."""
        self._waiting.append((group_id, TopicPartition(topic, partition), commit))

    def round(self, read: Round, facts: Mapping[str, GroupFacts]) -> Iterator[LagRow]:
        """Yields the rows of the round: for each group, the partitions that it has committed or owns. Consume all rows,
        because the state that the next round needs is stored on the way."""
        failed = self._absorb(read)
        self._sample(read)
        before, self._last = self._last, {}
        group_ids = (self.groups.keys() | {name for name, fact in facts.items() if fact.owners}) - failed
        for group_id in self._quiet.keys() - group_ids:
            del self._quiet[group_id]
        for group_id in group_ids:
            facts_of_group = facts.get(group_id, NO_FACTS)
            yield from self._judged(group_id, read.sampled_at_ms, facts_of_group, before.get(group_id))

    @property
    def at_rest(self) -> Mapping[str, object]:
        """Returns the groups whose rows in the last round will stay the same, except for `sampled_at_ms`, as long as
        this has the same object for them."""
        return self._quiet

    def sample(self, place: TopicPartition, watermark: Watermark) -> bool:
        """Adds a sample, as `TopicWindow.add` does. Add them in the order of time."""
        topic = self.topics.get(place)
        if topic is None or topic.latest is None:
            topic = self.topics[place] = topic or TopicWindow()
            if watermark.sampled_at_ms != self._begun_ms:
                self._begun_ms, self._begun = watermark.sampled_at_ms, array("q")
            topic.share(self._begun)
        return topic.add(watermark)

    def thin_out(self) -> None:
        """Thins out the samples of all partitions, if one of them has many: together, so that they share the times."""
        if any(topic.is_full for topic in self.topics.values()):
            thinning = Thinning()
            for topic in self.topics.values():
                topic.thin(thinning)

    def window(self, group_id: str, place: TopicPartition) -> PartitionWindow:
        windows = self.groups.setdefault(group_id, {})
        window = windows.get(place)
        if window is None:
            window = windows[place] = PartitionWindow()
        return window

    def restore_ends(self, sampled_at_ms: int, ends: Mapping[int, End]) -> None:
        """Stores the ends that an earlier round read: the round for which the state is recovered, or the last round
        that read a partition."""
        self._ends.update({partition: (sampled_at_ms, end) for partition, end in ends.items()})

    def restore_commit(self, group_id: str, place: TopicPartition, commit: Commit) -> None:
        """Adds a commit that an earlier round counted, with the high watermark before it. Call this in the order of the
        log."""
        self.window(group_id, place).absorb(commit, None, self.rules)

    def lose(self, group_id: str) -> None:
        """Drops the commits of a group that can't be restored: they are not known until the group commits again."""
        self._lost.update((group_id, place) for place in self.groups.pop(group_id, ()))

    def drop_removed(self, group_id: str) -> None:
        """Drops a group's windows whose last commit was removed. Call it after the group's last `restore_commit`."""
        windows = self.groups.get(group_id, {})
        for place in [place for place, window in windows.items() if window.latest is None]:
            self._drop(group_id, place)

    def _sample(self, read: Round) -> None:
        at_ms, topics = read.sampled_at_ms, self.topics
        restless = topics.keys() - read.watermarks.keys() if len(topics) > len(read.watermarks) else set()
        for place, watermark in read.watermarks.items():
            if not self.sample(place, watermark) or watermark.sampled_at_ms != at_ms:
                restless.add(place)
        self.thin_out()
        self._restless = restless

    def _judged(self, group_id: str, sampled_at_ms: int, facts: GroupFacts, before: Judged | None) -> Iterable[LagRow]:
        """Returns all rows of a group, or none of one that can't be judged: a part would give a wrong sum."""
        try:
            situation = self._situation(group_id, sampled_at_ms, facts)
            quiet = self._quiet.get(group_id)
            if quiet is not None:
                if quiet.goes_on(situation, self._restless, self.rules):
                    return quiet.rows()
                before = self._quiet.pop(group_id).wake()
            is_same = before is not None and before.situation[1:] == situation[1:]
            earlier = before.rows if before is not None and is_same else {}
            rows, is_unchanged = self._group_rows(group_id, situation, earlier)
        except RULE_ERRORS as error:
            self._report(group_id, error)
            return ()
        found = Judged(situation, rows)
        quiet = quiet_group(found, self.groups.get(group_id, {}), self.topics, self.rules) if is_unchanged else None
        if quiet is None:
            self._last[group_id] = found
        else:
            self._quiet[group_id] = quiet
        return rows.values()

    def _wake(self, group_id: str) -> None:
        """Ends the rest of a group, before its windows change."""
        self._last[group_id] = self._quiet.pop(group_id).wake()

    def _situation(self, group_id: str, sampled_at_ms: int, facts: GroupFacts) -> Situation:
        # All of a group lies in one partition of the log.
        latest = (each.latest for each in self.groups.get(group_id, {}).values())
        kafka_partition = next((each.kafka_partition for each in latest if each), facts.kafka_partition)
        end_read_at_ms, end = self._ends.get(kafka_partition, (sampled_at_ms, None))
        until_ms = end_read_at_ms if end_read_at_ms < sampled_at_ms else None
        return Situation(sampled_at_ms, facts, until_ms, end is not None and end.is_behind)

    def _group_rows(
        self, group_id: str, situation: Situation, before: Mapping[TopicPartition, LagRow]
    ) -> tuple[dict[TopicPartition, LagRow], bool]:
        """Returns the rows of a group, and whether nothing has changed. `before` are the rows of the round before, if
        the situation was the same."""
        at_ms, facts, rules = situation.sampled_at_ms, situation.facts, self.rules
        windows = self.groups.get(group_id, {})
        rows: dict[TopicPartition, LagRow] = {}
        is_unchanged, now = True, None
        places = windows.keys() | facts.owners.keys()
        for place in before if before.keys() == places else sorted(places):
            window, topic, row = windows.get(place), self.topics.get(place), before.get(place)
            is_thinned = bool(self._thinned) and self._is_thinned(group_id, place, window)
            is_lost = is_thinned or (bool(self._lost) and (group_id, place) in self._lost)
            if row is not None and not is_thinned and _still_settled(row, window, topic, at_ms, is_lost):
                rows[place] = settled_row(row, window, at_ms, rules)
                continue
            is_unchanged, owner, of_round = False, facts.owner(place), None if is_thinned else window
            if now is None or now.owner is not owner or now.has_lost_commit != is_lost:
                now = Circumstances(at_ms, owner, facts.state, *situation[2:], is_lost)
            rows[place] = lag_row(GroupPartition(group_id, *place), topic, of_round, now, rules)
        return rows, is_unchanged

    def _is_thinned(self, group_id: str, place: TopicPartition, window: PartitionWindow | None) -> bool:
        """Returns whether the cleaner may have removed what was committed at the round."""
        present_from = self._thinned.get((group_id, place))
        latest = window.latest if window is not None else None
        return present_from is not None and (latest is None or latest.kafka_offset < present_from)

    def _absorb(self, read: Round) -> set[str]:
        """Takes in the waiting commits that lie below the round, before its watermarks come. Returns the groups
        with a commit that could not be taken in."""
        failed: set[str] = set()
        before = {partition: at_ms for partition, (at_ms, _) in self._ends.items()}
        self.restore_ends(read.sampled_at_ms, read.ends)
        waiting, self._waiting = self._waiting, []
        for entry in waiting:
            group_id, place, commit = entry
            found = self._ends.get(commit.kafka_partition)
            if found is None or commit.kafka_offset >= found[1].offset:
                self._waiting.append(entry)
                continue
            if group_id in self._quiet:
                self._wake(group_id)
            if self._lost:
                self._lost.discard((group_id, place))
            window = self.window(group_id, place)
            try:
                window.absorb(commit, self._end_before(place, before.get(commit.kafka_partition)), self.rules)
            except RULE_ERRORS as error:
                self._report(group_id, error)
                failed.add(group_id)
                self._lost.add((group_id, place))
            if window.latest is None or (group_id, place) in self._lost:
                self._drop(group_id, place)
        self._drop_hidden()
        self._thinned = dict(self._behind_thinned())
        for group_id, _ in self._thinned:
            if group_id in self._quiet:
                self._wake(group_id)
        return failed

    def _behind_thinned(self) -> Iterator[tuple[tuple[str, TopicPartition], int]]:
        """Yields who has committed after the round's end where the log there was thinned, and from which offset on
        every record is there."""
        stretches = {key: self.losses.thinned_at(key, end.offset) for key, (_, end) in self._ends.items()}
        if any(stretches.values()):
            for group_id, place, commit in self._waiting:
                thinned = stretches.get(commit.kafka_partition)
                if thinned is not None and commit.kafka_offset < thinned.known_from:
                    yield (group_id, place), thinned.present_from

    def _drop_hidden(self) -> None:
        for partition, offsets in self.losses.hidden_ends.items():
            _, end = self._ends.get(partition, (0, End(0)))
            passed = max((offset for offset in offsets if offset < end.offset), default=-1)
            if passed <= self._hidden_to.get(partition, -1):
                continue
            self._hidden_to[partition] = passed
            hidden = [
                (group_id, place)
                for group_id, windows in self.groups.items()
                for place, window in windows.items()
                if window.latest is not None
                and window.latest.kafka_partition == partition
                and window.latest.kafka_offset < passed
            ]
            for group_id, place in hidden:
                self._drop(group_id, place)
            self._lost.update(hidden)

    def _end_before(self, place: TopicPartition, sampled_at_ms: int | None) -> int | None:
        """Returns the partition's end in the last round that a commit did not lie below."""
        topic = self.topics.get(place)
        if topic is None or topic.latest is None or topic.latest.sampled_at_ms != sampled_at_ms:
            return None
        return topic.latest.high_watermark

    def _drop(self, group_id: str, place: TopicPartition) -> None:
        if group_id in self._quiet:
            self._wake(group_id)
        del self.groups[group_id][place]
        if not self.groups[group_id]:
            del self.groups[group_id]
