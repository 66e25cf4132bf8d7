"""Writes the metrics of partitions, group by group, and keeps the lines of groups at rest.

A group at rest has the same lines in each round, except for the age of its commits. A partition of a topic that several
groups read has one line for each of its ends.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from groupledger.jobs.monitor.families import Escaped, Numerals, Places, WrittenGauges, lines
from groupledger.jobs.monitor.metric_list import BY_NAME, BY_PARTITION, OF_PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from groupledger.transforms.lag.rules import LagRow

    Number = float | None
    Place = tuple[str, int]

SAME_AT_REST: dict[str, Callable[[LagRow], Number]] = {
    "kafka_consumergroup_group_offset": lambda row: row.committed_offset if row.commits_until_ms is None else None,
    "kafka_consumergroup_group_lag": attrgetter("lag"),
    "kafka_consumergroup_group_lag_seconds": attrgetter("lag_seconds"),
    "kafka_consumergroup_group_messages_lost": attrgetter("messages_lost"),
}
AGE = "kafka_consumergroup_group_commit_age_seconds"
ENDS: dict[str, Callable[[LagRow], Number]] = {
    "kafka_partition_latest_offset": attrgetter("high_watermark"),
    "kafka_partition_earliest_offset": attrgetter("log_start_offset"),
}


class GroupLines(NamedTuple):
    """Holds the lines of a group. `token` is the object that stands for its rest, None if it is not at rest. `ages` are
    the lines with the ages of commits, with a gap for each age, and `commits` the instants from which they follow.
    `ends` has the lines of all its partitions that have ends (`ended`), for each of `ENDS`."""

    token: object | None
    same: tuple[bytes, ...]
    ages: str
    commits: tuple[int, ...]
    ended: tuple[Place, ...]
    ends: tuple[bytes, ...]


class PartitionLines:
    """Writes round after round."""

    def __init__(self) -> None:
        self._kept: dict[str, GroupLines] = {}

    def metrics(
        self, cluster: str, rows: Sequence[LagRow], at_rest: Mapping[str, object], *, shows_client: bool
    ) -> Iterator[Metric]:
        """Yields the metrics of the partitions of one round. The rows come group by group, and those of a group differ
        only in their time as long as `at_rest` has the same object for it. `shows_client` is whether labels name the
        owner's client."""
        writer = _Writer(cluster, shows_client)
        before, self._kept = self._kept, {}
        found: list[GroupLines] = []
        ages: list[bytes] = []
        ends: list[tuple[bytes, ...]] = []
        seen: set[Place] = set()
        for group_id, of_group in groupby(rows, key=attrgetter("group_id")):
            token, kept, members = at_rest.get(group_id), before.get(group_id), list(of_group)
            if kept is None or kept.token is not token:
                kept = writer.written(token, members)
            if token is not None:
                self._kept[group_id] = kept
            found.append(kept)
            ages.append(writer.ages(kept, members[0].sampled_at_ms))
            is_first = seen.isdisjoint(kept.ended)
            ends.append(kept.ends if is_first else writer.ends([row for row in members if _place(row) not in seen]))
            seen.update(kept.ended)
        for number, (name, value) in enumerate(SAME_AT_REST.items()):
            yield writer.by_partition(name, rows, value, [each.same[number] for each in found])
        yield writer.by_partition(AGE, rows, _age_s, ages)
        for number, name in enumerate(ENDS):
            yield writer.of_topics(name, rows, [each[number] for each in ends])


class _Writer:
    """Writes the lines of one round. Words and numbers that come again are written once."""

    def __init__(self, cluster: str, shows_client: bool) -> None:
        self._cluster = cluster
        self._shows_client = shows_client
        self._escaped, self._numerals = Escaped(), Numerals()

    def written(self, token: object | None, rows: Sequence[LagRow]) -> GroupLines:
        places = Places(BY_PARTITION, [self._labels(row) for row in rows], self._escaped).texts
        commits = [
            (f"{AGE}{place}".replace("%", "%%") + "%s\n", row.commit_timestamp_ms)
            for place, row in zip(places, rows, strict=True)
            if row.commit_timestamp_ms is not None and row.commits_until_ms is None
        ]
        same = tuple(lines(name, places, map(value, rows), self._numerals) for name, value in SAME_AT_REST.items())
        ages, times_ms = "".join(line for line, _ in commits), tuple(at_ms for _, at_ms in commits)
        return GroupLines(token, same, ages, times_ms, tuple(map(_place, _ended(rows))), self.ends(rows))

    def ends(self, rows: Iterable[LagRow]) -> tuple[bytes, ...]:
        ended = _ended(rows)
        if not ended:
            return (b"",) * len(ENDS)
        places = Places(OF_PARTITION, [self._of_topic(row) for row in ended], self._escaped).texts
        return tuple(lines(name, places, map(value, ended), self._numerals) for name, value in ENDS.items())

    def ages(self, of: GroupLines, at_ms: int) -> bytes:
        ages_s = (max(at_ms - each, 0) / 1_000 for each in of.commits)
        return (of.ages % tuple(map(self._numerals.__getitem__, ages_s))).encode()

    def by_partition(
        self, name: str, rows: Sequence[LagRow], value: Callable[[LagRow], Number], parts: Sequence[bytes]
    ) -> Metric:
        def known() -> Iterable[tuple[tuple[str, ...], Number]]:
            return ((self._labels(row), value(row)) for row in rows)

        return WrittenGauges(name, BY_NAME[name].help, BY_PARTITION, known, parts)

    def of_topics(self, name: str, rows: Sequence[LagRow], parts: Sequence[bytes]) -> Metric:
        def known() -> Iterable[tuple[tuple[str, ...], Number]]:
            return {self._of_topic(row): ENDS[name](row) for row in _ended(rows)}.items()

        return WrittenGauges(name, BY_NAME[name].help, OF_PARTITION, known, parts)

    def _labels(self, row: LagRow) -> tuple[str, ...]:
        client = (row.client_host or "", row.client_id or "") if self._shows_client else ("", "")
        return (self._cluster, row.group_id, row.topic, str(row.partition), *client)

    def _of_topic(self, row: LagRow) -> tuple[str, ...]:
        return (self._cluster, row.topic, str(row.partition))


def _age_s(row: LagRow) -> Number:
    return None if row.commit_age_ms is None else row.commit_age_ms / 1_000


def _place(row: LagRow) -> Place:
    return (row.topic, row.partition)


def _ended(rows: Iterable[LagRow]) -> list[LagRow]:
    return [row for row in rows if row.high_watermark is not None and row.log_start_offset is not None]
