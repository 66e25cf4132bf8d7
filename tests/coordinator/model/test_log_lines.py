"""The server log: the broker's texts, word for word, where and when the broker writes them."""

import ast
from pathlib import Path
from typing import Any

from groupledger.coordinator.model.log_lines import LogEvent, render, render_line
from groupledger.schemas.kafka.coordinator_log import CLASSIC, OTHERS
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.log_template import current_formats
from groupledger.schemas.kafka.rebalance_reasons import REASONS

ROOT = Path(__file__).parents[3]


def texts(driver: Any) -> list[str]:
    lines = [render(event) for event in driver.events]
    driver.events.clear()
    return lines


def test_a_dynamic_member_lives_and_fails(driver: Any) -> None:
    """From the first join to the empty group, as a broker logs it."""
    driver.events.clear()
    join = driver.join_with_new_id()
    member = join.request.member_id
    driver.advance(3_000)
    driver.sync(member, 1, {member: b"x"})
    driver.advance(5_000)
    assert texts(driver) == [
        (
            "Dynamic member with unknown member id joins group g1 in Empty state. Created a new member id"
            f" {member} and requesting the member to rejoin with this id."
        ),
        f"Pending dynamic member with id {member} joins group g1 in Empty state. Adding to the group now.",
        (
            "Preparing to rebalance group g1 in state PreparingRebalance with old generation 0 (reason: Adding new"
            f" member {member} with group instance id null; client reason: not provided)."
        ),
        "Stabilized group g1 generation 1 with 1 members.",
        (
            f"Assignment received from leader {member} for group g1 for generation 1. The group has 1 members, 0 of"
            " which are static."
        ),
        f"Member {member} in group g1 has failed, removing it from the group.",
        (
            "Preparing to rebalance group g1 in state PreparingRebalance with old generation 1 (reason: removing"
            f" member {member} on heartbeat expiration.)."
        ),
        "Group g1 with generation 2 is now empty.",
    ]


def test_static_members(driver: Any) -> None:
    """Replacement, fencing and removal by an administrator."""
    group = driver.stable_group("a", "b", session_ms=60_000)
    old = next(member.member_id for member in group.members if member.group_instance_id == "a")
    other = next(member.member_id for member in group.members if member.group_instance_id == "b")
    driver.events.clear()
    new = driver.join(instance_id="a", session_ms=60_000).response.member_id
    driver.heartbeat(old, 1, instance_id="a")
    driver.commit(member_id=old, generation_id=1, group_instance_id="a")
    driver.leave(type(group.leader)("", "a"), type(group.leader)(other))
    assert texts(driver) == [
        (
            "Static member with groupInstanceId=a and unknown member id joins group g1 in Stable state. Replacing"
            f" previously mapped member {old} with this groupInstanceId."
        ),
        (
            "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger"
            " a rebalance."
        ),
        (
            f"Request memberId={old} for static member with groupInstanceId=a is fenced by existing memberId={new}"
            " during operation heartbeat"
        ),
        (
            f"Request memberId={old} for static member with groupInstanceId=a is fenced by existing memberId={new}"
            " during operation txn-offset-commit"
        ),
        f"[Group g1] Member {new} has left group through explicit `LeaveGroup` request; client reason: not provided",
        f"[Group g1] Member {other} has left group through explicit `LeaveGroup` request; client reason: not provided",
        (
            "Preparing to rebalance group g1 in state PreparingRebalance with old generation 1 (reason: explicit"
            f" `LeaveGroup` request for (, {other}) members.)."
        ),
        "Group g1 with generation 2 is now empty.",
    ]


