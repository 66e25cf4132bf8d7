"""Selects the samples of `watermarks` that reveal a transaction that does not end (`rules.patterns`).

    open_transactions(watermarks)       the samples of `__consumer_offsets` in which a transaction was open
    still_needed(samples, stalled_ms)        the samples that incidents need now, or may need later

While a transaction is open in a partition, its last stable offset stands still. The samples with the same last stable
offset are a run. A run that was too short for an incident is dropped, unless it is the newest of its partition. From
any other run the last sample stays, and as many of the first samples as an incident names as proofs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.incidents.rules.incidents import PROOFS_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("sampled_at_ms", "partition", "high_watermark", "last_stable_offset")


def open_transactions(watermarks: DataFrame) -> DataFrame:
    is_waiting = F.col("last_stable_offset") < F.col("high_watermark")
    rows = watermarks.where((F.col("topic") == OFFSETS_TOPIC) & is_waiting)
    return rows.withColumn("sampled_at_ms", F.unix_millis("sampled_at")).select(*COLUMNS)


def still_needed(samples: DataFrame, stalled_ms: int) -> DataFrame:
    run = Window.partitionBy("partition", "last_stable_offset")
    in_order = run.orderBy("sampled_at_ms")
    last_ms = F.max("sampled_at_ms").over(run)
    marked = samples.select(
        "*",
        F.row_number().over(in_order).alias("number"),
        (F.col("sampled_at_ms") == last_ms).alias("is_last"),
        (last_ms - F.min("sampled_at_ms").over(run) >= stalled_ms).alias("is_long"),
        (F.col("last_stable_offset") == F.max("last_stable_offset").over(Window.partitionBy("partition"))).alias(
            "is_newest"
        ),
    )
    is_proof = F.col("is_last") | (F.col("number") <= PROOFS_MAX)
    return marked.where((F.col("is_long") | F.col("is_newest")) & is_proof).select(*COLUMNS)
