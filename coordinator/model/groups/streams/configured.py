"""Configures a topology with the existing topics: how many tasks each subtopology has, or what is missing.

A repartition topic gets the number of partitions that the topology names, or else the largest number among the topics
that a subtopology reads which writes to it. Topics of one copartition group get equal numbers, and a changelog topic as
many as its subtopology has tasks. The numbers of existing topics take precedence. If topics are missing or do not fit,
members receive a status, and no task is assigned; a topology that no topics could fit is refused. Source: responses of
a 4.2 broker (`lab.kafka.streams_differential`), including its odd wording.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from groupledger.coordinator.java_hash_map import JavaHashMap, hash_map_order
from groupledger.coordinator.model.errors import IllegalStateError, RefusedError
from groupledger.coordinator.model.groups.streams.topology import Topology
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.coordinator.model.groups.modern.topics import Topic
    from groupledger.coordinator.model.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo

NAMES_MAX = 3  # in a sentence about topics


class StatusCode(IntEnum):
    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    code: int
    detail: str


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology in which the partitions of internal topics are filled in, as far as they are known. `task_counts` has
    the number of tasks of each subtopology; it is empty if these are not known. `status` says which topics are missing
    or do not fit; it is None if the topology is ready."""

    topology: Topology
    task_counts: Mapping[str, int]
    status: Status | None = None

    @property
    def is_ready(self) -> bool:
        return self.status is None


