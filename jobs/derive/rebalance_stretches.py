"""Keeps the stretches of samples in which groups were in a rebalance, so that each sample is read only once.

A small file, `_groupledger/<cluster>/rebalance_stretches.json`, has the stretches that incidents need and those that go
on (`transforms.incidents.rebalance_stretches`), up to an instant until which both samples and generations are known. It
is written once it lacks an hour; later samples are read from `group_states`. If the file is newer than the table,
because the table was restored or made again, or if it was written with other settings, it is not used: all samples are
read again, as after a rebuild of the history.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from groupledger.jobs.ingest.samples import last_sampled_at_ms
from groupledger.jobs.warehouse.progress import KEPT_EVERY_MS, drop_progress, note_progress, read_progress
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.transforms.incidents.rebalance_stretches import COLUMNS, long_stretches, rebalance_stretches
from groupledger.transforms.lag.lag import sampled_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger

NAME = "rebalance_stretches"
_TYPES = {"group_id": StringType(), "state": StringType(), "is_over": BooleanType()}
SCHEMA = StructType([StructField(name, _TYPES.get(name, LongType())) for name in COLUMNS])


@dataclass(frozen=True)
class KeptStretches:
    """The stretches up to an instant, in the order of `COLUMNS`; of those that are over only the long ones."""

    until_ms: int = 0
    stuck_ms: int = 0
    stretches: list[tuple[Any, ...]] = field(default_factory=list)


def stuck_rebalances(ledger: Ledger, stuck_ms: int, history_ms: int | None) -> DataFrame:
    """Returns the stretches that are long enough to be stuck, and writes them if the file is an hour late. The history
    is known until `history_ms`."""
    last_ms = last_sampled_at_ms(ledger, GROUP_STATES)
    remedy = "move it out of the warehouse: all samples of groups are then read again"
    kept = read_progress(ledger, NAME, KeptStretches, remedy) or KeptStretches()
    if kept.stuck_ms != stuck_ms or kept.until_ms > last_ms:
        kept = KeptStretches()
    settled_ms = min(last_ms, history_ms or 0)
    if settled_ms - kept.until_ms >= KEPT_EVERY_MS:
        found = _stretches(ledger, kept, settled_ms)
        rows = found.where("NOT is_over").union(long_stretches(found.where("is_over"), stuck_ms))
        kept = KeptStretches(settled_ms, stuck_ms, sorted((tuple(row) for row in rows.collect()), key=str))
        note_progress(ledger, NAME, kept)
    return long_stretches(_stretches(ledger, kept, last_ms), stuck_ms)


def drop_stretches(ledger: Ledger) -> None:
    """Deletes what is kept, because the generations that end the stretches are found anew."""
    drop_progress(ledger, NAME)


def _stretches(ledger: Ledger, kept: KeptStretches, until_ms: int) -> DataFrame:
    begin, end = instant_of_ms(kept.until_ms), instant_of_ms(until_ms)

    def is_new(column: Callable[[str], Any]) -> Any:
        return (column("started_at") > begin) & (column("started_at") <= end)

    samples = ledger.rows_within(GROUP_STATES, sampled_within(kept.until_ms + 1, until_ms))
    known = ledger.spark.createDataFrame(kept.stretches, SCHEMA)
    return rebalance_stretches(known, samples, ledger.rows_within(GENERATIONS, is_new))
