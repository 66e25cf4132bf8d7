"""Goal: which committed offsets Kafka will expire, and why, by the rules for each type of group."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.transforms.history.expiring_offsets import expiring_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = "test"
RECORDS = """
    cluster string, group_id string, kafka_offset long, kafka_timestamp timestamp, record_type string,
    is_tombstone boolean, decode_error string, record_json string, offset_commit
    struct<topic string, partition int, offset long, commit_timestamp_ms long, expire_timestamp_ms long>
"""
GROUPS = """
    cluster string, group_id string, is_alive boolean, group_type string, is_simple boolean, member_count int,
    protocol_type string
"""
GENERATIONS = """
    cluster string, group_id string, is_current boolean, member_count int, protocol_type string,
    current_state_at timestamp
"""
MEMBERS = "cluster string, group_id string, is_open int, subscribed_topics array<string>"


def day(number: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(days=number)


class Topic:
    """The log of all groups, in one order."""

    def __init__(self) -> None:
        self.records: list[tuple[Any, ...]] = []
        self.groups: list[tuple[Any, ...]] = []

    def group(self, name: str, group_type: str = "classic", members: int | None = None, **options: Any) -> Topic:
        is_simple = options.get("is_simple", False)
        protocol_type = options.get("protocol_type", "consumer" if members is not None else None)
        is_alive = options.get("is_alive", True)
        self.groups.append((CLUSTER, name, is_alive, group_type, is_simple, members, protocol_type))
        return self

    def commit(
        self, topic: str, at: float, *, partition: int = 0, expire_at: float | None = None, expire_ms: int = -1
    ) -> Topic:
        if expire_at is not None:
            expire_ms = int(day(expire_at).timestamp() * 1_000)
        value = (topic, partition, 5, int(day(at).timestamp() * 1_000), expire_ms)
        return self._add("offset_commit", is_tombstone=False, commit=value)

    def removed(self, topic: str) -> Topic:
        return self._add("offset_commit", is_tombstone=True, commit=(topic, 0, None, None, None))

    def record(self, record_type: str, *, is_tombstone: bool = False, **fields: Any) -> Topic:
        return self._add(record_type, is_tombstone=is_tombstone, fields=json.dumps(fields))

    def _add(self, record_type: str, *, is_tombstone: bool, commit: Any = None, fields: str | None = None) -> Topic:
        group, offset = self.groups[-1][1], len(self.records)
        self.records.append(
            (CLUSTER, group, offset, day(9.5), record_type, is_tombstone, None, fields, commit),
        )
        return self


def every_type() -> Topic:
    topic, member = Topic(), "consumer_group_member_metadata"
    topic.group("emptied", members=0).commit("orders", 2).commit("orders", 2.5, partition=1)
    topic.group("simple", is_simple=True).commit("orders", 2).commit("gone", 2).removed("gone")
    topic.group("fresh", is_simple=True).commit("orders", 9)
    topic.group("explicit", is_simple=True).commit("orders", 9, expire_at=11).commit("payments", 9)
    topic.group("later", is_simple=True).commit("orders", 2, expire_at=40)
    topic.group("never", is_simple=True).commit("orders", 2, expire_ms=2**63 - 1)
    topic.group("dead", is_simple=True, is_alive=False).commit("orders", 2)
    topic.group("hole").commit("orders", 2)
    topic.group("reading", members=1).commit("orders", 2).commit("payments", 2)
    topic.group("unreadable", members=2).commit("payments", 2)
    topic.group("connect", members=1, protocol_type="connect").commit("payments", 2)
    topic.group("modern", "consumer").commit("orders", 2).commit("payments", 2)
    topic.record(member, member_id="a", subscribed_topic_names=["orders"], subscribed_topic_regex=None)
    topic.group("modern left", "consumer").commit("orders", 2).record(member, member_id="a", subscribed_topic_names=[])
    topic.record(member, member_id="a", is_tombstone=True)
    topic.group("pattern", "consumer").commit("orders", 2)
    topic.record(member, member_id="a", subscribed_topic_names=[], subscribed_topic_regex="o.*")
    topic.record("consumer_group_regular_expression", regular_expression="o.*", topics=["orders"])
    topic.group("streams", "streams").commit("orders", 2).commit("between", 2).commit("payments", 2)
    topic.record("streams_group_member_metadata", member_id="a")
    parts = [
        {"source_topics": ["orders"], "source_topic_regex": [], "repartition_source_topics": [{"name": "between"}]}
    ]
    topic.record("streams_group_topology", subtopologies=parts)
    return topic


@pytest.mark.spark
def test_every_type_of_group(spark: SparkSession) -> None:
    """Goal: empty groups of every type, topics that a live group does not read any more, and commits with an expiry of
    their own; not what somebody may still read, what was removed, and what is fresh."""
    topic = every_type()
    generations = [
        (CLUSTER, "emptied", True, 0, "consumer", day(5)),
        (CLUSTER, "emptied", False, 1, "consumer", day(1)),
    ]
    subscriptions: dict[str, list[list[str] | None]] = {
        "reading": [["orders"]],
        "unreadable": [["orders"], None],
        "connect": [None],
    }
    members = [(CLUSTER, group, 1, topics) for group, of_group in subscriptions.items() for topics in of_group]
    members.append((CLUSTER, "reading", 0, ["payments"]))
    found = expiring_offsets(
        groups=spark.createDataFrame(topic.groups, GROUPS),
        generations=spark.createDataFrame(generations, GENERATIONS),
        members=spark.createDataFrame(members, MEMBERS),
        coordinator_records=spark.createDataFrame(topic.records, RECORDS),
        as_of=day(10),
        idle_for=timedelta(days=3.5),
        retention=timedelta(days=7),
    )
    rows = found.selectExpr(
        *("group_id", "cause", "topic", "committed_partition_count", "unix_millis(idle_since)"),
        "unix_millis(offsets_expire_at)",
    )
    told = {tuple(row) for row in rows.collect()}
    assert told == {
        (*row[:4], int(day(row[4]).timestamp() * 1_000), int(day(row[5]).timestamp() * 1_000))
        for row in (
            ("emptied", "no_members", None, 2, 5, 12),
            ("simple", "no_members", None, 1, 2, 9),
            ("explicit", "explicit", None, 1, 9, 11),
            ("reading", "not_subscribed", "payments", 1, 2, 9),
            ("modern", "not_subscribed", "payments", 1, 2, 9),
            ("modern left", "no_members", None, 1, 2, 9),
            ("streams", "not_subscribed", "payments", 1, 2, 9),
        )
    }
