"""Goal: a table is plain text behind a pipe, and fits a terminal without folding names."""

from __future__ import annotations

import pytest

from groupledger.jobs.process.terminal import fitting, print_table

COLUMNS = ["group", "lag sum", "worst topic"]
ROWS = [["pay" * 60, 1_234, "a b"], ["x\x1b[2J", 5, None]]


def test_behind_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: one line for each row whatever its length, no frame, plain numbers; the title stays out of the way."""
    print_table("Lag", COLUMNS, ROWS, ["lag sum"])
    out, err = capsys.readouterr()
    name = "pay" * 60
    assert out.splitlines() == [
        f"{'GROUP':180}  LAG-SUM  WORST-TOPIC",
        f"{name}     1234  a b",
        f"{'x' + chr(92) + 'x1b[2J':180}        5  -",
    ]
    assert err == "Lag\n"


@pytest.mark.parametrize(
    ("width", "shown"), [(50, [0, 1, 2]), (36, [0, 1, 2]), (35, [0, 2]), (26, [0, 2]), (25, [0]), (1, [0])]
)
def test_columns_that_fit(width: int, shown: list[int]) -> None:
    """Goal: columns are left out in the order that is given, as few as need be."""
    rows = [["0123456", "7 chars", "wide 世界 it"], ["a", "b", "c"]]
    assert fitting(["name", "b", "c"], rows, ["b", "c"], width) == shown
