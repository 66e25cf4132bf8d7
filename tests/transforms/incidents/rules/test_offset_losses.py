"""Goal: offsets that were lost, or will be, are incidents where records are read again or never, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.schemas.kafka.names import CONSOLE_GROUP_PREFIX
from groupledger.schemas.kinds.incidents import (
    LOST_TO_RETENTION,
    OFFSET_OF_FORMER_TOPIC,
    OFFSET_SKIP,
    OFFSETS_EXPIRE_SOON,
    OFFSETS_EXPIRED,
)
from groupledger.schemas.words import OffsetEventKind as Kind
from groupledger.schemas.words import Severity
from groupledger.transforms.incidents.rules import CommitStep, OffsetEvent, OffsetReturn, incidents
from lab.truth.made import RULES, T, commit, facts, generation, tenure

Row = dict[str, Any]
EMPTIED = [generation(3, 10, 50), generation(4, 50, None, member_count=0)]
"""A group that lost its last member at offset 50."""
DAY_MS = 86_400_000


def reported(**parts: Any) -> list[Row]:
    """Returns the incidents of a group without other facts."""
    return incidents(facts(**{"assignments": [], "members": [], "rebalances": [], **parts}), RULES)


def event(kind: str, kafka_offset: int, before: int, after: int, partition: int = 0, second: int = 60) -> OffsetEvent:
    return OffsetEvent(
        kind=kind,
        topic="orders",
        partition=partition,
        at_ms=T + second * 1_000,
        kafka_partition=7,
        kafka_offset=kafka_offset,
        offset_before=before,
        offset_after=after,
        row_key=f"g/orders/{partition}/{kind}/{kafka_offset}",
    )


# Moved on


def test_a_reset_moved_a_group_on() -> None:
    """Goal: partitions that are moved on together are one incident, with the records that nobody will read, the rows
    that prove it, and no setting to blame."""
    events = [event(Kind.SKIPPED, 60, 100, 8_000_100), event(Kind.SKIPPED, 61, 0, 5, partition=1)]
    (row,) = reported(generations=EMPTIED, offset_events=events)
    assert (row["kind"], row["severity"], row["never_read_max"]) == (OFFSET_SKIP.name, Severity.WARNING, 8_000_005)
    assert [(each["partition"], each["refused_offset"]) for each in row["partitions"]] == [(0, 100), (1, 0)]
    assert [proof["table_name"] for proof in row["proofs"]] == ["offset_events"] * 2
    assert "8,000,005 records" in row["explanation"]
    assert row["setting_to_change"] is None


def test_moves_that_cost_nothing() -> None:
    """Goal: there is no incident of a move that was taken back, of one offset, which may be a marker, and of a consumer
    without membership, which moves on again and again; if only a part of a move was taken back, the rest counts."""
    skip, back = event(Kind.SKIPPED, 60, 10, 20), event(Kind.REWOUND, 61, 20, 0)
    assert reported(generations=EMPTIED, offset_events=[skip, back]) == []
    assert reported(generations=EMPTIED, offset_events=[event(Kind.SKIPPED, 60, 10, 11)]) == []
    reading = [event(Kind.SKIPPED, 60 + number, 10 * number, 10 * number + 10) for number in range(3)]
    assert reported(generations=EMPTIED, offset_events=reading) == []
    (row,) = reported(generations=EMPTIED, offset_events=[skip, event(Kind.REWOUND, 61, 20, 14)])
    assert row["never_read_max"] == 4


# Of a topic that is gone


def test_offsets_of_a_topic_that_was_made_anew() -> None:
    """Goal: commits that the new topic has reached are one incident, with the number of records that are never read;
    one offset is no incident, and neither is a consumer that began anew."""
    events = [event(Kind.TOPIC_RECREATED, 40, 700, 0), event(Kind.TOPIC_RECREATED, 41, 30, 20, partition=1)]
    (row,) = reported(generations=EMPTIED, offset_events=events)
    assert (row["kind"], row["probable_root"]) == (OFFSET_OF_FORMER_TOPIC.name, "topic_recreated")
    assert (row["severity"], row["never_read_max"]) == (Severity.WARNING, 710)
    assert "710 records" in row["explanation"]
    assert reported(generations=EMPTIED, offset_events=[event(Kind.TOPIC_RECREATED, 40, 1, 0)]) == []
    step = CommitStep(
        commit=commit(700, T, 40), next_commit=commit(12, T + 90_000, 45), interval_ms=None, is_recreated_topic=True
    )
    found = reported(generations=EMPTIED, offset_events=events[:1], steps=[step])
    assert found == []


# Passed by the start of the log


def test_records_that_retention_took() -> None:
    """Goal: commits that the log passed one after the other are one incident, each offset counted once; it is graver
    while the group has members; one offset is no incident."""
    events = [
        event(Kind.LOST_TO_RETENTION, 40, 0, 100),
        event(Kind.LOST_TO_RETENTION, 41, 50, 120, second=120),
        event(Kind.LOST_TO_RETENTION, 42, 0, 7, partition=1, second=120),
    ]
    (row,) = reported(offset_events=events)
    assert (row["kind"], row["severity"]) == (LOST_TO_RETENTION.name, Severity.ERROR)
    assert row["never_read_max"] == 127
    assert row["setting_to_change"] == "retention.ms, retention.bytes, auto.offset.reset"
    (row,) = reported(offset_events=events, generations=EMPTIED)
    assert row["severity"] == Severity.WARNING
    assert reported(offset_events=[event(Kind.LOST_TO_RETENTION, 40, 0, 1)]) == []
    far = [*events, event(Kind.LOST_TO_RETENTION, 43, 200, 300, second=120 + RULES.open_ms // 1_000 + 1)]
    assert len(reported(offset_events=far)) == 2


# Lost, and come back


def back(after: int, **fields: Any) -> OffsetReturn:
    """A group that had committed 1,000 of a log that now has the offsets 200 to 8,001,000; it came back a minute before
    it committed again."""
    usual: Row = {
        "kafka_partition": 7,
        "kafka_offset": 60,
        "lost_by": Kind.EXPIRED,
        "lost_at_ms": T + 60_000,
        "offset_before": 1_000,
        "leader_epoch": None,
        "is_same_topic": False,
        "is_other_topic": False,
        "began_at_ms": T + 3_000_000,
        "high_watermark": 8_001_000,
        "log_start_offset": 200,
        "records_per_ms": 1.0,
        "row_key": "g/orders/0/expired",
    }
    return OffsetReturn(commit=commit(after, T + 3_060_000, 100), **{**usual, **fields})


RETURNED = [generation(4, 50, 90, member_count=0), generation(5, 90, None)]


def harm(one: OffsetReturn, generations: Any = RETURNED) -> tuple[int | None, int | None, int | None] | None:
    rows = reported(generations=generations, returns=[one])
    if not rows:
        return None
    (row,) = rows
    assert (row["kind"], row["severity"]) == (OFFSETS_EXPIRED.name, Severity.ERROR)
    return row["duplicates_min"], row["duplicates_max"], row["never_read_max"]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        # It began at the end, and skipped 8,000,000 records: in a minute it can't have read them.
        (back(8_001_500), (None, None, 8_000_500)),
        # It may have: either it read all again, or it skipped.
        (back(8_001_500, records_per_ms=100_000.0), (0, 800, 8_000_500)),
        (back(8_001_500, records_per_ms=None), (0, 800, 8_000_500)),
        # It began below the end, and below its last offset.
        (back(300), (700, 800, None)),
        (back(300, high_watermark=None, is_same_topic=True), (700, 1_000, None)),
        # It began below the end, at the log's start or where it wished to.
        (back(5_000), (0, 800, None)),
    ],
)
def test_a_group_comes_back_without_its_offsets(
    one: OffsetReturn, expected: tuple[int | None, int | None, int | None]
) -> None:
    """Goal: a sample from before the group's return decides whether records were read again or never, and how many."""
    assert harm(one) == expected


