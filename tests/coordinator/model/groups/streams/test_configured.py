"""Goal: a topology is given its tasks and the partitions of its internal topics, or the answer says what it lacks, as
by a broker."""

from __future__ import annotations

import pytest

from groupledger.coordinator.model.errors import IllegalStateError, RefusedError
from groupledger.coordinator.model.groups.modern.topics import Topic
from groupledger.coordinator.model.groups.streams.configured import ConfiguredTopology, StatusCode, configure
from groupledger.coordinator.model.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology

THREE, FIVE = "three", "five"
OTHERWISE = (
    "Number of partitions [4] of repartition topic [r] doesn't match number of partitions [5] of the source topic."
)
TOGETHER = CopartitionGroup(source_topics=(0,), repartition_source_topics=(0,))


def configured(*subtopologies: Subtopology, **counts: int) -> ConfiguredTopology:
    """Configures for topics of these numbers of partitions, beside two that are always there."""
    known = {THREE: 3, FIVE: 5, **counts}
    return configure(Topology(0, subtopologies), {name: Topic(name, "", count) for name, count in known.items()})


def reads(
    subtopology_id: str, *sources: str, partitions: int = 0, repartition: str = "", **more: object
) -> Subtopology:
    internal = (TopicInfo(repartition, partitions),) if repartition else ()
    words = {"source_topics": sources, "repartition_source_topics": internal, **more}
    return Subtopology(subtopology_id=subtopology_id, **words)  # type: ignore[arg-type]  # as the tests give them


def test_partitions_of_internal_topics() -> None:
    """Goal: partitions go along a chain of repartition topics, whichever subtopology is looked at first, and changelogs
    have as many as their subtopology has tasks."""
    found = configured(
        reads("c", repartition="r2", state_changelog_topics=(TopicInfo("log"),)),
        reads("b", THREE, repartition="r1", repartition_sink_topics=("r2",)),
        reads("a", THREE, FIVE, repartition_sink_topics=("r1",)),
    )
    assert found.task_counts == {"a": 5, "b": 5, "c": 5}
    assert [each.subtopology_id for each in found.topology.subtopologies] == ["a", "b", "c"]
    assert found.topology.subtopologies[2].state_changelog_topics == (TopicInfo("log", 5),)
    assert found.status is not None
    assert found.status.code == StatusCode.MISSING_INTERNAL_TOPICS
    assert {*found.status.detail.removeprefix("Internal topics are missing: ").split(", ")} == {"r1", "r2", "log"}


def test_topics_that_exist_go_first() -> None:
    """Goal: a repartition topic of its own number is read with that one, and one that the topology fixes otherwise does
    not fit."""
    chain = (reads("a", FIVE, repartition_sink_topics=("r",)), reads("b", repartition="r"))
    assert configured(*chain, r=5).is_ready
    wrong = configured(*chain, r=4).status
    assert wrong == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic r has different number of partitions: expected 5, found 4",
    )


def test_missing_sources() -> None:
    """Goal: three of the missing topics are named, in order, and the others counted."""
    found = configured(reads("a", "z", "y", "x", "w", "v"))
    assert found.status == (
        StatusCode.MISSING_SOURCE_TOPICS,
        "Source topics v, w, x and 2 additional topics are missing.",
    )
    assert found.task_counts == {}


@pytest.mark.parametrize(
    ("subtopologies", "message"),
    [
        (
            [reads("a", THREE, FIVE, copartition_groups=(CopartitionGroup(source_topics=(0, 1)),))],
            "Following topics do not have the same number of partitions: [{five=5, three=3}]",
        ),
        (
            [reads("a", FIVE, repartition="r", partitions=4, copartition_groups=(TOGETHER,))],
            OTHERWISE,
        ),
        (
            [
                reads("a", repartition="r", partitions=4, copartition_groups=(CopartitionGroup((), (), (0,)),)),
                reads("b", repartition="q", partitions=2),
            ],
            "Following topics do not have the same number of partitions: [{r=4}]",  # a broker names these alone
        ),
    ],
)
def test_not_copartitioned(subtopologies: list[Subtopology], message: str) -> None:
    """Goal: topics of a copartition group with unequal numbers don't fit."""
    status = configured(*subtopologies).status
    assert status == (StatusCode.INCORRECTLY_PARTITIONED_TOPICS, message)


def test_copartitioned() -> None:
    """Goal: a repartition topic without a number of its own takes that of the topics with which it is read."""
    found = configured(
        reads("a", THREE, repartition_sink_topics=("r",)),
        reads("b", FIVE, repartition="r", copartition_groups=(TOGETHER,)),
    )
    assert found.topology.subtopologies[1].repartition_source_topics == (TopicInfo("r", 5),)


@pytest.mark.parametrize(
    "subtopology",
    [
        reads("a", repartition="r"),
        reads("a", repartition="r", repartition_sink_topics=("r",)),
        reads("a", state_changelog_topics=(TopicInfo("log"),)),
    ],
)
def test_impossible(subtopology: Subtopology) -> None:
    """Goal: a topology that fits no topics is refused: nobody writes what it reads, only itself does, or it reads
    nothing."""
    with pytest.raises(RefusedError, match="STREAMS_INVALID_TOPOLOGY"):
        configured(subtopology)


def test_nonsense() -> None:
    """Goal: a copartition group of topics that its subtopology has not ends as where a broker throws."""
    for place in (1, -1):
        with pytest.raises(IllegalStateError):
            configured(reads("a", THREE, copartition_groups=(CopartitionGroup((place,)),)))
