"""Makes the archive of loaded classes with which `jobs.process.session` starts Spark faster.

    python -m groupledger.jobs.process.class_archive .jars/spark-classes.jsa

A Spark session does on a small scale what the jobs do: it creates, appends to, merges, streams and reads Delta tables,
and sends batches to Python's workers. Its JVM writes the archive when it ends, which is after this program has ended: a
caller that needs the archive has to wait for the end of the JVM's output.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from groupledger.jobs.process.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def main(target: Path, directory: Path) -> None:
    target.unlink(missing_ok=True)  # a JVM that uses one can't write another
    spark = spark_session("groupledger class archive", java_options=f"-XX:ArchiveClassesAtExit={target} -Xlog:cds*=off")
    source, table, checkpoint = (str(directory / name) for name in ("source", "table", "checkpoint"))
    rows(spark).write.format("delta").partitionBy("bucket").save(source)
    stream = spark.readStream.format("delta").load(source).writeStream
    stream = stream.foreachBatch(lambda batch, _: upsert(batch, table)).option("checkpointLocation", checkpoint)
    stream.trigger(availableNow=True).start().awaitTermination()
    found = spark.read.format("delta").load(table)
    totals = found.groupBy("bucket").agg(F.count("*").alias("count"), F.max("at").alias("at")).orderBy("bucket")
    found.join(totals, ["bucket", "at"]).collect()
    spark.stop()


def rows(spark: SparkSession) -> DataFrame:
    """Returns rows with number, bucket, at and names, made by Python's workers."""
    numbers = spark.range(1_000).selectExpr("id as number", "id % 7 as bucket", "timestamp_micros(id) as at")
    return numbers.mapInArrow(unchanged, numbers.schema).withColumn("names", F.array(F.struct("bucket")))


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def upsert(rows: DataFrame, table: str) -> None:
    rows.where("number >= 500").write.format("delta").partitionBy("bucket").mode("append").save(table)
    into = DeltaTable.forPath(rows.sparkSession, table).alias("old")
    merge = into.merge(rows.alias("new"), "old.number = new.number and old.bucket = new.bucket")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1]).resolve(), Path(scratch))
