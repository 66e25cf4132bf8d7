"""Determines until when `__consumer_offsets` and the tables derived from it are known, for a ledger that is open to
write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from groupledger.jobs.warehouse.known_until import noted_until
from groupledger.schemas.instants import ms_if_known
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.ledger import Ledger


def topic_until_ms(ledger: Ledger) -> int | None:
    """Returns the latest instant up to which `coverage` knows a partition of `__consumer_offsets`, in milliseconds
    since the epoch. Returns None if no partition was read to its end yet."""
    ends = ledger.arrow(COVERAGE, columns=("to_time",))["to_time"] if ledger.exists(COVERAGE) else ()
    return ms_if_known(pc.max(ends).as_py()) if len(ends) else None


def known_until_ms(ledger: Ledger) -> dict[str, int]:
    """Returns, by source, until when the topic `__consumer_offsets`, the history and the incidents are known, in
    milliseconds since the epoch. A source for which this is unknown is left out."""
    steps = {step: noted_until(ledger.storage, ledger.cluster, step) for step in (Source.HISTORY, Source.INCIDENTS)}
    found = {Source.TOPIC: topic_until_ms(ledger), **{step: ms_if_known(at) for step, at in steps.items()}}
    return {source: ms for source, ms in found.items() if ms is not None}
