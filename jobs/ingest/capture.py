"""`groupledger capture` copies `__consumer_offsets` into Parquet files with the columns of Spark's Kafka source.

A capture is a finite copy that can be carried to another machine and ingested there. `_capture.json` beside the files
(Spark ignores names that begin with an underscore) says which topic was copied, and which offsets the capture covers.
The rows alone don't show that: the last record of a partition may lie well below its end, and a partition without
records has no row at all.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from groupledger.jobs.ingest.evidence import explained_by_headers
from groupledger.jobs.kafka.login import check_java_login
from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic, kafka_options
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.session import task_count
from groupledger.jobs.warehouse.source import TopicIdentity, as_written
from groupledger.jobs.warehouse.storage import open_storage
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.words import Completeness
from groupledger.transforms.coverage.offset_gaps import gaps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.storage import Storage

MANIFEST = "_capture.json"


@dataclass(frozen=True)
class Manifest:
    """The source of a capture, and the offsets [from, to) of each partition that it covers.

    `completeness` is `complete` only if nothing was removed since `began_at_ms`, as in a simulator's capture; a real
    topic may have been compacted. `explained_from` is, by partition, the offset from which on markers and aborted
    transactions account for every offset without a row, as the batch headers showed when the capture was made.
    """

    identity: TopicIdentity
    from_offsets: Mapping[int, int]
    to_offsets: Mapping[int, int]
    captured_at_ms: int
    completeness: str = Completeness.COMPACTED
    began_at_ms: int = 0
    explained_from: Mapping[int, int] = field(default_factory=dict)


def write_manifest(storage: Storage, manifest: Manifest) -> None:
    storage.write(MANIFEST, json.dumps(asdict(manifest, dict_factory=as_written), indent=1))


def read_manifest(storage: Storage) -> Manifest | None:
    """Returns the manifest; None if the capture does not have the file. Raises InputError if the file is not in the
    known form."""
    try:
        text = storage.read(MANIFEST)
        if text is None:
            return None
        fields = json.loads(text)
        manifest = Manifest(
            identity=TopicIdentity(**fields["identity"]),
            from_offsets={int(partition): offset for partition, offset in fields["from_offsets"].items()},
            to_offsets={int(partition): offset for partition, offset in fields["to_offsets"].items()},
            captured_at_ms=fields["captured_at_ms"],
            completeness=Completeness.today(fields["completeness"]),
            began_at_ms=fields["began_at_ms"],
            explained_from={int(key): offset for key, offset in fields.get("explained_from", {}).items()},
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{MANIFEST} of the capture is damaged: restore it, or move it elsewhere to do without."
        ) from error
    if manifest.completeness not in (Completeness.COMPACTED, Completeness.COMPLETE):
        kept = f"{Completeness.COMPACTED} or {Completeness.COMPLETE}"
        raise InputError(f"{MANIFEST} of the capture must have completeness {kept}.")
    return manifest


def capture(
    spark: SparkSession, settings: Settings, bootstrap_servers: str, directory: str, say: Callable[[str], None]
) -> int:
    """Copies the topic `__consumer_offsets` up to its present end into `directory`; returns the number of records.

    Raises InputError if the directory is not empty.
    """
    storage = open_storage(spark, directory)
    if storage.names("."):
        raise InputError(f"{directory} is not empty: a capture needs a directory of its own.")
    captured_at_ms = now_ms()
    identity, topic = describe_offsets_topic(bootstrap_servers, settings.kafka)
    total = sum(end - topic.log_start_offset[partition] for partition, end in topic.last_stable_offset.items())
    say(f"copying up to {total:,} records of {identity.partition_count} partitions")
    check_java_login(spark, settings.kafka)
    options = {
        **kafka_options(settings, bootstrap_servers, topic.log_start_offset),
        "endingOffsets": json.dumps({OFFSETS_TOPIC: topic.last_stable_offset}),
    }
    tasks = task_count(spark, settings.ingest.read_tasks)
    rows = spark.read.format("kafka").options(**options).load().coalesce(tasks)
    rows.write.mode("append").parquet(directory)
    found = spark.read.parquet(directory).select("partition", "offset").toArrow()
    begins, ends = topic.log_start_offset, topic.last_stable_offset
    missing = {
        partition: gaps(
            found.filter(pc.field("partition") == partition).column("offset").to_numpy(), begin, ends[partition]
        )
        for partition, begin in begins.items()
    }
    explained = explained_by_headers(missing, begins, settings, bootstrap_servers)
    write_manifest(storage, Manifest(identity, begins, ends, captured_at_ms, explained_from=explained))
    return int(found.num_rows)
