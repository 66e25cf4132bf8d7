"""What a real broker writes of KIP-848 groups: the facts that a fold of these groups may rest on.

`data/consumer_groups.jsonl` holds the records of a broker of 4.2, `data/consumer_groups_4_4.jsonl` of one of 4.4;
`python -m lab.kafka.consumer_protocol_log` makes them again, and these tests hold for each run of it.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from groupledger.schemas.codec.records import Record, decode_record, encode_record
from groupledger.schemas.wire import consumer_group as wire
from groupledger.schemas.wire.group_metadata import GROUP_METADATA
from tests.transforms.history.rules.consumer_groups import consumer_groups

CLASSIC = GROUP_METADATA.record_type
EPOCH = wire.CONSUMER_GROUP_METADATA.record_type
MEMBER = wire.CONSUMER_GROUP_MEMBER_METADATA.record_type
TARGET_EPOCH = wire.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA.record_type
TARGET = wire.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.record_type
CURRENT = wire.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.record_type
PARTITIONS = wire.CONSUMER_GROUP_PARTITION_METADATA.record_type
STABLE, UNREVOKED, UNRELEASED = 0, 1, 2
AWAY = -2
UPGRADE = "a member of KIP-848 joins: an upgrade"


@pytest.fixture(scope="module", params=["consumer_groups", "consumer_groups_4_4"])
def log(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return consumer_groups(request.param)


def of_step(log: list[dict[str, Any]], step: str) -> list[dict[str, Any]]:
    found = [record for record in log if record["step"] == step]
    assert found
    return found


def kinds(records: list[dict[str, Any]]) -> list[str]:
    """Returns the record types; a minus leads that of a tombstone."""
    return [("-" if record["value"] is None else "") + record["record_type"] for record in records]


def steps_of_members(records: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """Returns the member epoch, the one before and the state in each current assignment."""
    values = [record["value"] for record in records if record["record_type"] == CURRENT and record["value"]]
    return [(value["member_epoch"], value["previous_member_epoch"], value["state"]) for value in values]


def first_epoch(log: list[dict[str, Any]]) -> int:
    """Returns the epoch with which a group of KIP-848 begins."""
    epoch: int = next(record["value"]["epoch"] for record in log if record["record_type"] == EPOCH)
    return epoch


def test_a_first_member_is_stable_at_once(log: list[dict[str, Any]]) -> None:
    """Goal: a group begins with epoch 1, and since 4.3 with 2, in one operation that ends in its member's
    assignment."""
    records = of_step(log, "a joins")
    assert kinds(records) == [MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    assert {record["after_ms"] for record in records} == {records[0]["after_ms"]}
    assert steps_of_members(records) == [(first_epoch(log), 0, STABLE)]


def test_who_waits_is_at_the_new_epoch_before_who_holds_back(log: list[dict[str, Any]]) -> None:
    """Goal: while a poll loop stands still, the new member waits at the second epoch and the old one holds on at the
    first."""
    first = first_epoch(log)
    held = [r["value"] for r in of_step(log, "b joins, and a does not poll") if r["record_type"] == CURRENT]
    assert {(each["member_epoch"], each["state"]) for each in held} == {(first + 1, UNRELEASED), (first, UNREVOKED)}
    (holding,) = (each for each in held if each["state"] == UNREVOKED)
    assert holding["assigned_partitions"]
    assert holding["partitions_pending_revocation"]
    assert steps_of_members(of_step(log, "a polls again")) == [
        (first + 1, first, STABLE),
        (first + 1, first + 1, STABLE),
    ]


@pytest.mark.parametrize("step", ["v is killed", "b leaves"])
def test_leaving_and_being_fenced_look_alike(log: list[dict[str, Any]], step: str) -> None:
    """Goal: a departure is three tombstones and an epoch; another member's heartbeat makes the target, later."""
    records = of_step(log, step)
    assert kinds(records)[:7] == [f"-{CURRENT}", f"-{TARGET}", f"-{MEMBER}", EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    assert records[3]["value"]["epoch"] == records[5]["value"]["assignment_epoch"]


def test_more_partitions_are_an_epoch_with_another_hash(log: list[dict[str, Any]]) -> None:
    """Goal: the growth of a topic shows in the metadata hash alone, and no member record comes with it."""
    before = [r["value"] for r in of_step(log, "v is killed") if r["record_type"] == EPOCH]
    records = of_step(log, "the topic grows")
    assert kinds(records)[:4] == [EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    assert records[0]["value"]["epoch"] == before[-1]["epoch"] + 1
    assert records[0]["value"]["metadata_hash"] != before[-1]["metadata_hash"]


def test_a_static_member_that_is_away_keeps_its_partitions(log: list[dict[str, Any]]) -> None:
    """Goal: going away is one record, with no new epoch of the group; coming back replaces the member in one operation,
    which passes through member epoch 0."""
    (away,) = of_step(log, "i1 goes away")
    assert (away["record_type"], away["value"]["member_epoch"]) == (CURRENT, AWAY)
    assert away["value"]["assigned_partitions"]
    back = of_step(log, "i1 comes back")
    assert kinds(back) == [f"-{CURRENT}", f"-{TARGET}", f"-{MEMBER}", MEMBER, TARGET, CURRENT, CURRENT]
    assert {record["after_ms"] for record in back} == {back[0]["after_ms"]}
    joined = [r["value"] for r in of_step(log, "i0 and i1 join") if r["record_type"] == TARGET_EPOCH]
    assert steps_of_members(back) == [(0, 0, STABLE), (joined[-1]["assignment_epoch"], 0, STABLE)]
    assert back[-1]["value"]["assigned_partitions"] == away["value"]["assigned_partitions"]


def test_an_upgrade_and_the_join_behind_it_share_a_moment(log: list[dict[str, Any]]) -> None:
    """Goal: a live upgrade carries the generation over as epoch, and the join that caused it raises the epoch at the
    same moment: two epochs, split where the order of records begins again."""
    records = of_step(log, UPGRADE)
    first = next(list(same) for _, same in groupby(records, key=lambda record: record["after_ms"]))
    conversion = [f"-{CLASSIC}", MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    assert kinds(first)[: len(conversion)] == conversion
    assert kinds(first)[len(conversion) :] == [MEMBER, EPOCH, TARGET, TARGET, TARGET_EPOCH, CURRENT]
    assert [record["value"]["epoch"] for record in first if record["record_type"] == EPOCH] == [1, 2]
    assert first[1]["value"]["classic_member_metadata"] is not None


def test_a_downgrade_names_nobody_who_left(log: list[dict[str, Any]]) -> None:
    """Goal: a live downgrade removes all members alike and raises no epoch: the members that left are missing in the
    classic record, whose generation is the group's last epoch."""
    records = of_step(log, "it leaves: a downgrade")
    removals = [f"-{each}" for each in (CURRENT, CURRENT, TARGET, TARGET, TARGET_EPOCH, MEMBER, MEMBER)]
    assert kinds(records)[:10] == [*removals, f"-{PARTITIONS}", f"-{EPOCH}", CLASSIC]
    removed = {r["key"]["member_id"] for r in records if r["record_type"] == MEMBER}
    stayed = {member["member_id"] for member in records[9]["value"]["members"]}
    assert len(removed) == 2
    assert stayed < removed
    epochs = [r["value"]["epoch"] for r in log if r["record_type"] == EPOCH and r["value"] and r["step"] == UPGRADE]
    assert records[9]["value"]["generation"] == epochs[-1]


@pytest.mark.parametrize("kind", [EPOCH, TARGET_EPOCH])
def test_epochs_go_back_through_the_codec(log: list[dict[str, Any]], kind: str) -> None:
    """Goal: the codec writes and reads the epochs of the fixture as they are."""
    for each in log:
        if each["record_type"] == kind:
            value = each["value"]
            if value is not None and kind == TARGET_EPOCH:
                value = {"assignment_timestamp_ms": 0, **value}  # 4.2 has none
            record = Record(kind, each["key"], None if value is None else 0, value)
            assert decode_record(*encode_record(record)) == record
