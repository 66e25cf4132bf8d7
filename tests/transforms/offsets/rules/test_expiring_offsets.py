"""Goal: which committed offsets Kafka will expire, and why, by the rules for each type of group."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

from groupledger.transforms.offsets.rules.expiring_offsets import expiring_offsets


def day(number: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(days=number)


class Topic:
    """The log of all groups, in one order."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.committed: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []

    def group(self, name: str, group_type: str = "classic", members: int | None = None, **options: Any) -> Topic:
        found = {"group_id": name, "group_type": group_type, "member_count": members, "is_simple": False}
        found |= {"is_alive": True, "protocol_type": None if members is None else "consumer", **options}
        self.groups.append(found)
        return self

    def commit(self, topic: str, at: float, *, expire_at: float | None = None) -> Topic:
        expires = None if expire_at is None else day(expire_at)
        row = {"topic": topic, "committed_at": day(at), "expire_at": expires}
        self.committed.append({"group_id": self.groups[-1]["group_id"], **row})
        return self

    def record(self, record_type: str, *, is_tombstone: bool = False, **fields: Any) -> Topic:
        row = {"group_id": self.groups[-1]["group_id"], "kafka_offset": len(self.records)}
        row |= {"record_type": record_type, "is_tombstone": is_tombstone, "record_json": json.dumps(fields)}
        self.records.append(row)
        return self


def every_type() -> Topic:
    topic, member = Topic(), "consumer_group_member_metadata"
    topic.group("emptied", members=0).commit("orders", 2).commit("orders", 2.5)
    topic.group("simple", is_simple=True).commit("orders", 2)
    topic.group("fresh", is_simple=True).commit("orders", 9)
    topic.group("explicit", is_simple=True).commit("orders", 9, expire_at=11).commit("payments", 9)
    topic.group("later", is_simple=True).commit("orders", 2, expire_at=40)
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


def test_every_type_of_group() -> None:
    """Goal: empty groups of every type, topics that a live group does not read any more, commits with an expiry of
    their own, and offsets that only the members of a modern group keep are listed, the first to expire first; offsets
    that somebody may still read, and fresh ones, are not."""
    topic = every_type()
    subscriptions: dict[str, list[list[str] | None]] = {
        "reading": [["orders"]],
        "unreadable": [["orders"], None],
        "connect": [None],
        "modern": [None],  # shown by its own records
    }
    found = expiring_offsets(
        groups=topic.groups,
        committed=topic.committed,
        generations=[{"group_id": "emptied", "protocol_type": "consumer", "current_state_at": day(5)}],
        members=[
            {"group_id": group, "subscribed_topics": topics}
            for group, of_group in subscriptions.items()
            for topics in of_group
        ],
        records=topic.records,
        as_of=day(10),
        idle_for=timedelta(days=3.5),
        retention=timedelta(days=7),
    )
    columns = ("group_id", "cause", "topic", "committed_partition_count", "idle_since", "offsets_expire_at")
    assert [row["offsets_expire_at"] for row in found] == sorted(row["offsets_expire_at"] for row in found)
    rows = {tuple(row[name] for name in columns) for row in found}
    assert rows == {
        (*row[:4], day(row[4]), day(row[5]))
        for row in (
            ("emptied", "no_members", None, 2, 5, 12),
            ("simple", "no_members", None, 1, 2, 9),
            ("explicit", "explicit", None, 1, 9, 11),
            ("reading", "not_subscribed", "payments", 1, 2, 9),
            ("modern", "not_subscribed", "payments", 1, 2, 9),
            ("modern", "kept_by_members", None, 1, 2, 9),
            ("modern left", "no_members", None, 1, 2, 9),
            ("pattern", "kept_by_members", None, 1, 2, 9),
            ("streams", "kept_by_members", None, 2, 2, 9),
            ("streams", "not_subscribed", "payments", 1, 2, 9),
        )
    }
