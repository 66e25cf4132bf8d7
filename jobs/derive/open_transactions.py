"""Stores the samples that show open transactions in `__consumer_offsets`, so that each sample is read only once.

A small file, `_groupledger/<cluster>/open_transactions.json`, has the samples that incidents need
(`transforms.incidents.open_transactions`), and the time of the last round among them. It is written when it lacks an
hour of rounds or more; later rounds are read from `watermarks`. The file is not used if it is newer than the table,
because the table was restored, or if it was written with other settings: then all samples are read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from groupledger.jobs.ingest.samples import last_sampled_at_ms
from groupledger.jobs.warehouse.progress import KEPT_EVERY_MS, note_progress, read_progress
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.incidents.open_transactions import COLUMNS, open_transactions, still_needed
from groupledger.transforms.lag.lag import sampled_within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger

NAME = "open_transactions"
SCHEMA = StructType([StructField(name, IntegerType() if name == "partition" else LongType()) for name in COLUMNS])


@dataclass(frozen=True)
class StoredSamples:
    """The samples up to the round at `until_ms`, each in the order of `COLUMNS`. They were selected for transactions
    that are open for `stalled_ms` or longer."""

    until_ms: int = 0
    stalled_ms: int = 0
    samples: list[tuple[int, ...]] = field(default_factory=list)


def sampled_transactions(ledger: Ledger, stalled_ms: int) -> DataFrame:
    """Returns the samples of transactions that are open for `stalled_ms` or longer, or may become so. Writes them if
    the file lacks an hour of rounds or more."""
    last_ms = last_sampled_at_ms(ledger, WATERMARKS)
    kept = (
        read_progress(ledger, NAME, StoredSamples, "move it out of the warehouse: all samples are then read again")
        or StoredSamples()
    )
    if kept.stalled_ms != stalled_ms or kept.until_ms > last_ms:
        kept = StoredSamples()
    new = ledger.rows_within(WATERMARKS, sampled_within(kept.until_ms + 1, last_ms))
    before = ledger.spark.createDataFrame(kept.samples, SCHEMA)
    found = still_needed(before.union(open_transactions(new)), stalled_ms)
    if last_ms - kept.until_ms < KEPT_EVERY_MS:
        return found
    samples = sorted(tuple(row) for row in found.collect())
    note_progress(ledger, NAME, StoredSamples(last_ms, stalled_ms, samples))
    return ledger.spark.createDataFrame(samples, SCHEMA)
