"""Goal: from tables to incidents about offsets that were lost, or will be: the bridge finds what the rules need."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.commit_steps import COMMIT_STEPS
from groupledger.schemas.tables.committed_offsets import COMMITTED_OFFSETS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import OffsetEventKind as Kind
from groupledger.transforms.incidents.commit_steps import (
    as_steps,
    commits_of,
    lines_of,
    steps_of,
    with_ends,
    with_suspicion,
)
from groupledger.transforms.incidents.incidents import Asked, History, IncidentTables, facts_of
from groupledger.transforms.incidents.judging import incidents
from groupledger.transforms.incidents.lag_rounds import lag_rounds, near_the_start
from groupledger.transforms.incidents.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table

    Row = dict[str, Any]

BEGAN_AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
RULES = Rules()
AS_OF_HOURS = 7 * 24 - 6  # an offset of the beginning expires six hours later
SKIPPED, LOST, CAME_BACK, IDLE, KEPT = "skipped", "lost", "came-back", "idle", "kept"
FRESH, OVERTAKEN, QUIET = "fresh", "overtaken", "quiet"


def at(hour: float) -> datetime:
    return BEGAN_AT + timedelta(hours=hour)


def frame(spark: SparkSession, table: Table, *rows: Row) -> DataFrame:
    """Returns rows of a table; what they leave out is null."""
    usual = {**dict.fromkeys(table.schema.names), "cluster": "c", "topic": "orders", "partition": 0}
    filled = [{name: {**usual, **row}[name] for name in table.schema.names} for row in rows]
    return spark.createDataFrame(filled, table.schema)


def record(group_id: str, kafka_offset: int, hour: float, offset: int | None) -> Row:
    """A commit, or the removal of one."""
    place = {"group": group_id, "topic": "orders", "partition": 0}
    value = {**place, "offset": offset, "commit_timestamp_ms": None if offset is None else ms(hour)}
    row = {"group_id": group_id, "kafka_partition": 7, "kafka_offset": kafka_offset, "kafka_timestamp": at(hour)}
    return row | {"record_type": "offset_commit", "is_tombstone": offset is None, "offset_commit": value}


def member(kafka_offset: int) -> Row:
    text = json.dumps({"member_id": "m", "subscribed_topic_names": ["orders"]})
    row = {"group_id": KEPT, "kafka_partition": 7, "kafka_offset": kafka_offset, "kafka_timestamp": at(0)}
    return row | {"record_type": "consumer_group_member_metadata", "is_tombstone": False, "record_json": text}


def generation(group_id: str, kafka_offset: int, hour: float, members: int, to_offset: int | None = None) -> Row:
    row = {"group_id": group_id, "incarnation": 1, "generation": kafka_offset, "revision": 0}
    row |= {"kafka_offset": kafka_offset, "to_offset": to_offset, "is_current": to_offset is None}
    row |= {"protocol_type": "consumer", "member_count": members, "started_at": at(hour), "current_state_at": at(hour)}
    return row


def event(group_id: str, kind: str, kafka_offset: int, hour: float, before: int, after: int | None) -> Row:
    row = {"group_id": group_id, "kind": kind, "happened_at": at(hour), "kafka_partition": 7}
    return row | {"kafka_offset": kafka_offset, "offset_before": before, "offset_after": after}


def standing(group_id: str, kafka_offset: int, offset: int, **fields: Any) -> Row:
    row = {"group_id": group_id, "kafka_partition": 7, "kafka_offset": kafka_offset, "is_removed": False}
    row |= {"commit_kafka_offset": kafka_offset, "committed_offset": offset, "committed_at_ms": ms(0)}
    return row | fields


def ms(hour: float) -> int:
    return round(at(hour).timestamp() * 1_000)


def sample(hour: float, start: int, end: int) -> Row:
    return {"sampled_at": at(hour), "log_start_offset": start, "high_watermark": end}


def rounds(group_id: str, committed: int | None) -> Iterator[Row]:
    """Yields two rows of `lag` in each minute of an hour, in which a log of 2,000 records moves on by 60 a minute;
    without a commit, those of a group that follows its end."""
    for number in range(120):
        start = 30 * number // 60 * 60
        commit = start + 2_000 if committed is None else committed
        seen = {
            "log_start_offset": start,
            "committed_offset": commit,
            "lag": start + 2_000 - commit,
            "status": "stopped",
        }
        yield {"group_id": group_id, "sampled_at": at(AS_OF_HOURS) - timedelta(seconds=30 * (119 - number)), **seen}


@dataclass(frozen=True)
class Frames:
    """Gives of frames what is asked for."""

    rows: Mapping[str, DataFrame]

    def facts(self) -> DataFrame:
        names = {field.name for field in fields(IncidentTables)} & self.rows.keys()
        suspects = self.rows["commit_steps"].where("is_suspect = 1")
        tables = IncidentTables(suspects=suspects, **{name: self.rows[name] for name in names})
        return facts_of(tables, RULES, ms(AS_OF_HOURS), self)

    def asked(self, names: DataFrame) -> Asked:
        names = collected(names)
        every = self.rows["coordinator_records"]
        records = every.join(names, "group_id", "left_semi")
        past = every.join(names.select(F.col("past_of").alias("group_id")), "group_id", "left_semi")
        samples = self.rows.get("watermarks")
        reported = None if samples is None else samples.join(names, "topic", "left_semi")
        return Asked(coordinator_records=records, past_records=past, watermarks=reported)

    def history(self, groups: DataFrame) -> History:
        groups = collected(groups)
        names = [field.name for field in fields(History)]
        return History(**{name: self.rows[name].join(groups, "group_id", "left_semi") for name in names})


def collected(rows: DataFrame) -> DataFrame:
    """Returns a few rows by themselves: each plan that asks for them would compute them again."""
    return rows.sparkSession.createDataFrame(rows.collect(), rows.schema)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Frames:
    """Groups to which each of these things happened, and some that nobody needs to know of."""
    group = {"is_alive": True, "is_simple": False, "protocol_type": "consumer", "last_kafka_offset": 90}
    rows: dict[Table, list[Row]] = {
        COORDINATOR_RECORDS: [
            *(record(CAME_BACK, 10, 0, 0), record(CAME_BACK, 11, 0.1, 100), record(CAME_BACK, 20, 100, None)),
            *(record(CAME_BACK, 40, 120.1, 8_000_500), record(CAME_BACK, 41, 120.2, 8_000_600)),
            *(record(LOST, 52, 1, 0), record(LOST, 53, 2, 10), record(LOST, 80, 120.1, 8_000_400)),
            member(15),
        ],
        COVERAGE: [
            {"kafka_partition": 7, "from_offset": 0, "to_offset": 100, "completeness": "complete"},
            {
                "kafka_partition": 8,
                "from_offset": 30,
                "completeness": "compacted",
                "is_state_lost": True,
            },
        ],
        GENERATIONS: [
            *(generation(SKIPPED, 5, 0, 0), generation(CAME_BACK, 12, 1, 0, 30), generation(CAME_BACK, 30, 120, 2)),
            generation(LOST, 79, 120, 1),
            *(generation(IDLE, 12, 0, 0), generation(FRESH, 14, 0, 2), generation(KEPT, 16, 0, 1)),
        ],
        REBALANCES: [],
        MEMBERS: [],
        ASSIGNMENTS: [],
        WATERMARKS: [sample(99, 0, 50), sample(119, 0, 8_000_000), sample(121, 0, 8_001_000)],
        OFFSET_EVENTS: [
            event(SKIPPED, Kind.SKIPPED, 50, 2, 10, 30),
            event(SKIPPED, Kind.REWOUND, 51, 2, 30, 25),
            event("undone", Kind.REWOUND, 52, 2, 30, 25),
            event(LOST, Kind.LOST_TO_RETENTION, 53, 3, 10, 70),
            event(CAME_BACK, Kind.EXPIRED, 20, 100, 100, None),
            event("deleted", Kind.GROUP_DELETED, 54, 4, 100, None),
        ],
        COMMITTED_OFFSETS: [
            standing(IDLE, 11, 8_000_800),
            standing(KEPT, 13, 600),
            standing(IDLE, 29, 8_000_700, partition=1, kafka_partition=8),  # its removal may have gone without a trace
            standing(FRESH, 60, 5, committed_at_ms=ms(AS_OF_HOURS - 1)),
            standing("removed", 61, 5, is_removed=True),
        ],
        GROUPS: [
            *({**group, "group_id": name, "group_type": "classic", "member_count": 0} for name in (IDLE, "removed")),
            {**group, "group_id": FRESH, "group_type": "classic", "member_count": 2},
            {**group, "group_id": KEPT, "group_type": "consumer"},
        ],
        LAG: [*rounds(OVERTAKEN, 4_000), *rounds(QUIET, None)],
    }
    given = {table.name: frame(spark, table, *of_table) for table, of_table in rows.items()}
    lag = given.pop("lag")
    given["lag_rounds"] = lag_rounds(lag, near_the_start(lag.where(lag.sampled_at == at(AS_OF_HOURS))))
    none = as_steps(frame(spark, COMMIT_STEPS))
    lines = lines_of(none, commits_of(given["coordinator_records"]), given["coverage"])
    steps = with_ends(steps_of(lines, RULES.commit_gap_ms, ms(AS_OF_HOURS)), given["watermarks"], ms(AS_OF_HOURS))
    suspicious = with_suspicion(steps.where("is_step"), RULES, ms(AS_OF_HOURS))
    return Frames({**given, "commit_steps": collected(suspicious)})


def test_lost_and_expiring_offsets(tables: Frames) -> None:
    """Goal: each group has the one incident that its tables prove, with its numbers; a deletion is no incident."""
    as_of_ms = ms(AS_OF_HOURS)
    found = incidents(tables.facts(), RULES, as_of_ms).toArrow().to_pylist()
    assert {name for row in found for name in row} | {"cluster"} == set(INCIDENTS.schema.names)
    rows = {row["group_id"]: (row["kind"], row["duplicates_max"], row["never_read_max"]) for row in found}
    assert len(found) == len(rows)
    assert rows == {
        SKIPPED: ("offset_skip", None, 15),
        LOST: ("lost_to_retention", None, 60 + 8_000_400),
        CAME_BACK: ("offsets_expired", None, 8_000_400),
        IDLE: ("offsets_expire_soon", None, 200),
        KEPT: ("offsets_expire_soon", None, None),
        OVERTAKEN: ("retention_overtakes", None, None),
    }
    (row,) = [row for row in found if row["group_id"] == OVERTAKEN]
    assert "from about 2026-01-11 18:07 UTC on, and 1,540 records wait there" in row["explanation"]
    (row,) = [row for row in found if row["group_id"] == CAME_BACK]
    assert [(proof["table_name"], proof["row_key"]) for proof in row["proofs"]] == [
        ("offset_events", "came-back/orders/0/expired/2026-01-09T04:00:00.000Z/20"),
        ("coordinator_records", "7/40"),
    ]


def test_without_samples(tables: Frames) -> None:
    """Goal: if nobody knows what the topics held, only losses that the records prove are reported."""
    as_of_ms = ms(AS_OF_HOURS)
    facts = Frames({name: rows for name, rows in tables.rows.items() if name != "watermarks"}).facts()
    found = incidents(facts, RULES, as_of_ms).select("group_id").collect()
    assert sorted(row["group_id"] for row in found) == [LOST, OVERTAKEN, SKIPPED]
