"""Folds the records of `__share_group_state` into the state of each share partition, as the share coordinator does.

    snapshot    replaces the whole state
    update      changes a part: the start offset (-1 leaves it), batches (see `combined`), and the count of completed
                deliveries, which replaces the former count; an update without a snapshot before it counts as a snapshot
    tombstone   removes the share partition

A broker that loads a partition of the topic begins at the log's start, so the records from there on are enough
(`ShareCoordinatorShard.java`, `PersisterStateBatchCombiner.java`). Records that can't be decoded are passed over.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.schemas.instants import saturated_int64
from groupledger.schemas.kafka.share_states import ACKNOWLEDGED, ARCHIVED, AVAILABLE, NO_OFFSET
from groupledger.schemas.wire.share_state import SHARE_SNAPSHOT
from groupledger.transforms.troubles import RULE_ERRORS, stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from groupledger.transforms.troubles import Report


class SharePartition(NamedTuple):
    """A share group on a partition of a topic."""

    group_id: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class DeliveryBatch:
    """A range of offsets, both ends included, in one state of delivery."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

    @property
    def rank(self) -> tuple[int, int]:
        """Returns the value by which two batches at the same offset are ordered: the batch with the greater one
        counts."""
        return self.delivery_count, self.delivery_state


@dataclass(frozen=True, slots=True)
class ShareState:
    """Holds the state of a share partition, with time and position of the newest record that changed it."""

    start_offset: int
    delivery_complete_count: int
    batches: tuple[DeliveryBatch, ...]
    state_epoch: int
    leader_epoch: int
    written_at: datetime
    kafka_partition: int
    kafka_offset: int

    def of_state(self, delivery_state: int) -> list[DeliveryBatch]:
        return [batch for batch in self.batches if batch.delivery_state == delivery_state]


def share_states(records: Iterable[Mapping[str, Any]], report: Report = stop) -> dict[SharePartition, ShareState]:
    """Returns the state of each share partition after `records`, which are rows of `share_state_records` in the order
    of each partition's log. A group on which a record fails is reported and has no states at all, since a part of them
    would be misleading."""
    states: dict[SharePartition, ShareState] = {}
    failed: set[str] = set()
    for record in records:
        if record["decode_error"] is not None or record["group_id"] in failed:
            continue
        try:
            _absorb(states, record)
        except RULE_ERRORS as error:
            failed.add(record["group_id"])
            report(record["group_id"], error)
    return {key: state for key, state in states.items() if key.group_id not in failed}


def _absorb(states: dict[SharePartition, ShareState], record: Mapping[str, Any]) -> None:
    key = SharePartition(record["group_id"], record["topic_id"], record["partition"])
    if record["is_tombstone"]:
        states.pop(key, None)
    elif record["record_type"] == SHARE_SNAPSHOT.record_type or key not in states:
        states[key] = _taken_for_all(record)
    else:
        states[key] = _updated(states[key], record)


def _taken_for_all(record: Mapping[str, Any]) -> ShareState:
    return ShareState(
        start_offset=record["start_offset"],
        delivery_complete_count=record["delivery_complete_count"],
        batches=_batches(record),
        state_epoch=record["state_epoch"] or 0,
        leader_epoch=record["leader_epoch"],
        written_at=record["kafka_timestamp"],
        kafka_partition=record["kafka_partition"],
        kafka_offset=record["kafka_offset"],
    )


def _updated(state: ShareState, record: Mapping[str, Any]) -> ShareState:
    start_offset = state.start_offset if record["start_offset"] == NO_OFFSET else record["start_offset"]
    return replace(
        state,
        start_offset=start_offset,
        delivery_complete_count=record["delivery_complete_count"],
        batches=combined((*state.batches, *_batches(record)), start_offset),
        leader_epoch=state.leader_epoch if record["leader_epoch"] == NO_OFFSET else record["leader_epoch"],
        written_at=record["kafka_timestamp"],
        kafka_offset=record["kafka_offset"],
    )


def _batches(record: Mapping[str, Any]) -> tuple[DeliveryBatch, ...]:
    return tuple(DeliveryBatch(**batch) for batch in record["state_batches"])


def combined(batches: Iterable[DeliveryBatch], start_offset: int) -> tuple[DeliveryBatch, ...]:
    """Returns batches without overlap, in order and from `start_offset` on. If two batches have the same offset, the
    one with more deliveries counts there, or else the one in the greater state. Neighbours that are alike become one
    batch."""
    waiting = sorted(
        (
            batch if batch.first_offset >= start_offset else replace(batch, first_offset=start_offset)
            for batch in batches
            if batch.last_offset >= max(start_offset, batch.first_offset)
        ),
        key=lambda batch: batch.first_offset,
        reverse=True,
    )
    cuts = {cut for batch in waiting for cut in (batch.first_offset, batch.last_offset + 1)}
    found: list[DeliveryBatch] = []
    open_batches: list[tuple[int, int, int]] = []  # the greatest rank first, and the last offset
    for begin, end in pairwise(sorted(cuts)):
        while waiting and waiting[-1].first_offset == begin:
            batch = waiting.pop()
            count, state = batch.rank
            heapq.heappush(open_batches, (-count, -state, batch.last_offset))
        while open_batches and open_batches[0][2] < begin:
            heapq.heappop(open_batches)
        if open_batches:
            _extend(found, DeliveryBatch(begin, end - 1, -open_batches[0][1], -open_batches[0][0]))
    return tuple(found)


def _extend(found: list[DeliveryBatch], piece: DeliveryBatch) -> None:
    if found and found[-1].last_offset + 1 == piece.first_offset and found[-1].rank == piece.rank:
        found[-1] = replace(found[-1], last_offset=piece.last_offset)
    else:
        found.append(piece)


def share_lag(start_offset: int | None, delivery_complete_count: int | None, high_watermark: int | None) -> int | None:
    """Returns the lag as Kafka 4.2 computes it (`GroupCoordinatorService.java`), limited to 64 bits; None if an input
    is None, since Kafka then computes no lag."""
    if start_offset is None or delivery_complete_count is None or high_watermark is None:
        return None
    return saturated_int64(high_watermark - start_offset - delivery_complete_count)


def state_columns(state: ShareState) -> dict[str, Any]:
    """Returns the columns of `share_partitions` that come from the state."""
    available = state.of_state(AVAILABLE)
    return {
        "start_offset": _counted(state.start_offset),
        "delivery_complete_count": _counted(state.delivery_complete_count),
        "acknowledged": _ranges(state.of_state(ACKNOWLEDGED)),
        "archived": _ranges(state.of_state(ARCHIVED)),
        "available": _ranges(available),
        "available_count": saturated_int64(sum(max(each.last_offset - each.first_offset + 1, 0) for each in available)),
        "delivery_count_max": max((batch.delivery_count for batch in available), default=0),
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "written_at": state.written_at,
        "kafka_partition": state.kafka_partition,
        "kafka_offset": state.kafka_offset,
    }


def _counted(number: int) -> int | None:
    """Returns a number that counts from 0; None for a negative one."""
    return None if number < 0 else number


def _ranges(batches: Iterable[DeliveryBatch]) -> list[dict[str, int]]:
    return [
        {"first_offset": each.first_offset, "last_offset": each.last_offset, "delivery_count": each.delivery_count}
        for each in batches
    ]
