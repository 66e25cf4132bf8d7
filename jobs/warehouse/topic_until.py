"""Determines until when the topic and the tables derived from it are known, for a ledger that is open to write."""

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
    """Returns until when the topic is known now, in milliseconds; None before it was read to its end."""
    ends = ledger.arrow(COVERAGE, columns=("to_time",))["to_time"] if ledger.exists(COVERAGE) else ()
    return ms_if_known(pc.max(ends).as_py()) if len(ends) else None


def known_until_ms(ledger: Ledger) -> dict[str, int]:
    """Returns until when the topic and the tables derived from it are known, in milliseconds by source; missing sources
    are left out."""
    steps = {step: noted_until(ledger.storage, ledger.cluster, step) for step in (Source.HISTORY, Source.INCIDENTS)}
    found = {Source.TOPIC: topic_until_ms(ledger), **{step: ms_if_known(at) for step, at in steps.items()}}
    return {source: ms for source, ms in found.items() if ms is not None}
