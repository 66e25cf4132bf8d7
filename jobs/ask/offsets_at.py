"""`groupledger offsets`: the committed offsets of a past instant, as OffsetFetch would have answered then.

The instant is turned into a position in the log, and the newest record of each key below it counts: so the answer is a
state that the log really had. An instant is known in a `complete` stretch of coverage only. Records before the stretch
count too, since compaction keeps each key's last record; if a hole lies between, or the state was lost since, the
answer is `unknown`. Where clocks went back after a failover, one instant has several positions, and a partition that
they disagree on is `unknown` too. A partition whose last record is a removal (deleted, expired) or offset -1 has no
row. A transactional commit counts from where it was written, which is shortly before its transaction ended.

`--format csv` is what `kafka-consumer-groups --reset-offsets --from-file` reads (Kafka's ConsumerGroupCommand and
CsvUtils): no header, a partition a line; `topic,partition,offset` for the one group that its `--group` names, else
`group,topic,partition,offset`. That tool splits the file at newlines before it reads fields, moves an offset outside
the log to the nearer end of the log, resets only a group without members, and writes no metadata.
"""

from __future__ import annotations

import re
from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa

from groupledger.jobs.ask.answers import coverage_rows, no_group, of_groups
from groupledger.jobs.ask.cluster_rows import as_scan
from groupledger.jobs.ask.commits import commit_log
from groupledger.jobs.process.errors import InputError, NotKnownError
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.retention import above_floors, read_floors
from groupledger.schemas.wire.record_types import OFFSET_COMMIT_TYPES
from groupledger.schemas.words import Completeness, OffsetStatus
from groupledger.transforms.coverage.rules.coverage_at import iso, why_unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

COLUMNS = ("group_id", "topic", "partition", "status", "committed_offset", "committed_at", "metadata")
# Kafka's own rule for topic names (org.apache.kafka.common.internals.Topic); a commit's topic is not checked by it.
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


STRETCHES = pa.schema(
    [("kafka_partition", pa.int32()), *((name, pa.int64()) for name in ("from_offset", "to_offset", "known_from"))]
)
# Where the instant lies in the log: before the first record that is later, after the last that is not.
POSITIONS = """
SELECT
    group_id,
    known_from,
    min(kafka_offset) FILTER (is_later) AS first_later,
    max(kafka_offset) FILTER (NOT is_later) AS last_earlier
FROM (
    SELECT *, kafka_offset >= from_offset AND kafka_timestamp > $at AS is_later
    FROM records
    JOIN stretches USING (kafka_partition)
    WHERE decode_error IS NULL AND kafka_offset < to_offset
) AS placed
GROUP BY group_id, known_from
"""
POSITION_SCHEMA = pa.schema(
    [("group_id", pa.string()), *((name, pa.int64()) for name in ("known_from", "first_later", "last_earlier"))]
)
NEWEST = """
WITH newest AS (
    SELECT
        group_id, topic, partition, known_from,
        max_by(commit_log, kafka_offset) AS state,
        max(kafka_offset) FILTER (coalesce(kafka_offset < first_later, true)) AS certain_offset
    FROM commit_log
    JOIN positions USING (group_id)
    WHERE kafka_offset <= last_earlier
    GROUP BY group_id, topic, partition, known_from
)
SELECT
    group_id,
    topic,
    partition,
    state.committed_offset AS committed_offset,
    state.leader_epoch AS leader_epoch,
    state.metadata AS metadata,
    state.kafka_timestamp AS committed_at,
    state.kafka_offset AS kafka_offset,
    state.kafka_offset >= known_from AND state.kafka_offset IS NOT DISTINCT FROM certain_offset AS is_known,
    NOT state.is_tombstone AND state.committed_offset IS NOT NULL AS is_committed
FROM newest
ORDER BY group_id, topic, partition
"""
COMMIT_COLUMNS = ("committed_offset", "leader_epoch", "metadata", "committed_at", "kafka_offset")


