"""Goal: the lines of both coordinators are read word for word; a line that can be read in two ways is marked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.coordinator.model.log_lines import LogEvent, Reason, render, render_line
from groupledger.schemas.kafka.coordinator_log import CLASSIC, OTHERS
from groupledger.schemas.kafka.log_template import current_formats
from groupledger.schemas.kafka.rebalance_reasons import REASONS
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.transforms.logs.imported_lines import OF_THE_JOB
from groupledger.transforms.logs.rules.rebalance_reasons import parse_reason
from groupledger.transforms.logs.rules.server_log import CUT_OFF, Entry, entries, parse_entry
from groupledger.transforms.privacy import DROP, Privacy

MEMBER = "consumer-g1-1-0b6e3f5e-8f0b-4a55-9a41-3a1f2d9c7e10"
OTHER_MEMBER = "consumer-g1-2-11111111-2222-3333-4444-555555555555"
JAVA = "[GroupCoordinator id=3 topic=__consumer_offsets partition=12] "
JAVA_LOGGER = "org.apache.kafka.coordinator.group.GroupMetadataManager"
SCALA, SCALA_LOGGER = "[GroupCoordinator 3]: ", "kafka.coordinator.group.GroupCoordinator"
FIELDS: dict[str, Any] = {
    "group_id": "g1",
    "member_id": MEMBER,
    "previous_member_id": OTHER_MEMBER,
    "new_leader": OTHER_MEMBER,
    "group_instance_id": "i1",
    "state": "Stable",
    "generation": 4,
    "previous_generation": 4,
    "member_count": 2,
    "static_member_count": 1,
    "member_ids": [MEMBER, OTHER_MEMBER],
    "client_reason": "the consumer is being closed",
    "error": "NOT_COORDINATOR",
    "operation": "sync-group",
    "members": "{}",
    "tombstone_count": 2,
    "offset_count": 2,
    "partitions": "[t-0]",
    "group_ids": "g1, g2",
    "group_max_size": 1,
    "group_type": "consumer",
    "previous_group_type": "classic",
    "protocol": "consumer",
    "assignor": "uniform",
    "topics": "[t]",
    "regex": "t.*",
    "regexes": "[t.*]",
    "topic_count": 4,
    "left_member_id": OTHER_MEMBER,
    "joined_member_id": OTHER_MEMBER,
    "new_member_id": OTHER_MEMBER,
    "member_metadata": "StreamsGroupMember(memberId=m)",
    "missing_topics": "[t-repartition]",
    "default_assignor": "sticky",
    "epoch_count": 0,
    "partition_count": 2,
    "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
    "subtopology": "0",
    "timeout_ms": 300,
    "metadata_hash": -5_091_734,
    "topology_epoch": 0,
    "kafka_partition": 12,
    "coordinator_epoch": 7,
    "loading": "11ms where 11ms was spent in the scheduler.",
    "unloading": "7",
}


def parse(text: str, privacy: Privacy | None = None) -> dict[str, Any]:
    found = parse_entry(Entry(1, text.count("\n") + 1, text), "UTC", privacy or Privacy())
    assert isinstance(found, dict), found
    return found


def java(message: str) -> dict[str, Any]:
    return parse(f"[2026-02-10 09:45:00,123] INFO {JAVA}{message} ({JAVA_LOGGER})")


def scala(message: str) -> dict[str, Any]:
    return parse(f"[2026-02-10 09:45:00,123] INFO {SCALA}{message} ({SCALA_LOGGER})")


EVENTS = current_formats((*CLASSIC, *OTHERS))


@pytest.mark.parametrize("kind", EVENTS)
def test_everything_that_a_coordinator_logs(kind: str) -> None:
    """Goal: each of a broker's texts is read back with its kind, group, member and generation."""
    reason = Reason("new_member", FIELDS)
    event = LogEvent(1_770_716_700_123, 12, kind, {**FIELDS, "reason": reason})
    found = parse(render_line(event, broker_id=3))
    template = EVENTS[kind]
    assert (found["kind"], found["is_certain"], found["broker_id"], found["kafka_partition"]) == (kind, True, 3, 12)
    for column in ("group_id", "group_instance_id", "member_count", "state"):
        if f"{{{column}}}" in template:
            assert found[column] == FIELDS[column]
    if "{member_id}" in template:
        assert found["member_id"] == MEMBER
    if "generation}" in template:
        assert 4 in {found["generation"], found["previous_generation"]}


