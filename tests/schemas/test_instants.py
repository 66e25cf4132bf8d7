"""Numbers and times that clients give end in a bound or in nothing, and never in an error."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from groupledger.schemas.instants import (
    INT32_MAX,
    INT32_MIN,
    LATEST_MS,
    bounded_ms,
    instant_of_ms,
    known_ms,
    saturated_int32,
    saturated_int64,
)
from groupledger.transforms.history.rules.events import group_record
from groupledger.transforms.records.decode import FIRST_US, LAST_US, held
from lab.scenarios.extremes import EXTREMES, record_cases


@pytest.mark.parametrize("number", EXTREMES.values(), ids=EXTREMES)
def test_every_extreme_time_becomes_an_instant_or_nothing(number: int) -> None:
    instant_of_ms(bounded_ms(number))
    assert known_ms(number) == (number if 0 <= number <= LATEST_MS else None)
    assert INT32_MIN <= saturated_int32(number) <= INT32_MAX
    assert saturated_int64(2 * number) in range(-(2**63), 2**63)


@pytest.mark.parametrize("number", EXTREMES.values(), ids=EXTREMES)
def test_an_absurd_time_of_a_state_is_unknown(number: int) -> None:
    fields = {"current_state_timestamp_ms": number, "generation": 1, "protocol_type": "consumer", "protocol": "range"}
    record = group_record(7, 1_767_571_200_000, json.dumps(fields | {"leader": "m", "members": []}))
    assert record.current_state_timestamp_ms == known_ms(number)


def test_timestamps_that_no_year_holds_are_the_nearest_that_one_does() -> None:
    values = pa.array([-(2**63), -1_000, None, 5, 2**63 - 1], pa.timestamp("us", tz="UTC"))
    assert held(values).cast(pa.int64()).to_pylist() == [FIRST_US, -1_000, None, 5, LAST_US]
    assert len(held(values).to_pylist()) == len(values)


def test_every_type_and_version_with_numbers_has_cases() -> None:
    cases = list(record_cases())
    assert len({(case.record_type, case.version, case.path) for case in cases}) == 109
    assert len({case.group_id for case in cases}) == len(cases)
