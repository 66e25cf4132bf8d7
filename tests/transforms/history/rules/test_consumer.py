"""The fold of KIP-848 groups, over a real broker's log: epochs and their causes, members, owners, convergence."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from operator import itemgetter
from typing import Any

import pytest

from groupledger.schemas.words import Completeness, MemberState
from groupledger.transforms.history.rules.events import CommitSums, Coverage
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.history.rules.group_timeline import timeline
from groupledger.transforms.history.rules.modern_records import UNREVOKED
from lab.truth.consumer_groups import Table, as_described, comparable_description, wrong_state
from tests.transforms.history.rules.consumer_groups import (
    consumer_groups,
    event,
    of_group,
    tables_of,
    topic_names,
)

GROUPS = ("dynamic", "static", "migrated")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
CURRENT = "consumer_group_current_member_assignment"


@pytest.fixture(scope="module")
def log() -> list[dict[str, Any]]:
    return consumer_groups()


def whole(log: list[dict[str, Any]], group_id: str) -> dict[str, Table]:
    return tables_of(group_id, [[event(record) for record in of_group(log, group_id)]])


@pytest.mark.parametrize("group_id", GROUPS)
def test_cut_anywhere(log: list[dict[str, Any]], group_id: str) -> None:
    """Goal: a log that is folded record by record gives the tables of the whole, though operations are cut in two."""
    events = [event(record) for record in of_group(log, group_id)]
    assert tables_of(group_id, [[each] for each in events]) == whole(log, group_id)


def test_causes(log: list[dict[str, Any]]) -> None:
    """Goal: each epoch names what its operation did, and how sure its trigger is; a leave and a kill look the same."""
    rebalances = whole(log, "dynamic")["rebalances"].values()
    reported = [
        ([each["kind"] for each in row["changes"]], row["inferred_trigger"], row["inferred_trigger_confidence"] == 1)
        for row in rebalances
    ]
    assert reported == [
        (["group_started"], "joined", True),
        (["member_joined"], "joined", True),
        (["member_joined"], "joined", True),
        (["member_left"], "left", False),
        (["topics_changed"], "topics_changed", True),
        (["member_left"], "left", False),
        (["member_left", "group_emptied"], "left", False),
    ]
    assert not any(row["is_hole"] for row in rebalances)


@pytest.mark.parametrize(("after_ms", "cause"), [(299_999, "left"), (300_000, "rebalance_timeout")])
def test_who_gave_nothing_up_in_time(log: list[dict[str, Any]], after_ms: int, cause: str) -> None:
    """Goal: a member that still held what others waited for when its rebalance timeout was over was fenced for that;
    one that went before left, as far as the records show."""
    records = of_group(log, "dynamic")
    held = next(n for n, each in enumerate(records) if each["value"] and each["value"].get("state") == UNREVOKED)
    end = next(n for n, each in enumerate(records) if each["step"] == "v is killed")
    *tombstones, epoch = ({**each, "after_ms": records[held]["after_ms"] + after_ms} for each in records[end : end + 4])
    gone = [{**each, "key": {**each["key"], "member_id": "id-1"}} for each in tombstones]
    gone.append({**epoch, "value": {**epoch["value"], "epoch": 3}})
    tables = tables_of("dynamic", [[event(each) for each in [*records[: held + 1], *gone]]])
    (row,) = (row for row in tables["members"].values() if row["member_id"] == "id-1")
    assert row["leave_cause"] == cause
    last = max(tables["rebalances"].values(), key=itemgetter("to_generation"))
    assert (last["to_generation"], last["inferred_trigger"]) == (3, cause)


@pytest.mark.parametrize(("session_ms", "cause"), [(45_000, "left"), (20_000, "session_expired")])
def test_the_brokers_session(log: list[dict[str, Any]], session_ms: int, cause: str) -> None:
    """Goal: a member that committed every second and went 25 s after its last commit left where the brokers wait for
    45 s, as they do unless set otherwise, and fell silent where they wait for 20 s; no table says what they were set
    to."""
    records = of_group(log, "dynamic")
    joins, goes = records[:5], records[-4:]
    topic = joins[2]["value"]["topic_partitions"][0]["topic_id"]
    commits = CommitSums(topic, 0, 5, 12, 8, 1_000, 8_000, 10, 80)
    gone = [{**each, "after_ms": 33_000} for each in goes]
    gone[3]["value"] = {**gone[3]["value"], "epoch": 2}
    events = [*map(event, joins), commits, *map(event, gone)]
    covered = [Coverage(0, Completeness.COMPLETE), *events]
    rows = fold("dynamic", 0, None, covered, consumer_session_timeout_ms=session_ms).rows
    (member,) = rows["members"]
    assert (member["leave_cause"], member["session_timeout_ms"]) == (cause, None)
    assert rows["rebalances"][-1]["inferred_trigger"] == cause
    assert f"session timeout {session_ms} ms" in rows["rebalances"][-1]["inferred_trigger_explanation"]


def test_movement_is_by_target(log: list[dict[str, Any]]) -> None:
    """Goal: a rebalance moves what its target gives to others; the new partition of a topic is gained."""
    columns = ("partitions_kept", "partitions_moved", "partitions_gained", "partitions_lost")
    moved = {key[1]: [row[name] for name in columns] for key, row in whole(log, "dynamic")["rebalances"].items()}
    assert moved[1] == [0, 0, 4, 0]
    assert moved[2] == [2, 2, 0, 0]
    assert moved[5] == [4, 0, 1, 0]
    assert moved[6] == [2, 3, 0, 0]
    assert moved[7] == [None] * 4  # nobody was there to ask for a target


def test_movement_after_a_static_member_came_back(log: list[dict[str, Any]]) -> None:
    """Goal: a static member that was replaced keeps its partitions in the next epoch: they did not move."""
    records = [each for each in of_group(log, "static") if each["kafka_offset"] < 210]
    assert moved_by_epoch([*records, *_epoch(records, 3)])[3] == [2, 0, 0, 0]


def test_movement_after_the_group_was_empty(log: list[dict[str, Any]]) -> None:
    """Goal: the first member after all had left takes its partitions from nobody: they are gained."""
    records = of_group(log, "static")
    first = [records[0], records[2]]  # the member and its target
    member, target = ({**each, "key": {**each["key"], "member_id": "id-9"}, "kafka_offset": 300} for each in first)
    epoch, targeted = _epoch(records, 5)
    joined = [{**each, "kafka_offset": 300 + n} for n, each in enumerate((member, epoch, target, targeted))]
    assert moved_by_epoch([*records, *joined])[5] == [0, 0, 2, 0]


def moved_by_epoch(records: list[dict[str, Any]]) -> dict[int, list[int | None]]:
    """Returns the numbers of partitions that were kept, moved, gained and lost, by epoch."""
    columns = ("partitions_kept", "partitions_moved", "partitions_gained", "partitions_lost")
    rows = tables_of("static", [[event(record) for record in records]])["rebalances"]
    return {key[1]: [row[name] for name in columns] for key, row in rows.items()}


def _epoch(records: list[dict[str, Any]], epoch: int) -> list[dict[str, Any]]:
    """Returns the record of a later epoch, and that of its target, with the offsets after the log."""
    of_type = {each["record_type"]: each for each in records if each["record_type"].endswith("metadata")}
    last, at_ms = records[-1]["kafka_offset"], records[-1]["after_ms"] + 1_000
    values = {"consumer_group_metadata": "epoch", "consumer_group_target_assignment_metadata": "assignment_epoch"}
    return [
        {
            **of_type[name],
            "value": {**of_type[name]["value"], column: epoch},
            "kafka_offset": last + n,
            "after_ms": at_ms,
        }
        for n, (name, column) in enumerate(values.items(), 1)
    ]


def owners_by_records(records: list[dict[str, Any]]) -> list[tuple[int, dict[tuple[str, int], str]]]:
    """Returns who owned what after each record, computed from the current assignments by the rule alone."""
    held: dict[str, set[tuple[str, int]]] = {}
    found = []
    for record in records:
        if record["record_type"] == CURRENT:
            value = record["value"]
            units = [] if value is None or value["member_epoch"] == -2 else value["assigned_partitions"]
            units = units if not units else [*units, *value["partitions_pending_revocation"]]
            held[record["key"]["member_id"]] = {(each["topic_id"], n) for each in units for n in each["partitions"]}
        found.append((record["kafka_offset"], {unit: who for who, units in held.items() for unit in units}))
    return found


def owners_at(assignments: Table, offset: int) -> dict[tuple[str, int], str]:
    return {
        (row["topic"], row["partition"]): row["member_id"]
        for row in assignments.values()
        if row["from_offset"] <= offset and (row["to_offset"] is None or offset < row["to_offset"])
    }


@pytest.mark.parametrize("group_id", ["dynamic", "static"])
def test_owners(log: list[dict[str, Any]], group_id: str) -> None:
    """Goal: after every record, the owners are those that the members' newest assignments name; a member that is away
    owns nothing."""
    records = of_group(log, group_id)
    assignments = whole(log, group_id)["assignments"]
    reported = [(offset, owners_at(assignments, offset)) for offset, _ in owners_by_records(records)]
    assert reported == owners_by_records(records)


def test_who_waited_for_whom(log: list[dict[str, Any]]) -> None:
    """Goal: while a poll loop stands still, the steps say for which partitions the new member waits, and for whom."""
    steps = whole(log, "dynamic")["member_epochs"].values()
    waiting = [row for row in steps if row["state"] == MemberState.UNRELEASED and row["member_epoch"] == 2]
    (holder,) = (row for row in steps if row["state"] == MemberState.UNREVOKED and row["member_epoch"] == 1)
    assert {each["held_by"] for row in waiting for each in row["waits_for"]} == {holder["member_id"]}
    (pending,) = holder["pending_revocation"]
    assert [each["partition"] for each in waiting[0]["waits_for"]] == pending["partitions"]


def test_convergence(log: list[dict[str, Any]]) -> None:
    """Goal: an epoch has converged when the last of its members is stable at it, and an overtaken one never has."""
    tables = whole(log, "dynamic")
    stable: dict[int, int] = {}
    for row in tables["member_epochs"].values():
        if row["state"] == MemberState.STABLE:
            stable[row["member_epoch"]] = max(stable.get(row["member_epoch"], 0), row["valid_from"])
    converged = {key[1]: row["converged_at"] for key, row in tables["generations"].items()}
    assert {epoch: at for epoch, at in converged.items() if at is not None} == stable
    assert {row["generation"] for row in whole(log, "static")["generations"].values() if not row["converged_at"]} == {
        3,
        4,
    }


def test_a_static_member_that_comes_back(log: list[dict[str, Any]]) -> None:
    """Goal: the return of a static member is a revision that replaces it, and no rebalance."""
    tables = whole(log, "static")
    revision = tables["generations"][1, 2, 1]
    (change,) = revision["changes"]
    assert (change["kind"], change["group_instance_id"]) == ("member_replaced", "i1")
    causes = {row["member_id"]: row["leave_cause"] for row in tables["members"].values()}
    assert causes[change["previous_member_id"]] == "replaced"
    assert [key[1] for key in tables["rebalances"]] == [1, 2, 3, 4]


def test_there_and_back(log: list[dict[str, Any]]) -> None:
    """Goal: a live upgrade and the live downgrade after it keep the incarnation and the numbers; a member left at the
    downgrade if the classic record lacks it, and every rebalance is reported in full."""
    tables = whole(log, "migrated")
    rows = [(*key, row["group_type"], row["ended_by"]) for key, row in tables["generations"].items()]
    assert rows == [
        (1, 0, 0, "classic", "generation"),
        (1, 1, 0, "classic", "upgrade"),
        (1, 1, 1, "consumer", "generation"),
        (1, 2, 0, "consumer", "downgrade"),
        (1, 2, 1, "classic", "generation"),
        (1, 3, 0, "classic", "generation"),
        (1, 4, 0, "classic", None),
    ]
    (left,) = tables["generations"][1, 2, 1]["changes"]
    assert (left["kind"], left["client_id"]) == ("member_left", "migrated-new")
    assert not any(row["is_hole"] for row in tables["rebalances"].values())
    stays = [row for row in tables["members"].values() if row["member_id"] != left["member_id"]]
    assert [(row["group_type"], row["to_generation"]) for row in stays] == [("classic", 1), ("classic", 3)]


def compacted(records: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Returns the log as the cleaner leaves it when it has cleaned the first `count` records: of each key its newest,
    and no tombstone."""
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records[:count]:
        newest[record["record_type"], str(record["key"])] = record
    kept = [record for record in newest.values() if record["value"] is not None]
    return [*sorted(kept, key=itemgetter("kafka_offset")), *records[count:]]