TRIGGERS = {
    "new_member": "joined",
    "member_joining": "joined",
    "metadata_changed": "metadata_changed",
    "leader_rejoined": "leader_rejoined",
    "static_member_replaced": "static_member_replaced",
    "static_member_changes_protocol": "protocol_changed",
    "members_left": "left",
    "session_expired": "session_expired",
    "sync_expired": "sync_expired",
    "assignment_not_stored": "assignment_not_stored",
    "over_capacity": "over_capacity",
}


@pytest.mark.parametrize("kind", TRIGGERS)
def test_every_reason_has_its_trigger(kind: str) -> None:
    """Goal: the reference coordinator's reasons, with the members that they name."""
    fields = {**FIELDS, "member_ids": ", ".join(FIELDS["member_ids"])} if kind == "members_left" else FIELDS
    found = parse_reason(render(Reason(kind, fields)))
    assert (found.trigger, found.is_certain) == (TRIGGERS[kind], True)
    template = current_formats(REASONS)[kind]
    if "{member_ids}" in template:
        assert found.member_ids == (MEMBER, OTHER_MEMBER)
    elif "{member_id}" in template:
        assert found.member_ids == (MEMBER,)
    assert found.client_reason == (FIELDS["client_reason"] if "{client_reason}" in template else None)


def test_a_row_has_the_columns_of_the_table() -> None:
    """Goal: every column but those that the job adds."""
    expected = {field.name for field in COORDINATOR_EVENTS.schema} - {*OF_THE_JOB, "source_file"}
    assert set(java("Stabilized group g1 generation 4 with 2 members.")) == expected


PREPARING = "Preparing to rebalance group g1 in state PreparingRebalance with old generation 4 (__consumer_offsets-12)"
ASSIGNED = (
    "Assignment received from leader for group g1 for generation 5. The group has 2 members, 0 of which are static."
)
POLL_TIMEOUT = f"Removing member {MEMBER} on LeaveGroup; client reason: consumer poll timeout has expired."
NOT_JOINED = f"Group g1 removed dynamic members who haven't joined: Set({MEMBER}, {OTHER_MEMBER})"
LEFT = f"Member[group.instance.id Some(i1), member.id {MEMBER}] in group g1 has left, removing it from the group"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f"{PREPARING} (reason: {POLL_TIMEOUT})", {"trigger": "left_poll_timeout", "previous_generation": 4}),
        (f"{PREPARING} (reason: leader {MEMBER} re-joining group during Stable)", {"trigger": "leader_rejoined"}),
        (
            f"{PREPARING} (reason: Adding new member {MEMBER} with group instance id Some(i1))",
            {"trigger": "joined", "group_instance_id": "i1", "member_id": MEMBER, "kafka_partition": 12},
        ),
        (f"{PREPARING} (reason: removing member {MEMBER} on heartbeat expiration)", {"trigger": "session_expired"}),
        (
            "Stabilized group g1 generation 5 (__consumer_offsets-12) with 3 members",
            {"kind": "stabilized", "generation": 5, "member_count": 3},
        ),
        (
            "Group g1 with generation 5 is now empty (__consumer_offsets-12)",
            {"kind": "group_now_empty", "generation": 5, "kafka_partition": 12},
        ),
        (LEFT, {"kind": "member_left", "group_instance_id": "i1", "member_id": MEMBER}),
        (ASSIGNED, {"kind": "assignment_received", "group_id": "g1"}),
        (NOT_JOINED, {"kind": "dynamic_members_removed", "member_ids": [MEMBER, OTHER_MEMBER]}),
        (
            "Elected as the group coordinator for partition 12 in epoch 7",
            {"kind": "partition_elected", "kafka_partition": 12},
        ),
        ("Loading group metadata for g1 with generation 4", {"kind": "group_loaded", "generation": 4}),
        ("Group g1 transitioned to Dead in generation 4", {"kind": "group_dead", "generation": 4}),
        ("What a later version says.", {"kind": "other", "is_certain": True}),
    ],
)
def test_the_scala_coordinator(message: str, expected: dict[str, Any]) -> None:
    """Goal: 2.8 and 3.x say the same in other words."""
    found = scala(message)
    assert {name: found[name] for name in expected} == expected
    assert found["message"] == SCALA + message


