"""The topology of a streams group, as its members send it and as record type 23 stores it.

A topology consists of subtopologies. Each of them reads source topics and repartition topics, writes to other
repartition topics, and stores its state in changelog topics. Fields have the names of the record, so that message and
record convert to each other field by field. `configured` finds which topics exist, and their numbers of partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.java_hash_map import hash_map_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class KeyValue:
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """An internal topic. If `partitions` or `replication_factor` is 0, the broker decides."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: tuple[KeyValue, ...] = ()

    def described(self) -> TopicInfo:
        return replace(self, topic_configs=tuple(sorted(self.topic_configs, key=lambda config: config.key)))


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Topics that need equal numbers of partitions, given by their indexes in the subtopology's lists of topics."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    def input_topics(self) -> tuple[str, ...]:
        return *self.source_topics, *(topic.name for topic in self.repartition_source_topics)


@dataclass(frozen=True, slots=True)
class Topology:
    epoch: int
    subtopologies: tuple[Subtopology, ...]

    def required_topics(self) -> Iterator[str]:
        for subtopology in self.subtopologies:
            yield from subtopology.input_topics()
            yield from (topic.name for topic in subtopology.state_changelog_topics)

    def in_hash_order(self) -> list[Subtopology]:
        """Returns the subtopologies in the broker's order, that of a HashMap by id."""
        by_id = {each.subtopology_id: each for each in self.subtopologies}
        return [by_id[name] for name in hash_map_order(by_id)]

    def described(self) -> Topology:
        """Returns the topology as a description of the group shows it: sorted, and without the fields that only serve
        to find numbers of partitions."""
        shown = (
            replace(
                each,
                source_topics=tuple(sorted(each.source_topics)),
                source_topic_regex=(),
                state_changelog_topics=_by_name(each.state_changelog_topics),
                repartition_sink_topics=tuple(sorted(each.repartition_sink_topics)),
                repartition_source_topics=_by_name(each.repartition_source_topics),
                copartition_groups=(),
            )
            for each in self.subtopologies
        )
        return replace(self, subtopologies=tuple(sorted(shown, key=lambda each: each.subtopology_id)))

    def is_same(self, other: Topology) -> bool:
        """Returns whether both have the same epoch and the same subtopologies, in any order."""
        ordered = [sorted(each.subtopologies, key=lambda one: one.subtopology_id) for each in (self, other)]
        return self.epoch == other.epoch and ordered[0] == ordered[1]


def _by_name(topics: tuple[TopicInfo, ...]) -> tuple[TopicInfo, ...]:
    return tuple(sorted((topic.described() for topic in topics), key=lambda topic: topic.name))


def as_record(part: Any) -> Any:
    """Returns a topology, or a part of one, as the value of a record."""
    if is_dataclass(part):
        return {each.name: as_record(getattr(part, each.name)) for each in fields(part)}
    return [as_record(each) for each in part] if isinstance(part, tuple) else part


def topology_of(value: Mapping[str, Any]) -> Topology:
    """Returns the topology that the value of a record describes."""
    return Topology(value["epoch"], tuple(map(_subtopology, value["subtopologies"])))


def _subtopology(value: Mapping[str, Any]) -> Subtopology:
    return Subtopology(
        subtopology_id=value["subtopology_id"],
        source_topics=tuple(value["source_topics"]),
        source_topic_regex=tuple(value["source_topic_regex"]),
        state_changelog_topics=tuple(map(_topic, value["state_changelog_topics"])),
        repartition_sink_topics=tuple(value["repartition_sink_topics"]),
        repartition_source_topics=tuple(map(_topic, value["repartition_source_topics"])),
        copartition_groups=tuple(
            CopartitionGroup(*(tuple(each[part.name]) for part in fields(CopartitionGroup)))
            for each in value["copartition_groups"]
        ),
    )


def _topic(value: Mapping[str, Any]) -> TopicInfo:
    configs = tuple(KeyValue(each["key"], each["value"]) for each in value["topic_configs"])
    return TopicInfo(value["name"], value["partitions"], value["replication_factor"], configs)