@pytest.mark.parametrize("group_id", GROUPS)
def test_a_compacted_beginning(log: list[dict[str, Any]], group_id: str) -> None:
    """Goal: after a compacted beginning of any length the owners are the true ones, and every reported epoch, cause,
    movement or convergence is that of the whole log."""
    records = of_group(log, group_id)
    truth = whole(log, group_id)
    for count in range(1, len(records)):
        begin = records[count]["kafka_offset"]
        if records[count]["after_ms"] == records[count - 1]["after_ms"]:
            continue  # a batch is cleaned as a whole
        marks = [Coverage(0, Completeness.COMPACTED), Coverage(begin, Completeness.COMPLETE)]
        found = tables_of(group_id, [[event(record) for record in compacted(records, count)]], marks)
        for record in records[count:]:
            offset = record["kafka_offset"]
            assert owners_at(found["assignments"], offset) == owners_at(truth["assignments"], offset)
        by_number = {key[1]: row for key, row in truth["rebalances"].items()}
        for key, row in found["rebalances"].items():
            if not row["is_hole"]:
                for name in ("changes", "inferred_trigger", "partitions_moved", "partitions_kept"):
                    assert row[name] == by_number[key[1]][name], (count, key, name)
        for key, row in found["generations"].items():
            if row["converged_at"] is not None:
                assert row["converged_at"] in {each["converged_at"] for each in truth["generations"].values()}, (
                    count,
                    key,
                )


