"""Finds the committed offsets that Kafka will expire, by the rules of its OffsetExpirationConditionImpl. Pure Python.

- Offsets of a group without members expire: those of a classic group some time after it became empty; those of a simple
  consumer or a modern group, and of a group that no record shows becoming empty, some time after their commit.
- While a group of consumers or of streams has members, the offsets of topics that none of them subscribes to expire
  some time after their commit. Other members (of Connect, of a schema registry) keep all offsets of their group, and so
  does a subscription that can't be read here.
- A commit may name its own expiry (value version 1), which takes the place of that time.
- Members of a modern group that subscribe to a topic keep its offsets however old these are. But age counts from the
  commit, with no extra time when the members leave: offsets older than the retention expire at the next cleanup then.

The rule for a single offset is `expiries`: the question `idle` sums up its results, and the incident
`offsets_expire_soon` warns of them. Instants and spans are of whatever type the rows have, since they are only compared
and added.

Members of classic groups are those of the history; those of modern groups are the newest records of their keys. Share
groups commit no offsets.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import ExpiryCause, GroupType
from groupledger.transforms.history.rules.events import CONSUMER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime, timedelta

    Row = Mapping[str, Any]

# Of each type of record, the field of its key.
KEY_OF_RECORD = {
    "consumer_group_member_metadata": "member_id",
    "consumer_group_regular_expression": "regular_expression",
    "streams_group_member_metadata": "member_id",
    "streams_group_topology": None,
}


@dataclass(slots=True)
class Readers:
    """Holds how many members a group has, and what they subscribe to. `are_topics_known` is False if a subscription
    can't be read."""

    members: int = 0
    topics: set[str] = field(default_factory=set)
    are_topics_known: bool = True

    def add(self, topics: Iterable[str] | None, *, members: int, is_known: bool = True) -> None:
        self.members += members
        self.topics |= set(topics or ())
        self.are_topics_known &= is_known


@dataclass(frozen=True, kw_only=True, slots=True)
class Expiry:
    """Says when and why the broker expires one committed offset, whose row is `committed`. The offset's age counts from
    `idle_since`."""

    group: Row
    committed: Row
    cause: str
    idle_since: Any
    expire_at: Any


@dataclass(slots=True)
class Sum:
    """Sums up the offsets of a group that expire for one cause: their number, and the latest of each of their
    instants."""

    partitions: int
    last_commit_at: datetime
    idle_since: datetime
    expire_at: datetime


def expiries(
    *,
    groups: Iterable[Row],
    committed: Iterable[Row],
    generations: Iterable[Row],
    members: Iterable[Row],
    records: Iterable[Row],
    retention: Any,
) -> Iterator[Expiry]:
    """Yields an expiry for each committed offset that the broker expires, now or later, unless the group commits it
    again.

    `committed` has `committed_at` and `expire_at` of each partition; `generations` are the current generations that
    have no members; `members` are the present members; `records` are the records of the types in `KEY_OF_RECORD`. All
    rows are of one cluster. `retention` is offsets.retention.minutes as a span.
    """
    living = {row["group_id"]: row for row in groups if row["is_alive"]}
    readers = _readers(living, members, records)
    empty_since = {row["group_id"]: row["current_state_at"] for row in generations if row["protocol_type"] != ""}
    for row in committed:
        group = living.get(row["group_id"])
        cause = None if group is None else _cause(group, row, readers.get(row["group_id"]))
        if group is None or cause is None:
            continue
        begin = row["committed_at"]
        if group["group_type"] == GroupType.CLASSIC and _is_empty(group, None):
            begin = empty_since.get(row["group_id"]) or begin
        expire_at = begin + retention if row["expire_at"] is None else row["expire_at"]
        yield Expiry(group=group, committed=row, cause=cause, idle_since=begin, expire_at=expire_at)


