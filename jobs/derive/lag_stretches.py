"""Stores the stretches of `lag` that incidents are made of, so that each round is read only once.

A small file, `_groupledger/<cluster>/lag_stretches.json`, has the stretches (`transforms.incidents.lag_stretches`) and
the time of the last round in them. It is written when it lacks an hour of rounds or more; later rounds are read from
`lag`. The file is not used if it is newer than the table, because the table was restored or made again, or if it was
written with other settings: then all rounds are read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from groupledger.jobs.ingest.samples import last_sampled_at_ms
from groupledger.jobs.warehouse.progress import KEPT_EVERY_MS, note_progress, read_progress
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.words import LagStatus
from groupledger.transforms.incidents.lag_stretches import COLUMNS, joined, lag_stretches, still_needed
from groupledger.transforms.incidents.rules.waiting import AHEAD_MS
from groupledger.transforms.lag.lag import sampled_within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger

NAME = "lag_stretches"
_TYPES = {"group_id": StringType(), "topic": StringType(), "status": StringType(), "partition": IntegerType()}
SCHEMA = StructType([StructField(name, _TYPES.get(name, LongType())) for name in COLUMNS])


@dataclass(frozen=True)
class StoredStretches:
    """The stretches up to the round at `until_ms`, each in the order of `COLUMNS`. Stretches that wait for a
    transaction are stored only if they may take `gap_ms` or longer."""

    until_ms: int = 0
    gap_ms: int = 0
    stretches: list[tuple[Any, ...]] = field(default_factory=list)


def stretches_of_lag(ledger: Ledger, gap_ms: int) -> DataFrame:
    """Returns the stretches of all rounds whose lag is computed. Writes them if the file lacks an hour of rounds or
    more."""
    last_ms = last_sampled_at_ms(ledger, LAG)
    kept = (
        read_progress(ledger, NAME, StoredStretches, "move it out of the warehouse: all rounds are then read again")
        or StoredStretches()
    )
    if kept.gap_ms != gap_ms or kept.until_ms > last_ms:
        kept = StoredStretches()
    new = ledger.rows_within(LAG, sampled_within(kept.until_ms + 1, last_ms))
    before = ledger.spark.createDataFrame(kept.stretches, SCHEMA)
    found = still_needed(joined(before.unionByName(lag_stretches(new))), last_ms, shortest_ms(gap_ms))
    if last_ms - kept.until_ms < KEPT_EVERY_MS:
        return found
    stretches = sorted(found.collect(), key=str)
    note_progress(ledger, NAME, StoredStretches(last_ms, gap_ms, [tuple(row) for row in stretches]))
    return ledger.spark.createDataFrame(stretches, SCHEMA)


def shortest_ms(gap_ms: int) -> dict[str, int]:
    """Returns how long a stretch has to be for an incident, by its status."""
    return {LagStatus.WAITING_FOR_TRANSACTION: gap_ms, LagStatus.AHEAD_OF_LOG: AHEAD_MS}