def test_the_timeline(log: list[dict[str, Any]]) -> None:
    """Goal: an epoch's entry has the members that came and went in the records before it, the partitions that moved
    after it, and the members for which others waited, and for how long; a conversion brings nobody and takes nobody."""
    entries = {group_id: timeline_of(whole(log, group_id)) for group_id in ("dynamic", "migrated")}
    joins = entries["dynamic"][1]
    assert [each["client_id"] for each in joins["joined"]] == ["dynamic-b"]
    (wait,) = joins["waited_for"]
    assert [number for _, number in wait["partitions"]] == [2, 3]
    assert wait["waited_ms"] == (joins["converged_at"] - joins["at"]) // timedelta(milliseconds=1)
    moved = {(each["partition"], each["to_member_id"]) for each in joins["moves"]}
    assert moved == {(2, joins["joined"][0]["member_id"]), (3, joins["joined"][0]["member_id"])}
    assert [len(each["left"]) for each in entries["dynamic"]] == [0, 0, 0, 1, 0, 1, 1]
    for each in entries["dynamic"]:  # who leaves releases at that moment, and nobody else then
        assert {move["from_member_id"] for move in each["moves"]} >= {member["member_id"] for member in each["left"]}
    assert {move["to_member_id"] for move in entries["dynamic"][-1]["moves"]} == {None}
    events = [(each["event"], len(each["joined"]), len(each["left"])) for each in entries["migrated"]]
    assert events == [
        ("group_started", 0, 0),
        ("group_started", 1, 0),
        ("upgraded", 0, 1),
        ("revision", 0, 0),
        ("rebalance", 1, 0),
        ("downgraded", 0, 0),
        ("revision", 0, 1),
        ("rebalance", 0, 0),
        ("rebalance", 0, 1),
    ]


