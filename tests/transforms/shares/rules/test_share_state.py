"""Goal: the state of share partitions is the one that the share coordinator makes of the same records."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.transforms.privacy import Privacy
from groupledger.transforms.records.decode_share_state import share_state_row
from groupledger.transforms.shares.rules.share_state import (
    DeliveryBatch,
    SharePartition,
    combined,
    share_lag,
    share_states,
    state_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

DATA = Path(__file__).parent / "data"
NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)
TOPIC_ID = "oMX_gNuQSiiJz12S_wfpxg"
ZERO, ONE = (SharePartition("sg", TOPIC_ID, partition) for partition in (0, 1))


def broker_records() -> list[dict[str, Any]]:
    lines = (line.split() for line in (DATA / "broker_records.txt").read_text().splitlines() if line[0] != "#")
    return [
        row(int(offset), bytes.fromhex(key), None if value == "null" else bytes.fromhex(value))
        for offset, key, value in lines
    ]


def row(offset: int, key: bytes, value: bytes | None) -> dict[str, Any]:
    columns = ("decode_error", "state_epoch", "start_offset")
    where = {"kafka_partition": 0, "kafka_offset": offset, "kafka_timestamp": NOW}
    return dict.fromkeys(columns) | where | share_state_row(key, value, Privacy())


def kept_by(records: list[dict[str, Any]], count: int, start: int = 0) -> dict[SharePartition, dict[str, Any]]:
    states = share_states(records[start:count])
    return {key: state_columns(state) for key, state in states.items()}


def test_what_a_broker_wrote() -> None:
    """Goal: start offsets, counts and ranges are right after each stage of a share consumer's life."""
    records = broker_records()
    assert [record["kafka_offset"] for record in records] == list(range(20))
    first = kept_by(records, 2)
    assert first[ZERO]["start_offset"] is None
    assert share_lag(first[ZERO]["start_offset"], first[ZERO]["delivery_complete_count"], 7) is None
    answered = kept_by(records, 4)[ZERO]
    assert (answered["start_offset"], answered["delivery_complete_count"]) == (0, 5)
    assert answered["available"] == [
        {"first_offset": offset, "last_offset": offset, "delivery_count": 1} for offset in (1, 5)
    ]
    assert answered["archived"] == [{"first_offset": 3, "last_offset": 3, "delivery_count": 1}]
    assert (answered["available_count"], answered["delivery_count_max"]) == (2, 1)
    at_end = kept_by(records, 18)
    assert [(at_end[key]["start_offset"], at_end[key]["delivery_complete_count"]) for key in (ZERO, ONE)] == [
        (7, 3),
        (5, 1),
    ]
    assert at_end[ZERO]["archived"] == [{"first_offset": 7, "last_offset": 7, "delivery_count": 5}]
    assert share_lag(7, 3, 10) == share_lag(5, 1, 6) == 0
    assert kept_by(records, 20) == {}


def test_the_log_from_its_start_on_is_enough() -> None:
    """Goal: after the broker has pruned the topic up to offset 12, the remaining records give the same state."""
    records = broker_records()
    assert kept_by(records, 18, start=12) == kept_by(records, 18)


def test_batches_are_combined_as_kafka_combines_them() -> None:
    """Goal: in 1,000 random cases each offset has the state and the count that Kafka's own class gives it."""
    lines = (DATA / "combined.jsonl").read_text().splitlines()
    assert len(lines) == 1_000
    for line in lines:
        start_offset, so_far, new, expected = json.loads(line)
        found = combined([DeliveryBatch(*each) for each in so_far + new], start_offset)
        assert joined((each.first_offset, each.last_offset, *each.rank) for each in found) == joined(
            (first, last, count, state) for first, last, state, count in expected
        )
        assert len(found) == len(joined((each.first_offset, each.last_offset, *each.rank) for each in found))


def joined(batches: Iterable[tuple[int, int, int, int]]) -> list[list[int]]:
    """Neighbours that are alike as one: Kafka leaves some apart."""
    found: list[list[int]] = []
    for first, last, count, state in batches:
        if found and found[-1][1] + 1 == first and found[-1][2:] == [count, state]:
            found[-1][1] = last
        else:
            found.append([first, last, count, state])
    return found


def test_ranges_of_any_size_and_order() -> None:
    """Goal: ranges that no broker writes cost nothing: one as wide as the numbers go, or one that ends before it
    begins."""
    widest = DeliveryBatch(-(2**63), 2**63 - 1, 0, 1)
    backwards = DeliveryBatch(9, 3, 2, 7)
    assert combined([widest, backwards, DeliveryBatch(5, 5, 2, 2)], 0) == (
        DeliveryBatch(0, 4, 0, 1),
        DeliveryBatch(5, 5, 2, 2),
        DeliveryBatch(6, 2**63 - 1, 0, 1),
    )
    (state,) = share_states([broker_records()[0]]).values()
    reported = state_columns(replace(state, start_offset=-(2**63), delivery_complete_count=-9, batches=(widest,)))
    assert (reported["start_offset"], reported["delivery_complete_count"]) == (None, None)
    assert reported["available_count"] == 2**63 - 1


def test_a_group_that_cant_be_judged() -> None:
    """Goal: a record that no rule can hold costs its group all of its states, and no other group one of them."""
    records = broker_records()
    others = [{**record, "group_id": "other"} for record in records]
    records[5] = {**records[5], "state_batches": [{"first_offset": 1}]}
    reported: dict[str, Exception] = {}
    found = share_states([*records[:18], *others[:18]], reported.__setitem__)
    assert {key.group_id for key in found} == {"other"}
    assert found == share_states(others[:18])
    assert [*reported] == ["sg"]
    assert isinstance(reported["sg"], TypeError)


def test_an_update_without_a_snapshot_is_taken_for_one() -> None:
    """Goal: an update without a snapshot before it is taken for a snapshot, as by a broker; and a record that can't be
    decoded changes nothing."""
    records = broker_records()
    damaged = row(1, b"\x00\x00\x00", None)
    assert damaged["decode_error"] == "truncated"
    (state,) = share_states([damaged, records[5]]).values()
    assert (state.start_offset, state.delivery_complete_count, state.kafka_offset) == (1, 5, 5)


@pytest.mark.parametrize("known", [(None, 0, 5), (3, None, 5), (3, 0, None)])
def test_no_lag_without_all_three(known: tuple[int | None, int | None, int | None]) -> None:
    """Goal: null, never zero, where the broker reports no lag either."""
    assert share_lag(*known) is None