@pytest.mark.parametrize(
    "one",
    [
        back(1_000, high_watermark=1_000),  # nothing waited, and nothing was read
        back(1_200, high_watermark=1_001),  # what waited may be a marker
        back(8_001_500, records_per_ms=None, log_start_offset=1_000),  # it may have read on where it was
        back(2_000_000),  # below the end, but it can't have read all that from the start: it sought there
        back(300, is_other_topic=True),
        back(300, high_watermark=None),  # nobody knows whether it is the same log
        back(300, high_watermark=700),  # another log, which is shorter
        back(8_001_500, high_watermark=None, is_same_topic=True),
    ],
)
def test_a_return_that_may_have_cost_nothing(one: OffsetReturn) -> None:
    """Goal: without proof of a loss or a repetition there is no incident."""
    assert harm(one) is None


def test_who_brought_the_offset_back() -> None:
    """Goal: an offset that somebody set anew was restored on purpose; one with a leader epoch is of a consumer that has
    read, be it without membership."""
    assert harm(back(300), EMPTIED) is None
    assert harm(back(300, leader_epoch=0), []) == (700, 800, None)


def passed_and_back(after: int, **fields: Any) -> Row:
    """A group whose offset 100 the log has passed, up to 200, and which came back to the same log as above."""
    returned = back(after, lost_by=Kind.LOST_TO_RETENTION, kafka_offset=40, offset_before=100, **fields)
    (row,) = reported(offset_events=[event(Kind.LOST_TO_RETENTION, 40, 100, 200)], returns=[returned])
    return row