class _UnfitError(Exception):
    """The topics that there are don't fit the topology."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def configure(topology: Topology, topics: Mapping[str, Topic]) -> ConfiguredTopology:
    return _Configuration(topology, topics).run()


class _Configuration:
    """One run of deciding. `_decided` are the partitions of internal topics, as far as they are decided."""

    def __init__(self, topology: Topology, topics: Mapping[str, Topic]) -> None:
        self._topology = topology
        self._topics = topics
        self._decided: dict[str, int] = {}
        self._subtopologies = topology.in_hash_order()

    def run(self) -> ConfiguredTopology:
        copartitioned = [
            _topics_of(each, subtopology)
            for subtopology in self._subtopologies
            for each in subtopology.copartition_groups
        ]
        try:
            self._need_sources()
            self._decided.update(self._repartition_counts())
            for names in copartitioned:
                self._decided.update(self._equal_counts(names))
            self._decided.update(self._changelog_counts())
            return self._configured()
        except _UnfitError as unfit:
            return ConfiguredTopology(self._topology, {}, unfit.status)

    def _count(self, topic: str) -> int | None:
        known = self._topics.get(topic)
        return self._decided.get(topic) if known is None else known.partition_count

    def _needed_count(self, topic: str) -> int:
        count = self._count(topic)
        if count is None:
            raise IllegalStateError(f"the partitions of {topic} are not known")
        return count

    def _need_sources(self) -> None:
        missing = sorted(
            {topic for each in self._subtopologies for topic in each.source_topics if topic not in self._topics}
        )
        if missing:
            detail = f"Source topics {_listed(missing)} are missing."
            raise _UnfitError(StatusCode.MISSING_SOURCE_TOPICS, detail)

    def _repartition_counts(self) -> dict[str, int]:
        sources = [topic for each in self._subtopologies for topic in each.repartition_source_topics]
        counts = {topic.name: topic.partitions for topic in sources if topic.partitions}
        is_over = False
        while not is_over:
            is_over, has_progressed = True, False
            for each in self._subtopologies:
                for sink in each.repartition_sink_topics:
                    if sink not in counts:
                        count = self._most_read(each, counts)
                        if count is None:
                            is_over = False
                        else:
                            counts[sink] = count
                            has_progressed = True
            if not is_over and not has_progressed:  # a circle
                raise RefusedError(Error.STREAMS_INVALID_TOPOLOGY)
        if any(topic.name not in counts for topic in sources):  # nobody writes to it
            raise RefusedError(Error.STREAMS_INVALID_TOPOLOGY)
        return counts

    def _most_read(self, subtopology: Subtopology, counts: Mapping[str, int]) -> int | None:
        found = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
        found += [self._count(topic) for topic in subtopology.source_topics]
        return max((count for count in found if count is not None), default=None)

    def _equal_counts(self, names: list[str]) -> dict[str, int]:
        """Returns the partitions of the repartition topics among topics that need equal numbers."""
        sources = {topic.name: topic for each in self._subtopologies for topic in each.repartition_source_topics}
        counts = {name: self._needed_count(name) for name in names if name in sources}
        fixed = {name: self._needed_count(name) for name, topic in sources.items() if topic.partitions}
        if not names:
            return {}
        if len(counts) < len(names):
            others = {name: self._needed_count(name) for name in names if name not in sources}
            count = self._same(others, others)
        elif fixed:  # anywhere in the topology
            count = self._same(fixed, counts)
        else:
            count = max(counts.values())
        for name, before in counts.items():
            if name in fixed and before != count:
                detail = (
                    f"Number of partitions [{before}] of repartition topic [{name}] doesn't match number of partitions"
                    f" [{count}] of the source topic."
                )
                raise _UnfitError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
        return dict.fromkeys(counts, count)

    def _same(self, counts: Mapping[str, int], number_by_topic: Mapping[str, int]) -> int:
        if len({*counts.values()}) > 1:
            listed = ", ".join(f"{name}={number_by_topic[name]}" for name in sorted(number_by_topic))
            detail = f"Following topics do not have the same number of partitions: [{{{listed}}}]"
            raise _UnfitError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
        return next(iter(counts.values()))

    def _changelog_counts(self) -> dict[str, int]:
        counts = {}
        for each in self._subtopologies:
            if not each.input_topics():
                raise RefusedError(Error.STREAMS_INVALID_TOPOLOGY)
            count = max(map(self._needed_count, each.input_topics()))
            counts.update({topic.name: count for topic in each.state_changelog_topics})
        return counts

    def _configured(self) -> ConfiguredTopology:
        subtopologies = tuple(
            replace(
                each,
                repartition_source_topics=tuple(map(self._with_count, each.repartition_source_topics)),
                state_changelog_topics=tuple(map(self._with_count, each.state_changelog_topics)),
            )
            for each in sorted(self._subtopologies, key=lambda each: each.subtopology_id)
        )
        task_counts = {each.subtopology_id: max(map(self._needed_count, each.input_topics())) for each in subtopologies}
        status = None
        missing = self._missing(subtopologies)
        if missing:
            status = Status(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_listed(missing)}")
        return ConfiguredTopology(Topology(self._topology.epoch, subtopologies), task_counts, status)

    def _with_count(self, topic: TopicInfo) -> TopicInfo:
        return topic if topic.partitions else replace(topic, partitions=self._decided[topic.name])

    def _missing(self, subtopologies: Iterable[Subtopology]) -> list[str]:
        """Returns the internal topics that are not there, and refuses those that are there otherwise."""
        expected: JavaHashMap[str, int] = JavaHashMap()
        for each in subtopologies:
            for topic in (*each.repartition_source_topics, *each.state_changelog_topics):
                expected.put(topic.name, topic.partitions)
        for name in hash_map_order(Topology(0, tuple(self._subtopologies)).required_topics()):
            if name in self._topics and name in expected:
                count, found = expected[name], self._topics[name].partition_count
                expected.pop(name)
                if count != found:
                    detail = (
                        f"Existing topic {name} has different number of partitions: expected {count}, found {found}"
                    )
                    raise _UnfitError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
        return list(expected)


def _topics_of(group: CopartitionGroup, subtopology: Subtopology) -> list[str]:
    repartitioned = [topic.name for topic in subtopology.repartition_source_topics]
    places = ((group.source_topics, subtopology.source_topics), (group.repartition_source_topics, repartitioned))
    if any(not 0 <= place < len(names) for numbers, names in places for place in numbers):
        raise IllegalStateError(f"a copartition group of {subtopology.subtopology_id} names topics that it has not")
    return hash_map_order(names[place] for numbers, names in places for place in numbers)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} additional topics" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more
