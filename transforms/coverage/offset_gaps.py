"""Finds the offsets of a partition that have no row (`rules.evidence` judges what they may hide)."""

from __future__ import annotations

from typing import Any

import numpy as np

from groupledger.transforms.coverage.rules.evidence import Gap

Offsets = np.ndarray[Any, np.dtype[np.int64]]


def gaps(offsets: Offsets, begin: int, end: int) -> list[Gap]:
    """Returns the stretches of [begin, end) without a row, in order. `offsets` are those of the rows, in any order."""
    known = np.concatenate([[begin - 1], np.sort(offsets[(offsets >= begin) & (offsets < end)]), [end]])
    (before,) = np.nonzero(np.diff(known) > 1)
    return [Gap(int(known[at]) + 1, int(known[at + 1])) for at in before]
