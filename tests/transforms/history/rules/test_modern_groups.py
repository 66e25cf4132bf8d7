"""Share and streams groups: a real 4.2 broker's log of Kafka's own clients, folded, beside what the broker said.

`data/modern_groups.jsonl` is made by `lab.kafka.modern_groups_log`. Its broker gives no warm-up tasks and no second
topology, so that these come in records that are made here.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds import changes as kinds
from groupledger.schemas.kinds import triggers
from groupledger.schemas.words import EndedBy, GroupType, TaskRole
from groupledger.transforms.history.rules.shared_ownership import shared_ownership
from lab.truth.consumer_claims import false_claims_of_cleaned, false_claims_of_holed
from lab.truth.modern_groups import differs_from, open_rows, topic_names
from tests.transforms.history.rules.consumer_groups import consumer_groups, event, of_group, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.truth.consumer_claims import Keyed
    from lab.truth.consumer_groups import Table

SHARE, STREAMS = "shared", "application"
GROUPS = (SHARE, STREAMS)
TYPE_OF = {SHARE: GroupType.SHARE, STREAMS: GroupType.STREAMS}
LOG = consumer_groups("modern_groups")
DESCRIBED = consumer_groups("modern_groups_described")


NAMES = topic_names(LOG)


def up_to(group_id: str, step: str) -> dict[str, Table]:
    """Returns the tables after a step of the group."""
    log = of_group(LOG, group_id)
    seen = [record for record in log if record["kafka_offset"] <= _last_of(log, step)]
    return tables_of(group_id, [[event(record, NAMES) for record in seen]])


def _last_of(log: Iterable[Mapping[str, Any]], step: str) -> int:
    return max(int(record["kafka_offset"]) for record in log if record["step"] == step)


def whole(group_id: str) -> dict[str, Table]:
    return up_to(group_id, "the group is deleted")


@pytest.mark.parametrize("said", DESCRIBED, ids=itemgetter("step"))
def test_what_the_broker_says(said: dict[str, Any]) -> None:
    """At the end of each step epoch, target, members, their epochs and their holdings agree with the broker."""
    tables = up_to(said["group_id"], said["step"])
    assert differs_from(said, tables, TYPE_OF[said["group_id"]]) == []


CAUSES = {
    SHARE: {
        "s1 joins": [{kinds.GROUP_STARTED}, {kinds.PARTITIONS_INITIALIZED}],
        "s2 joins": [{kinds.MEMBER_JOINED}, {kinds.PARTITIONS_INITIALIZED}],
        "s3 joins": [{kinds.MEMBER_JOINED}],
        "s4 and s5 join, more members than partitions": [{kinds.MEMBER_JOINED}, {kinds.MEMBER_JOINED}],
        "s3 is killed": [{kinds.MEMBER_LEFT}],
        "s1 subscribes to clicks, too": [{kinds.SUBSCRIPTION_CHANGED}],
        "the topic grows": [{kinds.TOPICS_CHANGED}, {kinds.PARTITIONS_INITIALIZED}],
        "s2 leaves": [{kinds.MEMBER_LEFT}, {kinds.PARTITIONS_FREED}],
        "s4 leaves": [{kinds.MEMBER_LEFT}, {kinds.PARTITIONS_FREED}],
        "s5 leaves": [{kinds.MEMBER_LEFT}, {kinds.PARTITIONS_FREED}],
        "s1 leaves": [{kinds.MEMBER_LEFT, kinds.GROUP_EMPTIED}],
    },
    STREAMS: {
        "a1 joins": [{kinds.GROUP_STARTED}, {kinds.TOPOLOGY_READY}],
        "a2 joins": [{kinds.MEMBER_JOINED}],
        "a3 joins": [{kinds.MEMBER_JOINED}],
        "a3 is killed": [{kinds.MEMBER_LEFT}],
        "no standbys any more": [{kinds.ASSIGNMENT_CONFIGURED}],
        "a topic grows, and its changelog does not fit any more": [
            {kinds.TOPOLOGY_NOT_READY},
            {kinds.MEMBER_LEFT},
            {kinds.MEMBER_LEFT, kinds.GROUP_EMPTIED},
        ],
    },
}


@pytest.mark.parametrize("group_id", GROUPS)
def test_causes(group_id: str) -> None:
    """Each epoch has the cause that the step had, and no epoch is a hole."""
    rebalances = sorted(whole(group_id)["rebalances"].values(), key=itemgetter("kafka_offset"))
    step_of = {record["kafka_offset"]: record["step"] for record in LOG}
    found: dict[str, list[set[str]]] = {}
    for row in rebalances:
        assert not row["is_hole"]
        found.setdefault(step_of[row["kafka_offset"]], []).append({each["kind"] for each in row["changes"]})
    expected = {
        step: [{kind.name for kind in of_epoch} for of_epoch in reported] for step, reported in CAUSES[group_id].items()
    }
    assert found == expected


@pytest.mark.parametrize("group_id", GROUPS)
def test_a_deleted_group(group_id: str) -> None:
    """Behind the group's deletion nothing of it is open, and the records that come after its own begin nothing."""
    tables = whole(group_id)
    assert not any(open_rows(tables[name]) for name in ("share_assignments", "stream_tasks", "stream_topologies"))
    assert not open_rows(tables["member_epochs"])
    assert {row["ended_by"] for row in tables["generations"].values()} == {EndedBy.GENERATION, EndedBy.TOMBSTONE}
    (group,) = tables["groups"].values()
    assert (group["is_alive"], group["incarnation"]) == (False, 1)


