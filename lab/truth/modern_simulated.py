"""Compares the history of the simulator's KIP-848 groups with its truth.

The history is folded from the records alone, as a pipeline folds them; the truth is what the coordinator knew
(`coordinator.simulator.modern_recorder`). Owners are compared behind every operation of the coordinator, epochs,
members and causes row by row. The records do not tell why a member went: there the truth's cause and `UNTOLD` are taken
for the same. A group that was a classic one before has owners of both kinds, and epochs and members since its upgrade;
one that becomes a classic one goes on with generations, which are compared by their records.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios.modern import MODERN
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.schemas.kinds import triggers
from groupledger.schemas.words import GroupType
from groupledger.transforms.records.decoded_record import record_fields
from lab.truth.consumer_claims import owners_at
from lab.truth.consumer_groups import CLASSIC, History, event_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.coordinator.simulator.simulation import Simulation
    from groupledger.coordinator.simulator.truth import Truth
    from lab.truth.consumer_groups import Table

HOUR_MS = 3_600_000
PLAYED = {scenario.name: scenario for scenario in MODERN}
DEPARTED = frozenset({triggers.LEFT.name, triggers.SESSION_EXPIRED.name, triggers.REBALANCE_TIMEOUT.name})
UNTOLD = "departed"


def compare(name: str, seed: int) -> dict[str, tuple[int, list[str]]]:
    """Plays a scenario to its end, and returns how much was compared of what, and what the history says otherwise than
    the truth."""
    scenario = PLAYED[name]
    simulation = prepare(scenario, seed, 1)
    simulation.run(BEGAN_AT_MS + round(scenario.hours * HOUR_MS))
    (group_id,) = simulation.group_ids
    history, looks = _history(simulation, group_id)
    truth = simulation.recorder.truth
    epochs, members, generations = _true_epochs(truth), _true_members(truth), _true_generations(truth)
    compared = {
        "owners behind an operation": (len(looks), [*_other_owners(history.tables["assignments"], truth, looks)]),
        "epochs and causes": (epochs.total(), _difference(epochs, _told_epochs(history.tables, truth))),
        "members": (members.total(), _difference(members, _told_members(history.tables["members"], truth))),
        "generations behind a downgrade": (
            generations.total(),
            _difference(generations, _told_generations(history.tables["generations"], truth)),
        ),
    }
    return {what: found for what, found in compared.items() if any(found)}


def _history(simulation: Simulation, group_id: str) -> tuple[History, list[int]]:
    """Returns the group's history, and the offsets behind each operation."""
    names = {topic.topic_id: topic.name for topic in simulation.topics.by_name.values()}
    events, looks = [], []
    for batch in simulation.take(is_last=True).batches:
        for offset, record in enumerate(batch.records, batch.base_offset):
            is_about_members = record.record_type == CLASSIC or record.record_type.startswith("consumer_group_")
            if record.key["group_id"] == group_id and is_about_members:
                place = offset, batch.timestamp_ms
                is_tombstone = record.value is None
                fields = record_fields(record)
                events.append(event_of(place, record.record_type, fields, names, is_tombstone=is_tombstone))
                looks.append(batch.base_offset + len(batch.records))
    history = History(group_id)
    history.fold(events)
    return history, sorted(set(looks))


def _other_owners(assignments: Table, truth: Truth, looks: list[int]) -> Iterator[str]:
    for look in looks:
        true: dict[tuple[str, int], tuple[str, ...]] = {}
        for owner in truth.owners:
            if owner.from_kafka_offset < look and (owner.to_kafka_offset is None or look <= owner.to_kafka_offset):
                true[owner.topic, owner.partition] = (owner.member_id,)
        for held in truth.holdings:
            if held.from_kafka_offset <= look and (held.to_kafka_offset is None or look < held.to_kafka_offset):
                true[held.topic, held.partition] = (held.member_id,)
        told = owners_at(assignments, look)
        if told != true:
            wrong, missing = sorted(told.items() - true.items()), sorted(true.items() - told.items())
            yield f"owners behind {look}: {wrong}, not {missing}"