def expiring_offsets(  # noqa: PLR0913 - one for each table
    *,
    groups: Iterable[Row],
    committed: Iterable[Row],
    generations: Iterable[Row],
    members: Iterable[Row],
    records: Iterable[Row],
    as_of: datetime,
    idle_for: timedelta,
    retention: timedelta,
) -> list[dict[str, Any]]:
    """Returns one row for each group and cause, and for each topic that no member subscribes to, with the time at which
    the last of its offsets expires. A row is included only if all its offsets have been idle for `idle_for`, that is,
    if they expire by `as_of + retention - idle_for`. The earliest expiry comes first. `expiries` describes the
    tables."""
    living = {row["group_id"]: row for row in groups}
    expiring = expiries(
        groups=living.values(),
        committed=committed,
        generations=generations,
        members=members,
        records=records,
        retention=retention,
    )
    found: dict[tuple[str, str, str | None], Sum] = {}
    for each in expiring:
        topic = each.committed["topic"] if each.cause == ExpiryCause.NOT_SUBSCRIBED else None
        key = (each.group["group_id"], each.cause, topic)
        one = Sum(1, each.committed["committed_at"], each.idle_since, each.expire_at)
        found[key] = _together(found.get(key), one)
    until = as_of + retention - idle_for
    rows = [_row(living[key[0]], key, each) for key, each in found.items() if each.expire_at <= until]
    return sorted(rows, key=lambda row: (row["offsets_expire_at"], row["group_id"], row["cause"], row["topic"] or ""))


def _cause(group: Row, committed: Row, readers: Readers | None) -> str | None:
    """Returns why the offset expires, or None if it does not."""
    is_empty = _is_empty(group, readers)
    if not is_empty:
        if readers is None or not readers.are_topics_known or not _member_count(group, readers):
            return None
        if committed["topic"] in readers.topics:
            return None if group["group_type"] == GroupType.CLASSIC else ExpiryCause.KEPT_BY_MEMBERS
    if committed["expire_at"] is not None:
        return ExpiryCause.EXPLICIT
    return ExpiryCause.NO_MEMBERS if is_empty else ExpiryCause.NOT_SUBSCRIBED


def _is_empty(group: Row, readers: Readers | None) -> bool:
    return bool(group["is_simple"]) or _member_count(group, readers) == 0


def _member_count(group: Row, readers: Readers | None) -> int | None:
    """Returns how many members a group has; None after a hole."""
    if group["group_type"] == GroupType.CLASSIC:
        count: int | None = group["member_count"]
        return count
    return 0 if readers is None else readers.members


def _together(one: Sum | None, other: Sum) -> Sum:
    if one is None:
        return other
    return Sum(
        one.partitions + other.partitions,
        max(one.last_commit_at, other.last_commit_at),
        max(one.idle_since, other.idle_since),
        max(one.expire_at, other.expire_at),
    )


def _row(group: Row, key: tuple[str, str, str | None], expiry: Sum) -> dict[str, Any]:
    return {
        "group_id": key[0],
        "group_type": group["group_type"],
        "is_simple": group["is_simple"],
        "cause": key[1],
        "topic": key[2],
        "committed_partition_count": expiry.partitions,
        "last_commit_at": expiry.last_commit_at,
        "idle_since": expiry.idle_since,
        "offsets_expire_at": expiry.expire_at,
    }


# Who subscribes to what


def _readers(groups: Mapping[str, Row], members: Iterable[Row], records: Iterable[Row]) -> dict[str, Readers]:
    """Returns the readers of each group that has members."""
    found: defaultdict[str, Readers] = defaultdict(Readers)
    for row in members:
        group = groups.get(row["group_id"])
        if group is not None and group["group_type"] == GroupType.CLASSIC:
            topics = row["subscribed_topics"]
            is_known = group["protocol_type"] == CONSUMER and topics is not None
            found[row["group_id"]].add(topics, members=1, is_known=is_known)
    for group_id, record_type, value in _alive(records):
        readers = found[group_id]
        if record_type == "consumer_group_member_metadata":
            readers.add(value["subscribed_topic_names"], members=1)
        elif record_type == "consumer_group_regular_expression":
            readers.add(value["topics"], members=0)
        elif record_type == "streams_group_member_metadata":
            readers.add(None, members=1)
        else:
            for part in value["subtopologies"]:
                between = (topic["name"] for topic in part["repartition_source_topics"])
                readers.add([*part["source_topics"], *between], members=0, is_known=not part["source_topic_regex"])
    return {group_id: readers for group_id, readers in found.items() if readers.members}


def _alive(records: Iterable[Row]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields the newest record of each key, unless it is a tombstone."""
    newest: dict[tuple[str, str, str | None], tuple[bool, dict[str, Any]]] = {}
    for row in sorted(records, key=itemgetter("kafka_offset")):
        value = json.loads(row["record_json"])
        name = KEY_OF_RECORD[row["record_type"]]
        key = (row["group_id"], row["record_type"], None if name is None else value[name])
        newest[key] = (row["is_tombstone"], value)
    for (group_id, record_type, _), (is_tombstone, value) in newest.items():
        if not is_tombstone:
            yield group_id, record_type, value