def test_a_consumer_that_skips_what_retention_has_left() -> None:
    """Goal: a group that starts at the end after the log's start has passed its offset has skipped the remaining
    records, and they are counted."""
    row = passed_and_back(8_001_500)
    assert (row["kind"], row["never_read_max"]) == (LOST_TO_RETENTION.name, 100 + 8_001_300)
    assert (
        "at most 100 records were removed before it read them, and at least 8,000,800 more were skipped"
        in (row["explanation"])
    )
    assert [each["table_name"] for each in row["proofs"]] == ["offset_events", "coordinator_records"]


@pytest.mark.parametrize("pace", [100_000.0, None])
def test_a_consumer_that_may_have_skipped_what_retention_has_left(pace: float | None) -> None:
    """Goal: one that can have read everything up to its first commit has at most skipped it, and the bound says so."""
    row = passed_and_back(8_001_500, records_per_ms=pace)
    assert row["never_read_max"] == 100 + 8_001_300
    assert "and at most 8,001,300 more were skipped, if it then started at the end" in row["explanation"]


@pytest.mark.parametrize(
    ("after", "fields"),
    [
        (900, {}),  # it began below the end, at the first remaining record
        (8_001_500, {"high_watermark": None}),
        (8_001_500, {"is_other_topic": True}),
        (300, {"high_watermark": 201}),  # the remaining offset may be a marker
    ],
)
def test_a_consumer_that_may_have_read_what_retention_has_left(after: int, fields: Row) -> None:
    """Goal: if nothing shows that the group began after the remaining records, only the removed records count as
    unread."""
    row = passed_and_back(after, **fields)
    assert row["never_read_max"] == 100
    assert "skipped" not in row["explanation"].split(". ")[0]


# About to expire


def expiring(**parts: Any) -> list[Row]:
    """A group that lost its last member at second 50, as its retention without half a day has gone by."""
    as_of_ms = T + RULES.offsets.retention_ms - DAY_MS // 2
    group = {"group_id": "g", "group_type": "classic", "member_count": 0, "is_simple": False, "is_alive": True}
    usual: Row = {
        "generations": [generation(4, 50, None, member_count=0)],
        "groups": [{**group, "protocol_type": "consumer"}],
        "committed": [committed()],
        "as_of_ms": as_of_ms,
    }
    return reported(**{**usual, **parts})