def timeline_of(tables: dict[str, Table]) -> list[dict[str, Any]]:
    """Returns the timeline of rows whose instants are microseconds, as those of a table."""

    def of_table(name: str) -> list[dict[str, Any]]:
        instants = ("started_at", "ended_at", "targeted_at", "converged_at", "valid_from", "valid_to", "left_at")
        return [
            row | {each: EPOCH + timedelta(microseconds=row[each]) for each in instants if row.get(each) is not None}
            for row in tables[name].values()
        ]

    return timeline(*map(of_table, ("generations", "rebalances", "members", "assignments", "member_epochs")))


SAYS = [
    pytest.param(name, said, id=f"{name}: {said['group_id']}: {said['step']}")
    for name in ("consumer_groups", "consumer_groups_4_4")
    for said in consumer_groups(f"{name}_described")
]


@pytest.mark.parametrize(("name", "said"), SAYS)
def test_the_broker_says_the_same(name: str, said: dict[str, Any]) -> None:
    """Goal: at the end of each step the open rows agree with the broker's answer: epochs, members, what each owns, and
    whether the group was stable."""
    log = consumer_groups(name)
    names = topic_names(log)
    before = [each for each in of_group(log, said["group_id"]) if each["after_ms"] <= said["after_ms"]]
    tables = tables_of(said["group_id"], [[event(record, names) for record in before]])
    assert as_described(tables, counts_pending=name.endswith("_4_4")) == comparable_description(said)
    assert not wrong_state(tables, said)
