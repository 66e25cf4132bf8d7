"""Makes ledgers and captures for the tests of the jobs."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from groupledger.jobs.ingest.capture import Manifest, write_manifest
from groupledger.jobs.ingest.ingest_capture import ingest_capture
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.delta_log import dataset
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.ledger import Ledger
from groupledger.jobs.warehouse.source import TopicIdentity
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.ingest.stream import Totals
    from groupledger.schemas.tables.table import Table
    from lab.warehouses.rows import Row

IDENTITY = TopicIdentity("cluster-1", "4L6g3nShT-eMCtK--X86sw", 2)
WRITTEN_SINCE_MS = 1_760_000_000_000
CAPTURED_AT_MS = WRITTEN_SINCE_MS + 100_000
Position = tuple[int, int]


def write_capture(
    directory: Path,
    rows: Mapping[Position, Row],
    name: str = "part-0",
    topic: str = OFFSETS_TOPIC,
    *,
    since_ms: int = WRITTEN_SINCE_MS,
) -> None:
    """Writes one Parquet file with the columns of Spark's Kafka source. `rows` has keys and values by (partition,
    offset). The time of a row is `since_ms` plus its offset in milliseconds."""
    directory.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "key": pa.array([key for key, _ in rows.values()], pa.binary()),
            "value": pa.array([value for _, value in rows.values()], pa.binary()),
            "topic": pa.array([topic] * len(rows), pa.string()),
            "partition": pa.array([partition for partition, _ in rows], pa.int32()),
            "offset": pa.array([offset for _, offset in rows], pa.int64()),
            "timestamp": pa.array([since_ms + offset for _, offset in rows], pa.timestamp("ms", tz="UTC")),
            "timestampType": pa.array([0] * len(rows), pa.int32()),
        }
    )
    pq.write_table(table, directory / f"{name}.parquet")


def describe_capture(
    directory: Path,
    from_offsets: Mapping[int, int],
    to_offsets: Mapping[int, int],
    *,
    identity: TopicIdentity = IDENTITY,
    captured_at_ms: int = CAPTURED_AT_MS,
    explained_from: Mapping[int, int] | None = None,
) -> None:
    """Writes the manifest of a capture."""
    manifest = Manifest(identity, from_offsets, to_offsets, captured_at_ms, explained_from=explained_from or {})
    write_manifest(LocalStorage(directory), manifest)


@contextmanager
def open_test_ledger(spark: SparkSession, warehouse: Path, cluster: str = "test") -> Iterator[Ledger]:
    storage = LocalStorage(warehouse)
    with Lease(storage, cluster, "pytest", 60) as lease:
        settings = load_settings(cluster=cluster)
        yield Ledger(
            spark, str(warehouse), cluster, storage=storage, lease=lease, say=lambda _text: None, settings=settings
        )


def make_tables(warehouse: Path | str, *tables: Table) -> None:
    """Creates empty tables, as a ledger creates them."""
    for table in tables:
        Commits(str(warehouse), ()).create(table)


def ingest(
    spark: SparkSession, warehouse: Path, directory: Path, *, recover: bool = False, cluster: str = "test"
) -> Totals:
    with open_test_ledger(spark, warehouse, cluster) as ledger:
        return ingest_capture(ledger, str(directory), threading.Event(), recover=recover)


def positions(warehouse: Path) -> list[Position]:
    """Returns (partition, offset) of every row of `coordinator_records`, sorted. A position that is there twice is
    returned twice."""
    return columns_of(warehouse, COORDINATOR_RECORDS, "kafka_partition", "kafka_offset")


def coverage(warehouse: Path) -> list[tuple[int, int, int, str]]:
    """Returns (partition, from, to, completeness) of every stretch in `coverage`, sorted."""
    return columns_of(warehouse, COVERAGE, "kafka_partition", "from_offset", "to_offset", "completeness")


def columns_of(warehouse: Path, table: Table, *columns: str) -> list[tuple[Any, ...]]:
    """Returns the named columns of every row of a table, sorted. It reads without Spark, which takes a hundred times as
    long."""
    rows = dataset(str(warehouse), table).to_table([*columns])
    return sorted(zip(*(rows[column].to_pylist() for column in columns), strict=True))