def committed(partition: int = 0, **fields: Any) -> Row:
    return {
        "group_id": "g",
        "topic": "orders",
        "partition": partition,
        "kafka_partition": 7,
        "kafka_offset": 40 + partition,
        "commit_kafka_offset": 40 + partition,
        "committed_offset": 1_000,
        "committed_at": (T + 40_000) * 1_000,
        "expire_at": None,
        "high_watermark": 1_500,
        "log_start_offset": 200,
        **fields,
    }


def test_offsets_about_to_expire_while_records_wait() -> None:
    """Goal: a day before its offsets expire, the group is warned, by the time since it lost its last member, with the
    number of waiting records; the warning holds to the last known instant, and its id stays."""
    (row,) = expiring(committed=[committed(), committed(1)])
    assert (row["kind"], row["severity"], row["is_open"]) == (OFFSETS_EXPIRE_SOON.name, Severity.WARNING, True)
    assert row["never_read_max"] == 1_000
    assert row["setting_to_change"] == "offsets.retention.minutes, auto.offset.reset"
    due_ms = T + 50_000 + RULES.offsets.retention_ms
    assert row["first_seen_at"] == (due_ms - DAY_MS) * 1_000
    assert row["proofs"][0] == {"table_name": "committed_offsets", "row_key": "g/orders/0"}
    (later,) = expiring(committed=[committed(), committed(1)], as_of_ms=due_ms)
    assert later["incident_id"] == row["incident_id"]


def test_offsets_that_only_members_keep() -> None:
    """Goal: offsets of a KIP-848 group that have outlived the retention are warned of while its members live, if there
    is something to be read again; those of topics that it has given up are not, nor those of a classic group."""
    reader = {"group_id": "g", "kafka_offset": 5, "record_type": "consumer_group_member_metadata"}
    reader |= {"is_tombstone": False, "record_json": '{"member_id": "m", "subscribed_topic_names": ["orders"]}'}
    group = {"group_id": "g", "group_type": "consumer", "member_count": None, "is_simple": False, "is_alive": True}
    live: Row = {"groups": [group], "readers": [reader], "generations": [generation(3, 10, None)]}
    live["as_of_ms"] = T + 3 * RULES.offsets.retention_ms
    (row,) = expiring(**live)
    assert (row["never_read_max"], row["partitions"][0]["refused_offset"]) == (None, 1_000)
    assert "800 records would be read again" in row["explanation"]
    assert expiring(**{**live, "committed": [committed(log_start_offset=1_000)]}) == []
    assert expiring(**{**live, "committed": [committed(topic="payments")]}) == []
    classic = {**group, "group_type": "classic", "member_count": 1, "protocol_type": "consumer"}
    member = tenure("m", 10, None, subscribed_topics=["orders"])
    assert expiring(**{**live, "groups": [classic], "readers": [], "members": [member]}) == []


@pytest.mark.parametrize(
    "parts",
    [
        {"committed": [committed(high_watermark=1_001)]},  # nothing waits, or a marker
        {"committed": [committed(high_watermark=None)]},  # nobody knows whether something does
        {"as_of_ms": T + RULES.offsets.retention_ms - 2 * DAY_MS},  # not soon
        {"as_of_ms": T + RULES.offsets.retention_ms + DAY_MS},  # overdue: something keeps it, or it has gone unseen
        {"groups": []},
        {"committed": [committed(expire_at=(T + 30 * DAY_MS) * 1_000)]},  # the commit itself says when
    ],
)
def test_no_warning(parts: Row) -> None:
    """Goal: there is no warning if nothing waits, if the time has not come, or if it is over."""
    assert expiring(**parts) == []


def test_groups_of_the_console_consumer() -> None:
    """Goal: nothing is reported of a group that nobody will use again."""
    lost = facts(assignments=[], members=[], rebalances=[], offset_events=[event(Kind.LOST_TO_RETENTION, 40, 0, 100)])
    assert len(incidents(lost, RULES)) == 1
    lost.group_id = f"{CONSOLE_GROUP_PREFIX}4711"
    assert incidents(lost, RULES) == []
