"""Makes random topologies of streams applications, over topics that exist and some that do not.

In addition to the topics of other plays (`consumer_sequences`) there are internal topics, which are created beforehand,
so that an application with state or with a repartition is ready at once. Some topologies lack topics, need other
numbers of partitions, or are impossible.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from groupledger.coordinator.model.groups.streams.topology import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TopicInfo,
    Topology,
)
from lab.kafka.consumer_sequences import TOPICS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

REPARTITION, CHANGELOG = "seq-repartition", "seq-changelog"
INTERNAL_TOPICS = {REPARTITION: 5, CHANGELOG: 5, f"{CHANGELOG}-of-{REPARTITION}": 5, f"{CHANGELOG}-of-a": 3}
MISSING = "seq-that-is-not-there"
CONFIGS = (KeyValue("retention.ms", "100000"), KeyValue("cleanup.policy", "compact"))


class Topologies:
    """Draws random topologies. `own_topic` is a topic of the sequence, which exists only for a part of its time.
    `prefix` begins the names of internal topics that the broker has to create."""

    def __init__(self, dice: random.Random, own_topic: str, prefix: str) -> None:
        self._dice = dice
        self._own_topic = own_topic
        self._prefix = prefix

    def draw(self) -> Topology:
        kinds: list[tuple[int, Callable[[], tuple[Subtopology, ...]]]] = [
            *((4, self._plain), (6, self._with_state), (6, self._repartitioned), (3, self._copartitioned)),
            *((1, self._missing), (2, self._own), (2, self._to_be_created), (1, self._impossible)),
        ]
        (kind,) = self._dice.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
        subtopologies = [*kind()]
        self._dice.shuffle(subtopologies)
        return Topology(self._dice.randint(0, 2), tuple(subtopologies))

    def changed(self, topology: Topology) -> Topology:
        """Returns the topology with another epoch, with another source topic, or with its subtopologies in another
        order."""
        first, *others = topology.subtopologies
        return self._dice.choice(
            [
                replace(topology, epoch=topology.epoch + self._dice.choice([-1, 1])),
                replace(topology, subtopologies=(*others, first)),
                replace(topology, subtopologies=(replace(first, source_topics=("seq-c",)), *others)),
            ]
        )

    def _plain(self) -> tuple[Subtopology, ...]:
        names = self._dice.sample([*TOPICS], self._dice.randint(1, len(TOPICS)))
        half = self._dice.randint(1, len(names))
        parts = [part for part in (names[:half], names[half:]) if part]
        return tuple(
            Subtopology(subtopology_id=str(number), source_topics=tuple(part)) for number, part in enumerate(parts)
        )

    def _with_state(self) -> tuple[Subtopology, ...]:
        found = [
            Subtopology(
                subtopology_id="0",
                source_topics=tuple(self._dice.sample(["seq-b", "seq-c"], 2)),
                state_changelog_topics=(TopicInfo(CHANGELOG, 0, 1, CONFIGS),),
            )
        ]
        if self._dice.random() < 0.6:
            changelog = TopicInfo(f"{CHANGELOG}-of-a")
            found.append(Subtopology(subtopology_id="1", source_topics=("seq-a",), state_changelog_topics=(changelog,)))
        return tuple(found)

    def _repartitioned(self) -> tuple[Subtopology, ...]:
        partitions = self._dice.choice([0, 0, 0, 5, 5, 4])
        changelog = TopicInfo(f"{CHANGELOG}-of-{REPARTITION}", 0, 0, CONFIGS[:1])
        source = self._dice.choice(["seq-b", "seq-b", "seq-b", "seq-a"])
        return (
            Subtopology(subtopology_id="1-2", source_topics=(source,), repartition_sink_topics=(REPARTITION,)),
            Subtopology(
                subtopology_id="2",
                repartition_source_topics=(TopicInfo(REPARTITION, partitions, 1),),
                state_changelog_topics=(changelog,) if self._dice.random() < 0.6 else (),
            ),
        )

    def _copartitioned(self) -> tuple[Subtopology, ...]:
        if self._dice.random() < 0.4:
            names = ("seq-a", "seq-b") if self._dice.random() < 0.5 else ("seq-b", CHANGELOG)
            group = CopartitionGroup(source_topics=(0, 1))
            return (Subtopology(subtopology_id="0", source_topics=names, copartition_groups=(group,)),)
        if self._dice.random() < 0.2:
            alone = (CopartitionGroup(repartition_source_topics=(0,)),)
            first, second = TopicInfo(REPARTITION, 5), TopicInfo(f"{CHANGELOG}-of-a", self._dice.choice([3, 5]))
            return (
                Subtopology(subtopology_id="0", repartition_source_topics=(first,), copartition_groups=alone),
                Subtopology(subtopology_id="1", repartition_source_topics=(second,)),
            )
        repartition = TopicInfo(REPARTITION, self._dice.choice([0, 0, 5, 4]))
        group = CopartitionGroup(source_topics=(0,), repartition_source_topics=(0,))
        return (
            Subtopology(subtopology_id="0", source_topics=("seq-c",), repartition_sink_topics=(REPARTITION,)),
            Subtopology(
                subtopology_id="1",
                source_topics=(self._dice.choice(["seq-a", "seq-b", "seq-b"]),),
                repartition_source_topics=(repartition,),
                copartition_groups=(group, CopartitionGroup(repartition_source_topics=(0,)))[
                    : self._dice.randint(1, 2)
                ],
            ),
        )

    def _missing(self) -> tuple[Subtopology, ...]:
        names = [MISSING, *(f"{MISSING}-{number}" for number in range(self._dice.randint(0, 4)))]
        return (Subtopology(subtopology_id="0", source_topics=("seq-a", *names)),)

    def _own(self) -> tuple[Subtopology, ...]:
        return (
            Subtopology(subtopology_id="0", source_topics=("seq-a",)),
            Subtopology(subtopology_id="1", source_topics=(self._own_topic,)),
        )

    def _to_be_created(self) -> tuple[Subtopology, ...]:
        changelogs = tuple(
            TopicInfo(f"{self._prefix}-changelog-{number}") for number in range(self._dice.randint(1, 4))
        )
        repartition = f"{self._prefix}-repartition"
        return (
            Subtopology(
                subtopology_id="0",
                source_topics=("seq-a",),
                state_changelog_topics=changelogs,
                repartition_sink_topics=(repartition,),
            ),
            Subtopology(subtopology_id="1", repartition_source_topics=(TopicInfo(repartition, 0, 1, CONFIGS),)),
        )

    def _impossible(self) -> tuple[Subtopology, ...]:
        plain = Subtopology(subtopology_id="0", source_topics=("seq-a",))
        unread = (TopicInfo(REPARTITION),)
        return self._dice.choice(
            [
                (replace(plain, state_changelog_topics=(TopicInfo(CHANGELOG, 3),)),),
                (replace(plain, source_topics=(), state_changelog_topics=(TopicInfo(CHANGELOG),)),),
                (plain, Subtopology(subtopology_id="1", repartition_source_topics=unread)),
                (
                    Subtopology(
                        subtopology_id="1", repartition_source_topics=unread, repartition_sink_topics=(REPARTITION,)
                    ),
                ),
                (replace(plain, copartition_groups=(CopartitionGroup(source_topics=(1,)),)),),
                (plain, replace(plain, source_topics=("seq-b",))),
            ]
        )