def test_rebalance_that_members_miss(driver: Any) -> None:
    """Dynamic members are purged, the leader is replaced, the sync timer names those it removes."""
    group = driver.stable_group("a", None, session_ms=60_000)
    static, dynamic = sorted(group.members, key=lambda member: member.group_instance_id is None)
    driver.events.clear()
    joined = driver.join_with_new_id(session_ms=60_000).request.member_id
    driver.advance(10_000)
    driver.advance(10_000)
    lines = texts(driver)
    assert f"Group g1 removed dynamic members who haven't joined: [{dynamic.member_id}]" in lines
    removed = [line for line in lines if "pending sync" in line]
    assert len(removed) == 1
    assert removed[0].startswith(
        "Preparing to rebalance group g1 in state PreparingRebalance with old generation 2 (reason: Removing ["
    )
    assert static.member_id in removed[0]
    assert joined in removed[0]
    assert [line for line in lines if line.startswith("Group leader [memberId: ")] == [
        (
            f"Group leader [memberId: {static.member_id}, groupInstanceId: a] failed to join before the rebalance"
            f" timeout. Member ClassicGroupMember(memberId='{joined}', groupInstanceId='', clientId='client',"
            " clientHost='/127.0.0.1', rebalanceTimeoutMs=10000, sessionTimeoutMs=60000, protocolType='consumer',"
            " supportedProtocols=[range]) was elected as the new leader."
        )
    ]


def test_empty_assignments(driver: Any) -> None:
    """If a leader forgets members, the log names those that the coordinator filled in, and those that get an empty
    assignment."""
    group = driver.completing_group(None)
    driver.events.clear()
    member = group.leader.member_id
    driver.sync(member, 1, {})
    assert texts(driver)[1:] == [
        f"Setting empty assignments for members {{{member}=[B@0}} of g1 for generation 1.",
        f"Sending empty assignment to member {member} of g1 for generation 1 with no errors",
    ]


def test_failed_appends(driver: Any) -> None:
    """What the log says when it cannot be written."""
    group = driver.stable_group("a")
    driver.events.clear()
    driver.fail_next_append(Error.NOT_ENOUGH_REPLICAS)
    driver.join(instance_id="a")
    driver.fail_next_append(Error.NOT_ENOUGH_REPLICAS)
    driver.leave(group.leader)
    lines = texts(driver)
    assert lines[2].startswith("Failed to persist metadata for group g1 static member a-")
    assert lines[2].endswith(f"due to NOT_ENOUGH_REPLICAS. Reverting to old member id {group.leader.member_id}.")
    assert lines[-1] == "Failed to write empty metadata for group g1: NOT_ENOUGH_REPLICAS"


def test_simple_group_and_deletion(driver: Any) -> None:
    """Offsets without members, and their end."""
    driver.events.clear()
    driver.commit()
    driver.advance(driver.config.offsets_retention_ms)
    assert texts(driver) == [
        "[GroupId g1] Creating a simple consumer group via manual offset commit.",
        "Generated 2 tombstone records while cleaning up group metadata in 0 milliseconds.",
    ]


def test_whole_line() -> None:
    """Timestamp in UTC, level, prefix, message and logger, in the pattern of the shipped configuration."""
    event = LogEvent(1_770_716_700_123, 42, "no_members_rejoined", {"group_id": "g1"})
    assert render_line(event, broker_id=3) == (
        "[2026-02-10 09:45:00,123] ERROR [GroupCoordinator id=3 topic=__consumer_offsets partition=42] Group g1"
        " could not complete rebalance because no members rejoined."
        " (org.apache.kafka.coordinator.group.GroupMetadataManager)"
    )


def test_hostile_names_stay_text() -> None:
    """A group called like a template's field is printed, not expanded."""
    event = LogEvent(0, 0, "group_now_empty", {"group_id": "{generation}", "generation": 1})
    assert render(event) == "Group {generation} with generation 1 is now empty."


def test_every_kind_has_a_template() -> None:
    """Goal: each line that the coordinator logs, and each reason that it gives, is in the table of a broker's texts."""
    logged = set()
    reasons = set()
    for path in (ROOT / "coordinator" / "model").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            name = ast.unparse(node.func)
            if name in ("operation.log", "output.log"):
                logged.add(node.args[0].value)
            elif name in ("Reason", "_reason"):
                reasons.add(node.args[0].value)
    assert len(logged) > 20
    assert logged <= set(current_formats((*CLASSIC, *OTHERS)))
    assert len(reasons) > 10
    assert reasons <= set(current_formats(REASONS))