OLD_REQUIRED = (
    f"Dynamic member with unknown member id rejoins group g1 in Stable state. Created a new member id {MEMBER} and"
    " request the member to rejoin with this id."
)
OLD_REPLACED = (
    f"Static member i1 with unknown member id rejoins, assigning new member id {MEMBER}, while old member"
    f" {OTHER_MEMBER} will be removed."
)
OLD_PREPARING = "Preparing to rebalance group g1 with old generation 4 (__consumer_offsets-12)"
OLD_LEADER = (
    f"Group leader [member.id: {MEMBER}, group.instance.id: None] failed to join before rebalance timeout, while"
)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (OLD_PREPARING, {"previous_generation": 4, "kafka_partition": 12, "trigger": None, "reason": None}),
        ("Preparing to restabilize group g1 with old generation 4", {"previous_generation": 4, "trigger": None}),
        (
            f"{PREPARING} (reason: Adding new member {MEMBER} with group instanceid None)",
            {"trigger": "joined", "member_id": MEMBER, "group_instance_id": None},
        ),
        (f"{PREPARING} (reason: Adding new member {MEMBER})", {"trigger": "joined", "member_id": MEMBER}),
        (f"{PREPARING} (reason: Updating metadata for member {MEMBER})", {"trigger": "rejoined", "member_id": MEMBER}),
        (
            "Stabilized group g1 generation 5 (__consumer_offsets-12)",
            {"kind": "stabilized", "group_id": "g1", "generation": 5, "member_count": None},
        ),
        ("Stabilized group g1 generation 5", {"kind": "stabilized", "generation": 5}),
        ("Assignment received from leader for group g1 for generation 5", {"kind": "assignment_received"}),
        (
            f"Member {MEMBER} in group g1 has left, removing it from the group",
            {"kind": "member_left", "member_id": MEMBER, "group_id": "g1"},
        ),
        (
            f"Member {MEMBER} in group g1 has failed, removing it from the group",
            {"kind": "member_failed", "member_id": MEMBER, "group_id": "g1"},
        ),
        ("Group g1 with generation 5 is now empty", {"kind": "group_now_empty", "generation": 5}),
        ("Group g1 generation 5 is dead and removed", {"kind": "group_dead", "generation": 5}),
        (
            f"Group g1 remove dynamic members who haven't joined: Set({MEMBER}, {OTHER_MEMBER})",
            {"kind": "dynamic_members_removed", "member_ids": [MEMBER, OTHER_MEMBER]},
        ),
        (
            OLD_REQUIRED,
            {"kind": "member_id_required", "member_id": MEMBER, "group_id": "g1"},
        ),
        (
            OLD_REPLACED,
            {"kind": "static_member_replaced", "member_id": MEMBER, "previous_member_id": OTHER_MEMBER},
        ),
        (f"{OLD_LEADER} new leader m was elected.", {"kind": "leader_replaced", "member_id": MEMBER}),
        (
            "Finished loading offsets and group metadata from __consumer_offsets-12 in 41 milliseconds.",
            {"kind": "partition_loaded", "kafka_partition": 12},
        ),
        (
            "Finished unloading __consumer_offsets-12. Removed 3 cached offsets and 1 cached groups.",
            {"kind": "partition_unloaded", "kafka_partition": 12},
        ),
    ],
)
def test_older_coordinators(message: str, expected: dict[str, Any]) -> None:
    """Goal: brokers from 0.10 to 2.7 write shorter texts of the same meaning; facts that they leave out stay
    unknown."""
    found = scala(message)
    assert {name: found[name] for name in expected} == expected
    assert found["is_certain"]


def test_loggers_before_0_11() -> None:
    """Goal: the classes had other names, and one of them another prefix."""
    group = parse(
        f"[2016-12-09 12:00:00,123] INFO {SCALA}Stabilized group g1 generation 5 (kafka.coordinator.GroupCoordinator)"
    )
    assert (group["kind"], group["broker_id"]) == ("stabilized", 3)
    offsets = parse(
        "[2016-12-09 12:00:00,123] INFO [Group Metadata Manager on Broker 3]: Removed 7 expired offsets in 2"
        " milliseconds. (kafka.coordinator.GroupMetadataManager)"
    )
    assert (offsets["kind"], offsets["broker_id"]) == ("offsets_expired", 3)


def test_members_of_the_scala_coordinator_are_printed_whole() -> None:
    """Goal: the member's id out of all that is printed of it; its address goes where the settings want it."""
    message = (
        f"Member MemberMetadata(memberId={MEMBER}, groupInstanceId=None, clientId=consumer-g1-1, clientHost=/10.1.2.3,"
        " sessionTimeoutMs=45000, rebalanceTimeoutMs=300000, supportedProtocols=List(range)) has left group g1 through"
        " explicit `LeaveGroup`; client reason: the consumer is being closed"
    )
    text = f"[2026-02-10 09:45:00,123] INFO {SCALA}{message} ({SCALA_LOGGER})"
    found = parse(text)
    assert (found["kind"], found["group_id"], found["member_id"]) == ("member_left", "g1", MEMBER)
    assert found["client_reason"] == "the consumer is being closed"
    assert "10.1.2.3" not in repr(parse(text, Privacy(hosts=DROP)))