@pytest.mark.parametrize("group_id", GROUPS)
def test_cut_anywhere(group_id: str) -> None:
    """A batch for each record, or two batches, lead to the same rows as one."""
    events = [event(record, NAMES) for record in of_group(LOG, group_id)]
    tables = tables_of(group_id, [events])
    assert tables_of(group_id, [[each] for each in events]) == tables
    for cut in range(1, len(events)):
        assert tables_of(group_id, [events[:cut], events[cut:]]) == tables


@pytest.mark.parametrize("group_id", GROUPS)
def test_no_false_claims(group_id: str) -> None:
    """Where a beginning was cleaned, or any part was not read, nothing is claimed that is not so."""
    log: list[Keyed] = [
        ((record["record_type"], *record["key"].values()), record["value"] is None, event(record, NAMES))
        for record in of_group(LOG, group_id)
    ]
    ends = [
        after["kafka_offset"]
        for before, after in pairwise(of_group(LOG, group_id))
        if before["after_ms"] != after["after_ms"]
    ]
    claims: list[str] = []
    for begin in ends:
        claims += false_claims_of_cleaned(group_id, log, ends, begin)
        for end in ends[ends.index(begin) + 1 :: 5]:
            claims += false_claims_of_holed(group_id, log, ends, (begin, end))
    assert claims == []
    assert len(log) > len(ends) > 10


def test_several_members_at_once() -> None:
    """A partition that several members share has all of them, and each only from its own record on."""
    tables = up_to(SHARE, "s4 and s5 join, more members than partitions")
    members = {row["member_id"]: row["client_id"] for row in tables["members"].values()}
    shared = [row for row in shared_ownership(tables["share_assignments"].values()) if row["valid_to"] is None]
    owners = {
        TopicPartition(row["topic"], row["partition"]): {
            members[each] for each in (row["member_id"], *row["other_member_ids"])
        }
        for row in shared
    }
    (said,) = (each for each in DESCRIBED if each["step"] == "s4 and s5 join, more members than partitions")
    expected: dict[TopicPartition, set[str]] = {}
    for member in said["members"]:
        for place in member["holds"][0]:
            topic, _, number = place.rpartition("-")
            expected.setdefault(TopicPartition(topic, int(number)), set()).add(member["client_id"])
    assert owners == expected
    assert max(map(len, owners.values())) > 1