def _difference(true: Counter[Any], told: Counter[Any]) -> list[str]:
    return [
        *(f"missing {each}" for each in (true - told).elements()),
        *(f"too many {each}" for each in (told - true).elements()),
    ]


def _cause(trigger: str | None) -> str | None:
    return UNTOLD if trigger in DEPARTED else trigger


def _true_epochs(truth: Truth) -> Counter[Any]:
    return Counter((row.epoch, row.started_at_ms, row.ended_at_ms, _cause(row.trigger)) for row in truth.epochs)


def _told_epochs(tables: dict[str, Table], truth: Truth) -> Counter[Any]:
    """Counts the epochs that the history tells, without the generations before an upgrade and behind a downgrade. One
    in which a static member came back has a row for each revision."""
    first_epoch = min(row.epoch for row in truth.epochs)
    causes = {(row["to_generation"], 0): row["inferred_trigger"] for row in tables["rebalances"].values()}
    told = (row for row in tables["generations"].values() if row["group_type"] == GroupType.CONSUMER)
    rows = sorted(told, key=itemgetter("kafka_offset"))
    epochs = [[*each] for _, each in groupby(rows, itemgetter("generation"))]
    return Counter(
        (number, first["started_at"] // 1_000, _ms(last["ended_at"]), _cause(causes.get((number, first["revision"]))))
        for first, last, number in ((each[0], each[-1], each[0]["generation"]) for each in epochs)
        if number >= first_epoch
    )


def _ended_at_ms(truth: Truth) -> float:
    """Returns when the group was one of KIP-848 for the last time."""
    ends = [row.ended_at_ms for row in truth.epochs]
    return inf if None in ends else max(end for end in ends if end is not None)


def _true_members(truth: Truth) -> Counter[Any]:
    return _of_epochs(
        truth,
        (
            (row.member_id, row.group_instance_id, row.client_id, row.joined_at_ms, row.left_at_ms)
            for row in truth.members
        ),
    )


def _of_epochs(truth: Truth, members: Iterable[tuple[Any, ...]]) -> Counter[Any]:
    """Counts the members that joined while the group was one of KIP-848, which ends with those times. Of an operation
    that takes a member in and replaces it at once the truth has only what is behind it."""
    began_at_ms, ended_at_ms = min(row.started_at_ms for row in truth.epochs), _ended_at_ms(truth)
    return Counter(
        (*facts, joined_at_ms, None if left_at_ms is None or left_at_ms > ended_at_ms else left_at_ms)
        for *facts, joined_at_ms, left_at_ms in members
        if began_at_ms <= joined_at_ms < ended_at_ms and joined_at_ms != left_at_ms
    )


def _told_members(members: Table, truth: Truth) -> Counter[Any]:
    return _of_epochs(
        truth,
        (
            (
                *(row["member_id"], row["group_instance_id"], row["client_id"]),
                *(row["joined_at"] // 1_000, _ms(row["left_at"])),
            )
            for row in members.values()
        ),
    )


def _true_generations(truth: Truth) -> Counter[Any]:
    """Counts the generations behind a downgrade. The first one is the last epoch, whose revisions it has not."""
    ended_at_ms = _ended_at_ms(truth)
    return Counter(
        (row.incarnation, row.generation, row.kafka_offset, row.protocol, row.leader, len(row.member_ids))
        for row in truth.generations
        if row.started_at_ms >= ended_at_ms and row.kafka_offset is not None
    )


def _told_generations(generations: Table, truth: Truth) -> Counter[Any]:
    ended_at_ms = _ended_at_ms(truth)
    return Counter(
        (
            *(row["incarnation"], row["generation"], row["kafka_offset"]),
            *(row["protocol"], row["leader"], row["member_count"]),
        )
        for row in generations.values()
        if row["group_type"] == GroupType.CLASSIC and row["started_at"] // 1_000 >= ended_at_ms
    )


def _ms(instant_us: int | None) -> int | None:
    return None if instant_us is None else instant_us // 1_000
