"""Configures a Spark session to be small and quick, for a process that opens many warehouses of few rows, one after the
other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Few rows and many queries: to generate code for each, to plan it again after each of its stages, to check its plan
# after each rule, and to print it for a user interface takes longer than the query, more than a third of the time of a
# test run. One task reads the log of a small Delta table sooner than two.
OF_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.ui.explainMode": "simple",
}


def forget_tables(spark: SparkSession) -> None:
    """Clears the session's cache of Delta tables, because other tables may be at the same paths now."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
