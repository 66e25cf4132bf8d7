"""Compares the history of the simulator's KIP-848 groups, share groups and streams groups with its truth.

The history is folded from the records alone, as a pipeline folds them. The truth is the coordinator's state
(`coordinator.simulator.modern_recorder`). The holders are compared after every operation of the coordinator: the owners
of partitions (in a streams group those whose active tasks read them), the members that share a partition, and tasks by
role. Epochs, members and causes are compared row by row.

The records do not say why a member left, so all causes of a departure count as equal to `DEPARTURE`. If a group was a
classic one before, owners are compared for the whole time, but epochs and members only since its upgrade. If it becomes
a classic one again, its generations are compared by their records from then on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from groupledger.coordinator.simulator.modern_recorder import PREFIXES
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import WITH_EPOCHS
from groupledger.coordinator.simulator.scenarios.modern import MODERN
from groupledger.coordinator.simulator.scenarios.share import SHARED
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.schemas.kinds import triggers
from groupledger.schemas.words import GroupType
from groupledger.transforms.records.decoded_record import record_fields
from lab.truth.consumer_claims import held_at, owners_at
from lab.truth.consumer_groups import CLASSIC, History, event_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.coordinator.simulator.truth import Holding, TaskHolding, Truth
    from lab.truth.consumer_claims import Keyed
    from lab.truth.consumer_groups import Table

    Interval = TypeVar("Interval", Holding, TaskHolding)

HOUR_MS = 3_600_000
PLAYED = {scenario.name: scenario for scenario in WITH_EPOCHS}
DEPARTED = frozenset({triggers.LEFT.name, triggers.SESSION_EXPIRED.name, triggers.REBALANCE_TIMEOUT.name})
DEPARTURE = "departed"


def compare(name: str, seed: int) -> dict[str, tuple[int, list[str]]]:
    """Plays a scenario to its end. Returns, for each comparison, how many items were compared, and the differences
    between history and truth."""
    scenario = PLAYED[name]
    played = play(name, seed)
    history = History(played.group_id)
    history.fold(event for *_, event in played.log)
    truth, looks = played.truth, played.looks
    epochs, members, generations = _true_epochs(truth), _true_members(truth), _true_generations(truth)
    compared = {}
    if scenario not in SHARED:
        other_owners = [*_other_owners(history.tables["assignments"], truth, looks)]
        compared["owners after an operation"] = len(looks), other_owners
    if scenario not in MODERN:
        compared["holdings after an operation"] = _compare_holdings(history.tables, truth, looks)
    compared |= {
        "epochs and causes": (epochs.total(), _difference(epochs, _compared_epochs(history.tables, truth))),
        "members": (members.total(), _difference(members, _compared_members(history.tables["members"], truth))),
        "generations after a downgrade": (
            generations.total(),
            _difference(generations, _compared_generations(history.tables["generations"], truth)),
        ),
    }
    return {what: found for what, found in compared.items() if any(found)}


@dataclass(frozen=True, slots=True)
class Played:
    """A group that has played its scenario. `log` has all its records but offset commits, `looks` the offsets after
    each operation of the coordinator, and `truth` what really happened."""

    group_id: str
    log: list[Keyed]
    looks: list[int]
    truth: Truth


def play(name: str, seed: int) -> Played:
    scenario = PLAYED[name]
    simulation = prepare(scenario, seed, 1)
    simulation.run(BEGAN_AT_MS + round(scenario.hours * HOUR_MS))
    (group_id,) = simulation.group_ids
    names = {topic.topic_id: topic.name for topic in simulation.topics.by_name.values()}
    log: list[Keyed] = []
    looks = []
    for batch in simulation.take(is_last=True).batches:
        for offset, record in enumerate(batch.records, batch.base_offset):
            is_about_members = record.record_type == CLASSIC or record.record_type.startswith(PREFIXES)
            if record.key["group_id"] == group_id and is_about_members:
                place = offset, batch.timestamp_ms
                is_tombstone = record.value is None
                event = event_of(place, record.record_type, record_fields(record), names, is_tombstone=is_tombstone)
                log.append(((record.record_type, *record.key.values()), is_tombstone, event))
                looks.append(batch.base_offset + len(batch.records))
    return Played(group_id, log, sorted(set(looks)), simulation.recorder.truth)


def _other_owners(assignments: Table, truth: Truth, looks: list[int]) -> Iterator[str]:
    for look in looks:
        true: dict[tuple[str, int], tuple[str, ...]] = {}
        for owner in truth.owners:
            if owner.from_kafka_offset < look and (owner.to_kafka_offset is None or look <= owner.to_kafka_offset):
                true[owner.topic, owner.partition] = (owner.member_id,)
        for held in _open_after(truth.holdings, look):
            true[held.topic, held.partition] = (held.member_id,)
        of_history = owners_at(assignments, look)
        if of_history != true:
            wrong, missing = sorted(of_history.items() - true.items()), sorted(true.items() - of_history.items())
            yield f"owners after {look}: {wrong}, not {missing}"


def _compare_holdings(tables: dict[str, Table], truth: Truth, looks: list[int]) -> tuple[int, list[str]]:
    """Returns how many holdings the truth has after all operations, and where the history has other holders of a shared
    partition or a task."""
    count, differences = 0, []
    for look in looks:
        true: set[tuple[Any, ...]]
        if truth.tasks:
            tasks = _open_after(truth.tasks, look)
            true = {(each.member_id, None, each.subtopology, each.partition, each.role) for each in tasks}
        else:
            shared = _open_after(truth.holdings, look)
            true = {(each.member_id, each.topic, None, each.partition, None) for each in shared}
        of_history = held_at(tables, look)
        count += len(true)
        if of_history != true:
            wrong, missing = sorted(of_history - true, key=str), sorted(true - of_history, key=str)
            differences.append(f"holdings after {look}: {wrong}, not {missing}")
    return count, differences


def _open_after(rows: Iterable[Interval], look: int) -> Iterator[Interval]:
    for row in rows:
        if row.from_kafka_offset <= look and (row.to_kafka_offset is None or look < row.to_kafka_offset):
            yield row


def _difference(true: Counter[Any], of_history: Counter[Any]) -> list[str]:
    return [
        *(f"missing {each}" for each in (true - of_history).elements()),
        *(f"too many {each}" for each in (of_history - true).elements()),
    ]


def _cause(trigger: str | None) -> str | None:
    return DEPARTURE if trigger in DEPARTED else trigger


def _true_epochs(truth: Truth) -> Counter[Any]:
    return Counter((row.epoch, row.started_at_ms, row.ended_at_ms, _cause(row.trigger)) for row in truth.epochs)


def _compared_epochs(tables: dict[str, Table], truth: Truth) -> Counter[Any]:
    """Counts the epochs in the history, without the generations before an upgrade and after a downgrade. An epoch in
    which a static member came back has a row for each revision."""
    first_epoch = min(row.epoch for row in truth.epochs)
    number_of, of_rebalance = itemgetter("incarnation", "generation"), itemgetter("incarnation", "to_generation")
    causes = {(*of_rebalance(row), 0): row["inferred_trigger"] for row in tables["rebalances"].values()}
    of_history = (row for row in tables["generations"].values() if row["group_type"] != GroupType.CLASSIC)
    epochs = [[*each] for _, each in groupby(sorted(of_history, key=itemgetter("kafka_offset")), number_of)]
    return Counter(
        (
            *(first["generation"], first["started_at"] // 1_000, _ms(last["ended_at"])),
            _cause(causes.get((*number_of(first), first["revision"]))),
        )
        for first, last in ((each[0], each[-1]) for each in epochs)
        if first["generation"] >= first_epoch
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
    """Counts the members that joined while the group was a KIP-848 group, which ends with those times. If an operation
    adds a member and replaces it at once, the truth only has the result."""
    began_at_ms, ended_at_ms = min(row.started_at_ms for row in truth.epochs), _ended_at_ms(truth)
    return Counter(
        (*facts, joined_at_ms, None if left_at_ms is None or left_at_ms > ended_at_ms else left_at_ms)
        for *facts, joined_at_ms, left_at_ms in members
        if began_at_ms <= joined_at_ms < ended_at_ms and joined_at_ms != left_at_ms
    )


def _compared_members(members: Table, truth: Truth) -> Counter[Any]:
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
    """Counts the generations after a downgrade. The first one is the last epoch, without its revisions."""
    ended_at_ms = _ended_at_ms(truth)
    return Counter(
        (row.incarnation, row.generation, row.kafka_offset, row.protocol, row.leader, len(row.member_ids))
        for row in truth.generations
        if row.started_at_ms >= ended_at_ms and row.kafka_offset is not None
    )


def _compared_generations(generations: Table, truth: Truth) -> Counter[Any]:
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
