"""Writes a warehouse of two clusters with MirrorMaker between them, in which a group commits to both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.jobs.serve.serving import AT, MINUTE, write

if TYPE_CHECKING:
    from pathlib import Path

EAST, WEST = "east", "west"
SYNCS = f"mm2-offset-syncs.{WEST}.internal"
GROUP, TOPIC = "pay", "orders"


def fill(folder: Path, group: str = GROUP, topic: str = TOPIC) -> Path:
    """Writes a partition for each outcome: exact, skips, repeats, before the first sync, no commit and no sync."""
    commits(folder, EAST, topic, {0: 100, 1: 100, 2: 350, 3: 5, 4: 100, 5: 100}, group)
    commits(folder, WEST, f"{EAST}.{topic}", {0: 80, 1: 95, 2: 150, 3: 5, 5: 7}, group)
    places = [(0, 100, 80), (1, 100, 80), (2, 100, 80), (2, 300, 200), (3, 50, 50), (4, 100, 80)]
    syncs(folder, SYNCS, *places, topic=topic)
    return folder


def commits(folder: Path, cluster: str, topic: str, offsets: dict[int, int], group: str = GROUP) -> None:
    of_group = {"cluster": cluster, "group_id": group, "kafka_partition": 7}
    seen = {"incarnation": 1, "first_seen_at": AT, "last_seen_at": AT}
    write(folder, "groups", of_group | seen | {"group_type": "classic", "is_alive": True})
    stretch = {"cluster": cluster, "kafka_partition": 7, "completeness": "complete", "from_offset": 0, "to_offset": 100}
    write(folder, "coverage", stretch | {"from_time": AT, "to_time": AT + 10 * MINUTE})
    record = {"kafka_timestamp": AT + MINUTE, "record_type": "offset_commit", "is_tombstone": False, "value_version": 3}
    rows: list[dict[str, Any]] = [
        of_group
        | record
        | {"kafka_offset": 10 + partition, "ingest_date": AT.date()}
        | {"offset_commit": {"topic": topic, "partition": partition, "offset": offset}}
        for partition, offset in offsets.items()
    ]
    write(folder, "coordinator_records", *rows)


def syncs(folder: Path, syncs_topic: str, *rows: tuple[int, int, int], cluster: str = EAST, topic: str = TOPIC) -> None:
    """Writes syncs, each a partition and its offsets in source and target."""
    of_row = {"cluster": cluster, "syncs_topic": syncs_topic, "kafka_partition": 0, "topic": topic}
    write(
        folder,
        "offset_syncs",
        *(
            of_row
            | {"kafka_offset": number, "partition": partition, "ingest_date": AT.date()}
            | {"upstream_offset": upstream, "downstream_offset": downstream}
            for number, (partition, upstream, downstream) in enumerate(rows)
        ),
    )
