"""`groupledger offsets`: the committed offsets of a past instant, to look at or to go back to.

`--format csv` is what `kafka-consumer-groups --reset-offsets --from-file` reads (Kafka's ConsumerGroupCommand and
CsvUtils): no header, a partition a line; `topic,partition,offset` for the one group that its `--group` names, else
`group,topic,partition,offset`. That tool splits the file at newlines before it reads fields, brings offsets outside the
log into it, resets only a group without members, and writes no metadata.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.ask.spark_answers import commits, coverage_rows, no_group
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.retention import above_floors, read_floors
from groupledger.jobs.warehouse.storage import open_storage
from groupledger.jobs.warehouse.tables import collect
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.words import OffsetStatus
from groupledger.transforms.coverage.rules.coverage_at import iso, why_unknown
from groupledger.transforms.offsets.offsets_at import offsets_at as committed_offsets_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.warehouse.tables import ClusterTables

COLUMNS = ("group_id", "topic", "partition", "status", "committed_offset", "committed_at", "metadata")
# Kafka's own rule for topic names (org.apache.kafka.common.internals.Topic); a commit's topic is not checked by it.
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def offsets_at(tables: ClusterTables, names: Sequence[str], at: datetime) -> list[Answer]:
    """Returns a row for each partition, in order. Raises InputError where the log of a group is not known at the
    instant."""
    log = commits(tables).where(F.col("group_id").isin(*names))
    partitions = {
        row["group_id"]: row["kafka_partition"] for row in collect(log.select("group_id", "kafka_partition").distinct())
    }
    missing = [name for name in names if name not in partitions]
    if missing:
        raise no_group(tables.cluster, missing[0])
    floors = read_floors(open_storage(tables.spark, tables.warehouse), tables.cluster)
    coverage = above_floors(coverage_rows(tables, *partitions.values()), floors)
    for name in names:
        reason = why_unknown((row for row in coverage if row["kafka_partition"] == partitions[name]), at)
        if reason is not None:
            raise InputError(f"The offsets of the group {printable(name)} at {iso(at)} are unknown: {reason}.")
    found = committed_offsets_at(log, tables.rows(COVERAGE), at)
    return collect(found.drop("cluster").orderBy("group_id", "topic", "partition"))


def reset_file_lines(names: Sequence[str], answers: Iterable[Answer]) -> Iterator[str]:
    """Yields the lines of the partitions whose offset is known. Raises InputError for a name that the tool could not
    read."""
    for answer in answers:
        if answer["status"] != OffsetStatus.COMMITTED:
            continue
        topic, group = answer["topic"], answer["group_id"]
        if not TOPIC.fullmatch(topic):
            raise InputError(
                f"The group {printable(group)} has committed for {printable(topic)}, which no topic can be named and"
                " which can't be reset: ask for --format json."
            )
        fields = f"{topic},{answer['partition']},{answer['committed_offset']}"
        yield fields if len(names) == 1 else f"{_quoted(group)},{fields}"


def _quoted(group: str) -> str:
    if not group.isprintable():
        raise InputError(f"The tool can't read the name of the group {printable(group)} from a file: ask for it alone.")
    return '"' + group.replace('"', '""') + '"'