def test_shared_intervals_follow_each_other() -> None:
    """A partition's intervals neither overlap nor leave out an instant at which a member had it."""
    rows = whole(SHARE)["share_assignments"].values()
    intervals = shared_ownership(rows)
    for place, requests in groupby(intervals, key=itemgetter("topic", "partition")):
        spans = [(row["from_offset"], row["to_offset"]) for row in requests]
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
        of_place = [row for row in rows if (row["topic"], row["partition"]) == place]
        for offset in {row["from_offset"] for row in of_place}:
            now = {row["member_id"] for row in of_place if row["from_offset"] <= offset < row["to_offset"]}
            (row,) = (
                row
                for row in intervals
                if (row["topic"], row["partition"]) == place and row["from_offset"] <= offset < row["to_offset"]
            )
            assert {row["member_id"], *row["other_member_ids"]} == now


def test_source_partitions_of_tasks() -> None:
    """The member with an active task owns the partitions of the task's source topics, repartition topics among them;
    standbys own nothing."""
    tables = up_to(STREAMS, "a2 joins")
    owned = {(row["topic"], row["partition"]): row["member_id"] for row in open_rows(tables["assignments"])}
    (topology,) = open_rows(tables["stream_topologies"])
    topics = {
        part["subtopology"]: [*part["source_topics"], *part["repartition_source_topics"]]
        for part in topology["subtopologies"]
    }
    active = [row for row in open_rows(tables["stream_tasks"]) if row["role"] == TaskRole.ACTIVE]
    expected = {(topic, row["partition"]): row["member_id"] for row in active for topic in topics[row["subtopology"]]}
    assert owned == expected
    assert {topic for topic, _ in owned} > {"orders", "refunds"}


def test_waits_of_a_streams_member() -> None:
    """While a member holds back a task, the next one's step says which partitions it waits for, and whose they are."""
    tables = whole(STREAMS)
    clients = {row["member_id"]: row["client_id"][:2] for row in tables["members"].values()}
    waits = {
        (clients[step["member_id"]], clients[wait["held_by"]])
        for step in tables["member_epochs"].values()
        for wait in step["waits_for"]
        if wait["held_by"] is not None
    }
    assert {("a2", "a1"), ("a3", "a2")} <= waits


def test_a_killed_member() -> None:
    """Of a member of a share group nobody knows whether it left or was fenced, as it commits nothing."""
    killed = next(row for row in whole(SHARE)["members"].values() if row["client_id"] == "s3")
    assert (killed["leave_cause"], killed["leave_cause_confidence"]) == (triggers.LEFT.name, 0.5)
    assert killed["group_type"] == GroupType.SHARE
    assert (killed["session_timeout_ms"], killed["rebalance_timeout_ms"]) == (None, None)


def member_record(offset: int, member_id: str, topology_epoch: int = 0) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "instance_id": None,
        "rack_id": None,
        "client_id": member_id,
        "client_host": "/h",
        "rebalance_timeout_ms": 300_000,
        "topology_epoch": topology_epoch,
        "process_id": f"process of {member_id}",
        "user_endpoint": None,
        "client_tags": [],
    }
    return record(offset, "member_metadata", fields, member_id)


def record(offset: int, record_type: str, value: dict[str, Any] | None, member_id: str | None = None) -> dict[str, Any]:
    key = {"group_id": STREAMS} | ({} if member_id is None else {"member_id": member_id})
    return {
        "kafka_offset": offset,
        "after_ms": offset // 10 * 1_000,
        "record_type": f"streams_group_{record_type}",
        "key": key,
        "value": value,
    }


def topology(offset: int, epoch: int, **source_topics: list[str]) -> dict[str, Any]:
    nothing: dict[str, list[Any]] = {
        name: []
        for name in (
            *("source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics"),
            "copartition_groups",
        )
    }
    parts = [
        {"subtopology_id": name.removeprefix("part_"), "source_topics": topics, **nothing}
        for name, topics in source_topics.items()
    ]
    return record(offset, "topology", {"epoch": epoch, "subtopologies": parts})


