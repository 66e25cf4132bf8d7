"""Parses `coordinator_records.record_json` into a struct, one record type at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.schemas.tables.coordinator_records import RECORD_STRUCTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def record_structs(coordinator_records: DataFrame, record_type: str) -> DataFrame:
    """Returns the rows of one type, with a struct column named after the type in place of the JSON."""
    # FAILFAST: the text is our own, and a field that does not fit its type must not turn into a silent null.
    struct = F.from_json("record_json", RECORD_STRUCTS[record_type], {"mode": "FAILFAST"})
    rows = coordinator_records.where(F.col("record_type") == F.lit(record_type))
    return rows.withColumn(record_type, struct).drop("record_json")