def test_consumer_groups() -> None:
    """Goal: KIP-848: epochs are generations; a member that does not give up its partitions is distinguished from one
    expired."""
    fenced = java("[GroupId g1] Member m fenced from the group because the member session expired.")
    assert (fenced["kind"], fenced["reason"]) == ("consumer_member_fenced", "the member session expired")
    slow = java(
        "[GroupId g1] Member m fenced from the group because it failed to transition from epoch 7 within 300ms."
    )
    assert (slow["kind"], slow["generation"], slow["details"]) == (
        *("consumer_member_not_revoking", 7),
        {"timeout_ms": "300"},
    )
    bumped = java("[GroupId g1] Bumped group epoch to 8 with metadata hash -5091734.")
    assert (bumped["kind"], bumped["generation"]) == ("group_epoch_bumped", 8)


def test_names_that_could_be_read_in_two_ways() -> None:
    """Goal: ids that a coordinator made are known by their UUID; where nothing shows it, the row says so."""
    known = java(f"Member {MEMBER} in group a in group b has failed, removing it from the group.")
    assert (known["member_id"], known["group_id"], known["is_certain"]) == (MEMBER, "a in group b", True)
    unknown = java(f"Member {MEMBER} in group {MEMBER} in group b has failed, removing it from the group.")
    assert (unknown["group_id"], unknown["is_certain"]) == (f"{MEMBER} in group b", False)
    group = "g in state Empty with old generation 1 (reason: x"
    nested = java(
        f"Preparing to rebalance group {group} in state PreparingRebalance with old generation 4 (reason:"
        f" removing member {MEMBER} on heartbeat expiration.)."
    )
    assert (nested["group_id"], nested["previous_generation"], nested["is_certain"]) == (group, 4, True)
    reason = parse_reason(f"Adding new member {MEMBER} with group instance id i; client reason: x; client reason: y")
    assert (reason.trigger, reason.member_ids, reason.is_certain) == ("joined", (MEMBER,), False)


LINES = [
    "\tat of.an.earlier.File(File.java:1)",
    f"[2026-02-10 09:45:00,123] INFO {JAVA}Group line one",
    f"line two with generation 4 is now empty. ({JAVA_LOGGER})",
    "[2026-02-10 09:45:00,124] ERROR Something failed. (kafka.server.ReplicaManager)",
    "java.lang.IllegalStateException: no",
    "\tat kafka.Kafka.main(Kafka.scala)",
    f"[2026-02-10 09:45:00,125] INFO {JAVA}Group g1 is cut",
    f"[2026-02-10 09:45:00,126] INFO {JAVA}Stabilized group g1 generation 4 with 2 members. ({JAVA_LOGGER}) [thread-1]",
]


def test_entries_over_several_lines() -> None:
    """Goal: a line break in a name stays in the name, a stack trace is no message, and a cut is reported."""
    found = list(entries(enumerate(LINES, 1)))
    assert [(entry.line_number, entry.line_count) for entry in found] == [(2, 2), (4, 1), (7, 1), (8, 1)]
    parsed = [parse_entry(entry, "UTC", Privacy()) for entry in found]
    assert isinstance(parsed[0], dict)
    assert (parsed[0]["group_id"], parsed[0]["line_count"]) == ("line one\nline two", 2)
    assert parsed[1:3] == [None, CUT_OFF]
    assert isinstance(parsed[3], dict)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40), st.integers(0, 2**31 - 1))
def test_any_names(group_id: str, client: str, generation: int) -> None:
    """Goal: any names that don't contain the words between them come back as they were; none raises."""
    member = f"{client}-{MEMBER[-36:]}"
    found = java(f"Assignment received from leader {member} for group {group_id} for generation {generation}. The group"
                 " has 2 members, 0 of which are static.")  # fmt: skip
    assert (found["member_id"], found["group_id"], found["generation"]) == (member, group_id, generation)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([" in group ", "Member ", MEMBER, " has failed", "(reason: ", ". ", "x"]), max_size=30))
def test_no_message_raises(parts: list[str]) -> None:
    """Goal: any text in a coordinator's line gives a row."""
    text = "".join(parts)
    assert java(text)["message"] == JAVA + text
    assert parse_reason(text).trigger


def test_a_long_hostile_name_costs_little() -> None:
    """Goal: a name made of the words between names is split in linear time: a megabyte of it in a moment."""
    name = " in group " * 100_000
    found = java(f"Member {MEMBER} in group {name} has failed, removing it from the group.")
    assert (found["kind"], found["group_id"]) == ("member_failed", name)