def epoch_record(offset: int, epoch: int) -> dict[str, Any]:
    validated = {"validated_topology_epoch": 0, "last_assignment_configs": []}
    return record(offset, "metadata", {"epoch": epoch, "metadata_hash": 7, **validated})


def step(offset: int, member_id: str, epoch: int, **tasks: list[int]) -> dict[str, Any]:
    names = ("active_tasks", "standby_tasks", "warmup_tasks")
    fields: dict[str, Any] = {
        name: [{"subtopology_id": "0", "partitions": tasks[name]}] if name in tasks else [] for name in names
    }
    pending: dict[str, list[Any]] = {f"{name}_pending_revocation": [] for name in names}
    epochs = {"member_epoch": epoch, "previous_member_epoch": epoch - 1, "state": 1}
    return record(offset, "current_member_assignment", {**epochs, **fields, **pending}, member_id)


def test_a_warm_up_that_is_promoted() -> None:
    """A member that warmed a task up takes it over: one role ends and the other begins with the same record."""
    log = [
        *(member_record(10, "a"), member_record(11, "b"), topology(12, 0, part_0=["orders"]), epoch_record(13, 2)),
        *(step(20, "a", 2, active_tasks=[0]), step(30, "b", 2, warmup_tasks=[0])),
        *(step(40, "a", 3), step(50, "b", 3, active_tasks=[0])),
    ]
    tables = tables_of(STREAMS, [[event(each) for each in log]])
    spans = sorted(
        (row["from_offset"], row["to_offset"], row["member_id"], row["role"]) for row in tables["stream_tasks"].values()
    )
    assert spans == [
        (20, 40, "a", TaskRole.ACTIVE),
        (30, 50, "b", TaskRole.WARMUP),
        (50, None, "b", TaskRole.ACTIVE),
    ]
    owners = sorted((row["from_offset"], row["to_offset"], row["member_id"]) for row in tables["assignments"].values())
    assert owners == [(20, 40, "a"), (50, None, "b")]


def test_another_topology() -> None:
    """A topology that replaces another is a cause of its epoch, and tasks read its topics from then on."""
    log = [
        *(member_record(10, "a"), topology(11, 0, part_0=["orders"]), epoch_record(12, 2)),
        *(step(20, "a", 2, active_tasks=[0]), member_record(30, "a", 1), topology(31, 1, part_0=["invoices"])),
        *(epoch_record(32, 3), step(40, "a", 3, active_tasks=[0])),
    ]
    tables = tables_of(STREAMS, [[event(each) for each in log]])
    topologies = {row["topology_epoch"]: row for row in tables["stream_topologies"].values()}
    assert [(row["from_offset"], row["to_offset"]) for _, row in sorted(topologies.items())] == [(11, 31), (31, None)]
    last = max(tables["rebalances"].values(), key=itemgetter("to_generation"))
    assert [each["kind"] for each in last["changes"]] == [kinds.TOPOLOGY_CHANGED.name]
    owned = sorted((row["topic"], row["from_offset"], row["to_offset"]) for row in tables["assignments"].values())
    assert owned == [("invoices", 40, None), ("orders", 20, 40)]


def test_standbys_overlap() -> None:
    """Several members keep a standby of one task at the same time, and each has an interval."""
    log = [
        *(member_record(10, "a"), member_record(11, "b"), topology(12, 0, part_0=["orders"]), epoch_record(13, 2)),
        *(step(20, "a", 2, standby_tasks=[1]), step(30, "b", 2, standby_tasks=[1])),
    ]
    tables = tables_of(STREAMS, [[event(each) for each in log]])
    rows = open_rows(tables["stream_tasks"])
    assert sorted((row["member_id"], row["partition"], row["role"]) for row in rows) == [
        ("a", 1, TaskRole.STANDBY),
        ("b", 1, TaskRole.STANDBY),
    ]
    assert tables["assignments"] == {}
