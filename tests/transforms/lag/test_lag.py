"""A round that was computed in memory becomes rows of the table `lag`, with no group lost for another's numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from groupledger.transforms.lag.lag import LAG_ROWS, lag_row, lag_table
from tests.transforms.lag.rules.test_rollup import row

if TYPE_CHECKING:
    from groupledger.transforms.lag.rules import LagRow


def of_group(number: int, **fields: Any) -> list[LagRow]:
    lags = (0, 5, None)
    return [replace(row("t", each, lag), group_id=f"g-{number}", **fields) for each, lag in enumerate(lags)]


def test_columns_are_those_of_the_rows() -> None:
    rows = [
        each
        for number in range(2_500)  # more than a batch has
        for each in of_group(number, flags=("unowned",) * (number % 3), owner=f"member-{number}")
    ]
    held = lag_table(rows)
    instants = {"sampled_at", "no_progress_since", "committed_at", "commits_until"}
    found = [
        {
            name: value if name not in instants or value is None else round(value.timestamp() * 1e6)
            for name, value in one.items()
        }
        for one in held.to_pylist()
    ]
    assert held.column_names == LAG_ROWS.names
    assert found == [{**lag_row(each), "flags": list(each.flags)} for each in rows]


def test_a_group_that_arrow_cannot_hold() -> None:
    """Goal: neither a number beyond 64 bits nor a time whose microseconds are leaves out another group."""
    troubles: dict[str, str] = {}
    good, wide, late = of_group(0), of_group(1, raw_lag=1 << 63), of_group(2, commit_timestamp_ms=1 << 60)
    held = lag_table([*good, *wide, *late], lambda group_id, error: troubles.update({group_id: type(error).__name__}))
    assert held.column("group_id").to_pylist() == ["g-0"] * 3
    assert troubles.keys() == {"g-1", "g-2"}
