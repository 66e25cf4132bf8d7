"""Updates `coverage` after an ingest. It can be repeated, so if a run was killed before, the next run makes up for
it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.transforms.coverage.rules.stretches import stretches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.source import LedgerSource


def write_coverage(
    ledger: Ledger, source: LedgerSource, positions: Mapping[int, int], known_until_ms: int | None
) -> None:
    """Writes the stretches up to `positions`, the next offsets to read. A stretch in the table may grow, and never
    shrinks."""
    rows = [
        (
            ledger.cluster,
            partition,
            stretch.from_offset,
            stretch.to_offset,
            instant(stretch.from_time_ms),
            instant(stretch.to_time_ms),
            stretch.completeness,
        )
        for partition, readings in sorted(source.readings.items())
        for stretch in stretches(readings, positions.get(partition, readings[-1].from_offset), known_until_ms)
    ]
    if not rows:
        return
    new = ledger.spark.createDataFrame(rows, COVERAGE.schema).coalesce(1)
    same_key = [F.col(f"old.{name}") == F.col(f"new.{name}") for name in COVERAGE.key]
    merge = ledger.delta(COVERAGE).alias("old").merge(new.alias("new"), same_key[0] & same_key[1] & same_key[2])
    grown: dict[str, str | Column] = {
        "to_offset": F.greatest("old.to_offset", "new.to_offset"),
        "to_time": F.greatest("old.to_time", "new.to_time"),
    }
    has_grown = (F.col("new.to_offset") > F.col("old.to_offset")) | (
        F.coalesce(F.col("new.to_time") > F.col("old.to_time"), F.col("old.to_time").isNull())
    )
    merge.whenMatchedUpdate(has_grown, grown).whenNotMatchedInsertAll().execute()


def instant(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
