"""Compares the tables of a share or streams group with a broker's description of the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import GroupType, MemberState, TaskRole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.truth.consumer_groups import Table

ROLES = (TaskRole.ACTIVE, TaskRole.STANDBY, TaskRole.WARMUP)


def topic_names(log: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Returns topic names by topic id, as the records of share groups have them."""
    metadata = (record["value"] for record in log if record["record_type"] == "share_group_state_partition_metadata")
    return {
        topic["topic_id"]: topic["topic_name"]
        for value in metadata
        if value
        for topic in (*value["initializing_topics"], *value["initialized_topics"])
    }


def open_rows(table: Table) -> list[dict[str, Any]]:
    return [row for row in table.values() if row["valid_to"] is None]


def held(tables: Mapping[str, Table], group_type: str) -> dict[str, list[list[str]]]:
    """Returns what each present member holds, as sorted lists in the form of the broker's description: one list of
    partitions in a share group, and lists of active, standby and warm-up tasks in a streams group."""
    present = [row["member_id"] for row in tables["members"].values() if row["left_at"] is None]
    members: dict[str, list[list[str]]]
    if group_type == GroupType.SHARE:
        members = {member_id: [[]] for member_id in present}
        for row in open_rows(tables["share_assignments"]):
            members[row["member_id"]][0].append(f"{row['topic']}-{row['partition']}")
    else:
        members = {member_id: [[], [], []] for member_id in present}
        for row in open_rows(tables["stream_tasks"]):
            members[row["member_id"]][ROLES.index(row["role"])].append(f"{row['subtopology']}_{row['partition']}")
    return {member_id: [sorted(each) for each in of_member] for member_id, of_member in members.items()}


def differs_from(said: Mapping[str, Any], tables: Mapping[str, Table], group_type: str) -> list[str]:
    """Returns a sentence for each difference between the tables and the broker's description of a group at rest: epoch,
    target, members, their epochs, partitions or tasks, and whether all members have reached their target."""
    (generation,) = (row for row in tables["generations"].values() if row["is_current"])
    steps = open_rows(tables["member_epochs"])
    found = {
        "epoch": (generation["generation"], said["epoch"]),
        "target": (generation["targeted_at"] is not None, said["assignment_epoch"] == said["epoch"]),
        "member epochs": (
            {row["member_id"]: row["member_epoch"] for row in steps},
            {member["member_id"]: member["member_epoch"] for member in said["members"]},
        ),
        "held": (held(tables, group_type), {member["member_id"]: member["holds"] for member in said["members"]}),
    }
    if said["members"]:
        found["state"] = ("Stable", said["state"])
        found["converged"] = (generation["converged_at"] is not None, True)
        found["member states"] = ({row["state"] for row in steps}, {MemberState.STABLE})
    return [f"{name}: {ours}, and the broker says {theirs}" for name, (ours, theirs) in found.items() if ours != theirs]