def offsets_at(tables: ClusterRows, names: Sequence[str], at: datetime) -> list[Answer]:
    """Returns a row for each partition that had, or may have had, a committed offset at the instant, sorted by group,
    topic and partition. If the commit is not certain, the status is `unknown`, and the columns about the commit are
    null. A known group without commits has no row. Raises UnknownNameError for an unknown group, NotKnownError if the
    log of a group is not known at the instant."""
    known = tables.rows_if_any("groups", ("group_id", "in", names), columns=("group_id", "kafka_partition"))
    partitions: dict[str, int] = {row["group_id"]: row["kafka_partition"] for row in known}
    if len(partitions) < len(names):  # as before the history is made
        partitions |= _committed_partitions(tables, [name for name in names if name not in partitions])
    named = of_groups(tables, *names)
    of_commits = (*named, ("record_type", "in", OFFSET_COMMIT_TYPES))
    columns = ("group_id", "kafka_partition", "kafka_offset", "kafka_timestamp", "decode_error")
    records = tables.scan("coordinator_records", *of_commits, columns=columns)
    read = coverage_rows(tables, *partitions.values())
    floors = read_floors(tables.properties("coordinator_records"), tables.small_files, tables.cluster)
    coverage = above_floors(read, floors)
    for name in names:
        reason = why_unknown((row for row in coverage if row["kafka_partition"] == partitions[name]), at)
        if reason is not None:
            raise NotKnownError(f"The offsets of the group {printable(name)} at {iso(at)} are unknown: {reason}.")
    positions = tables.query(
        POSITIONS,
        {"at": at},
        records=records,
        stretches=as_scan(_stretches(read, at), STRETCHES),
    )
    last = max((row["last_earlier"] for row in positions if row["last_earlier"] is not None), default=-1)
    earlier = commit_log(tables, *named, ("kafka_offset", "<=", last))
    found = tables.query(NEWEST, commit_log=earlier, positions=as_scan(positions, POSITION_SCHEMA))
    return [_answer(row) for row in found if not row["is_known"] or row["is_committed"]]


def _committed_partitions(tables: ClusterRows, names: Sequence[str]) -> dict[str, int]:
    """Returns the partition of the log in which each group has commits. Raises UnknownNameError for one that has
    none."""
    is_commit = ("record_type", "in", OFFSET_COMMIT_TYPES)
    columns = ("group_id", "kafka_partition")
    records = tables.scan("coordinator_records", *of_groups(tables, *names), is_commit, columns=columns)
    found = tables.query("SELECT DISTINCT group_id, kafka_partition FROM records", records=records)
    partitions = {row["group_id"]: row["kafka_partition"] for row in found}
    for name in names:
        if name not in partitions:
            raise no_group(tables, name)
    return partitions


def _stretches(coverage: Iterable[Answer], at: datetime) -> list[Answer]:
    """Returns the complete stretches that hold the instant, each with `known_from`: where the last hole before it
    ends, or a stretch began that lost the state."""
    known_from: defaultdict[int, int] = defaultdict(int)
    found = []
    for row in sorted(coverage, key=itemgetter("kafka_partition", "from_offset")):
        partition = row["kafka_partition"]
        if row["completeness"] == Completeness.UNKNOWN:
            known_from[partition] = row["to_offset"]
        if row["is_state_lost"]:
            known_from[partition] = row["from_offset"]
        if why_unknown([row], at) is None:
            found.append({**{name: row[name] for name in STRETCHES.names[:-1]}, "known_from": known_from[partition]})
    return found


def _answer(row: Answer) -> Answer:
    known = {name: row[name] if row["is_known"] else None for name in COMMIT_COLUMNS}
    status = OffsetStatus.COMMITTED if row["is_known"] else OffsetStatus.UNKNOWN
    return {
        "group_id": row["group_id"],
        "topic": row["topic"],
        "partition": row["partition"],
        "status": status,
        **known,
    }


def reset_file_lines(names: Sequence[str], answers: Iterable[Answer]) -> Iterator[str]:
    """Yields the lines of a file for Kafka's reset tool: the partitions whose offset is known. If `names` has several
    groups, each line begins with its group. Raises InputError for a name that the tool could not read."""
    for answer in answers:
        if answer["status"] != OffsetStatus.COMMITTED:
            continue
        topic, group = answer["topic"], answer["group_id"]
        if not TOPIC.fullmatch(topic):
            raise InputError(
                f"The group {printable(group)} has committed for {printable(topic)}. No topic can have that name, so"
                " Kafka's tool can't reset it: ask for --format json."
            )
        fields = f"{topic},{answer['partition']},{answer['committed_offset']}"
        yield fields if len(names) == 1 else f"{_quoted(group)},{fields}"


def _quoted(group: str) -> str:
    if not group.isprintable():
        raise InputError(
            f"Kafka's tool can't read the name of the group {printable(group)} from a file: ask for this group alone."
        )
    return '"' + group.replace('"', '""') + '"'
