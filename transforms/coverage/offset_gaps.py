"""Finds the offsets of a partition that have no row. `rules.evidence` judges whether records are missing there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from groupledger.transforms.coverage.rules.evidence import Gap

Offsets = np.ndarray[Any, np.dtype[np.int64]]


class Gaps(Sequence[Gap]):
    """Holds the gaps of a partition. A gap is made when it is accessed, because an old topic has millions of them, and
    usually only the last few are needed."""

    def __init__(self, begins: Offsets, ends: Offsets) -> None:
        self._begins = begins
        self._ends = ends

    def __len__(self) -> int:
        return len(self._begins)

    @overload
    def __getitem__(self, at: int) -> Gap: ...
    @overload
    def __getitem__(self, at: slice) -> Gaps: ...
    def __getitem__(self, at: int | slice) -> Gap | Gaps:
        if isinstance(at, slice):
            return Gaps(self._begins[at], self._ends[at])
        return Gap(int(self._begins[at]), int(self._ends[at]))


def gaps(offsets: Offsets, begin: int, end: int) -> Gaps:
    """Returns the gaps: ranges of [begin, end) without a row, in order. `offsets` are those of the rows, in any
    order."""
    known = np.concatenate([[begin - 1], np.sort(offsets[(offsets >= begin) & (offsets < end)]), [end]])
    (before,) = np.nonzero(np.diff(known) > 1)
    return Gaps(known[before] + 1, known[before + 1])
