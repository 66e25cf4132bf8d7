"""Each rule of meaning on a short log written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.transforms.history.rules.events import Coverage
from groupledger.transforms.history.rules.fold import LogOrderError, fold
from lab.truth.histories import ALL_COMPLETE, Commit, Log, Tables, everything, folded, member, stretch, summaries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.truth.histories import Entry

COMPACTED_FIRST = (Coverage(0, "compacted"), Coverage(3, "complete"))


# Incarnations, generations, revisions


def test_first_generation_starts_the_group() -> None:
    """Goal: from the record of generation 0 to 1 is group_started and nothing else; the newcomers are members."""
    tables = folded(Log().birth().record(1, member("a", 0), member("b", 1)).entries)
    assert [row["generation"] for row in tables.table("generations")] == [0, 1]
    (row,) = tables.table("rebalances")
    assert tables.kinds(1) == ["group_started"]
    assert (row["is_hole"], row["generation_gap"], row["from_generation"]) == (False, 0, 0)
    assert (row["partitions_gained"], row["partitions_moved"], row["pause_scope"]) == (2, 0, None)
    assert row["inferred_trigger"] == "joined"
    assert [row["joined_at"] for row in tables.table("members")] == [2_000_000, 2_000_000]
    assert tables.group["member_count"] == 2


def test_group_without_a_birth_record_starts_too() -> None:
    """Goal: coordinators before 4.0 write no generation 0, and a simple group that members join has none."""
    assert folded(Log().record(1, member("a", 0)).entries).kinds(1) == ["group_started"]
    tables = folded(Log().commit(0).record(1, member("a", 0)).entries)
    assert tables.kinds(1) == ["group_started"]
    assert tables.group["incarnation"] == 1


def test_generations_follow_one_another() -> None:
    """Goal: a generation ends where the next one begins; one is current."""
    first, second = folded(Log().record(1, member("a", 0)).record(2, member("a", 0)).entries).table("generations")
    assert (first["ended_at"], first["to_offset"], first["ended_by"]) == (2_000_000, 2, "generation")
    assert (first["is_current"], first["is_end_known"], second["is_current"], second["ended_at"]) == (
        False,
        True,
        True,
        None,
    )


def test_static_replacement_is_a_revision() -> None:
    """Goal: the same generation with a new member id adds a revision, moves the interval, and is no rebalance."""
    old, other = member("x-1", 0, group_instance_id="x"), member("b", 1)
    new = member("x-2", 0, group_instance_id="x")
    tables = folded(Log().record(1, old, other).record(1, new, other).record(2, new, other).entries)
    assert [(row["generation"], row["revision"], row["leader"]) for row in tables.table("generations")] == [
        (1, 0, "x-1"),
        (1, 1, "x-2"),
        (2, 0, "x-2"),
    ]
    assert len(tables.table("rebalances")) == 2
    kinds = [change["kind"] for change in tables.table("generations")[1]["changes"]]
    assert kinds == ["member_replaced", "leader_changed"]
    assert [(row["member_id"], row["leave_cause"]) for row in tables.table("members")] == [
        ("b", None),
        ("x-1", "replaced"),
        ("x-2", None),
    ]
    owners = [(row["partition"], row["member_id"], row["to_generation"]) for row in tables.table("assignments")]
    assert owners == [(0, "x-1", 1), (0, "x-2", None), (1, "b", None)]
    assert tables.changes(2) == []
    assert tables.rows["rebalances"][1, 2]["partitions_kept"] == 2


def test_a_member_id_that_comes_back_has_another_tenure() -> None:
    """Goal: a client may make up the ids of its members, and use one again: the first tenure keeps its row."""
    log = Log().record(1, member("a", 0), member("b", 1)).record(2, member("b", 0, 1))
    tables = folded(log.record(3, member("a", 0), member("b", 1)).entries)
    tenures = [(row["from_offset"], row["to_offset"]) for row in tables.table("members") if row["member_id"] == "a"]
    assert tenures == [(1, 2), (3, None)]


def test_identical_rewrite_adds_nothing() -> None:
    """Goal: a retried sync leaves every table as it was but for the group's position."""
    once = folded(Log().record(1, member("a", 0)).entries)
    twice = folded(Log().record(1, member("a", 0)).record(1, member("a", 0)).entries)
    for table in ("generations", "members", "assignments", "rebalances"):
        assert twice.table(table) == once.table(table)


def test_tombstone_ends_an_incarnation() -> None:
    """Goal: the next record begins incarnation 2 from nothing, and the emptied group before it was unowned."""
    log = Log().birth().record(1, member("a", 0)).record(2).tombstone()
    gone = folded(log.entries)
    assert (gone.group["is_alive"], gone.table("generations")[-1]["ended_by"]) == (False, "tombstone")
    tables = folded(log.birth().record(1, member("b", 0)).entries)
    assert [row["incarnation"] for row in tables.table("generations")] == [1, 1, 1, 2, 2]
    assert tables.kinds(1, incarnation=2) == ["group_started"]
    assert {row["finding"] for row in tables.table("generations")} == {None}
    assert tables.group["is_alive"]


def test_decrease_without_tombstone() -> None:
    """Goal: a lower generation is a new incarnation; a finding only where a tombstone can't have been missed."""
    entries = Log().record(5, member("a", 0)).record(2, member("b", 0)).record(3, member("b", 0)).entries
    complete = folded(entries)
    assert [(row["incarnation"], row["finding"]) for row in complete.table("generations")] == [
        (1, None),
        (2, "generation_decreased"),
        (2, None),
    ]
    assert complete.rows["rebalances"].keys() == {(1, 5), (2, 3)}
    compacted = folded(entries, COMPACTED_FIRST)
    assert [row["incarnation"] for row in compacted.table("generations")] == [1, 2, 2]
    assert {row["finding"] for row in compacted.table("generations")} == {None}
    assert complete.table("assignments")[0]["is_end_known"] is False


def test_live_upgrade_closes_the_classic_rows() -> None:
    """Goal: KIP-848 records of the tombstone's own operation keep the incarnation; so does the downgrade, whose
    generation is the last epoch; the rebalance after it is reported."""
    log = Log().record(4, member("a", 0)).tombstone().other("consumer", same_time=True)
    pending = folded(log.entries)
    assert pending.table("generations")[0]["ended_by"] == "tombstone"
    log.other("consumer", 4, same_time=True).other("consumer", 5).commit(0)
    tables = folded(log.entries)
    assert tables.table("generations")[0]["ended_by"] == "upgrade"
    assert tables.table("members")[0]["leave_cause"] == "upgraded"
    assert tables.table("assignments")[0]["is_end_known"]
    assert (tables.group["group_type"], tables.group["group_epoch"], tables.group["incarnation"]) == ("consumer", 5, 1)
    log.other("consumer", gone=True).removed("consumer")
    log.record(5, member("a", 0), same_time=True)
    tables = folded(log.entries)
    assert (tables.group["group_type"], tables.group["incarnation"], tables.group["generation"]) == ("classic", 1, 5)
    assert tables.group["committed_partition_count"] == 1
    assert [row["to_generation"] for row in tables.table("rebalances")] == [4, 5]  # a conversion is no rebalance
    rows = [(row["generation"], row["revision"], row["ended_by"]) for row in tables.table("generations")]
    assert rows == [(4, 0, "upgrade"), (4, 1, "generation"), (5, 0, "downgrade"), (5, 1, None)]
    tables = folded(log.record(6, member("a", 0), member("b")).entries)
    assert [row["to_generation"] for row in tables.table("rebalances")] == [4, 5, 6]
    assert tables.kinds(6) == ["member_joined"]


def test_a_downgrade_with_no_epoch_since_the_upgrade() -> None:
    """Goal: a number that stays the same through both conversions has a revision for each of them."""
    log = Log().record(4, member("a", 0)).tombstone().other("consumer", 4, same_time=True)
    log.other("consumer", gone=True).record(4, member("a", 0), same_time=True)
    tables = folded(log.entries)
    rows = [(row["incarnation"], row["revision"], row["group_type"]) for row in tables.table("generations")]
    assert rows == [(1, 0, "classic"), (1, 1, "consumer"), (1, 2, "classic")]


def test_an_upgrade_right_behind_a_hole() -> None:
    """Goal: the classic row stays, though nobody saw what the hole may have hidden."""
    log = Log().birth().record(1, member("a", 0)).mark("unknown")
    log.offset += 3
    log.mark("complete").tombstone().other("consumer", same_time=True).other("consumer", 1, same_time=True)
    rows = [(row["revision"], row["group_type"], row["ended_by"]) for row in folded(log.entries).table("generations")]
    assert rows[1:] == [(0, "classic", "hole"), (1, "consumer", None)]


def test_no_live_downgrade() -> None:
    """Goal: a record of another operation than the tombstone's is another incarnation."""
    log = Log().record(4, member("a", 0)).tombstone().other("consumer", 4, same_time=True).other("consumer", 5)
    tables = folded(log.other("consumer", gone=True).record(5, member("a", 0)).entries)
    assert tables.group["incarnation"] == 2
    assert tables.table("generations")[0]["generation"] == 4
    assert tables.table("generations")[0]["ended_by"] == "upgrade"


@pytest.mark.parametrize(
    ("epoch", "same_time"), [(1, True), (9, False)], ids=["an empty group starts again", "a later group"]
)
def test_no_conversion(epoch: int, *, same_time: bool) -> None:
    """Goal: an epoch below the generation, or another operation, is another incarnation."""
    tables = folded(Log().record(4).tombstone().other("consumer", epoch, same_time=same_time).entries)
    assert tables.group["incarnation"] == 2
    assert tables.table("generations")[0]["ended_by"] == "tombstone"


def test_an_empty_group_that_changes_its_type_is_another_one_with_its_offsets() -> None:
    """Goal: an empty group is not upgraded but begins again with epoch 1, whatever its generation was; its offsets were
    not removed, so they stay, on the way back too."""
    births: list[Log] = [Log().birth(), Log().birth().record(1), Log().commit(0, 1)]
    for log in births:
        log.commit(0, 1).tombstone().other("consumer", same_time=True).other("consumer", 1, same_time=True)
        tables = folded(log.entries)
        assert (tables.group["group_type"], tables.group["incarnation"]) == ("consumer", 2)
        classic = [row for row in tables.table("generations") if row["group_type"] == "classic"]
        assert {row["ended_by"] for row in classic} <= {"generation", "tombstone"}
        assert tables.group["committed_partition_count"] == 2
        log.other("consumer", gone=True).record(0, protocol_type="", same_time=True)
        back = folded(log.entries).group
        assert (back["group_type"], back["incarnation"], back["committed_partition_count"]) == ("classic", 3, 2)


def test_a_later_group_has_no_offsets_of_the_one_before() -> None:
    """Goal: if a hole hid the removal of offsets, the tombstone of their group removes them."""
    log = Log().record(1).commit(0).mark("unknown")
    log.offset += 10
    log.mark("complete").tombstone().birth()
    assert folded(log.entries).group["committed_partition_count"] == 0


def test_a_group_is_upgraded_while_its_first_members_join() -> None:
    """Goal: a rebalance that is under way has no record: an epoch above that of a new group shows that it was not empty
    any more."""
    log = Log().birth().record(1).tombstone().other("consumer", 2, same_time=True)
    tables = folded(log.entries)
    assert (tables.group["group_type"], tables.group["incarnation"]) == ("consumer", 1)
    assert tables.table("generations")[-2]["ended_by"] == "upgrade"
    assert tables.table("rebalances")[-1]["hole_cause"] == "converted"


@pytest.mark.parametrize("group_type", ["streams", "share", "consumer"])
def test_what_is_removed_behind_the_group_does_not_bring_it_back(group_type: str) -> None:
    """Goal: the tombstone of a member or a topology begins no group: Kafka 4.2 writes that of a streams group's
    topology after that of the group."""
    log = Log().other(group_type, 2).removed(group_type).other(group_type, gone=True).removed(group_type)
    tables = folded(log.entries)
    assert (tables.group["is_alive"], tables.group["incarnation"]) == (False, 1)
    assert folded(log.wait(60_000).removed(group_type).entries).group["is_alive"] is False
    assert folded(log.other(group_type, 2).entries).group["incarnation"] == 2


def test_group_of_another_type() -> None:
    """Goal: a group of another type appears in groups by its type, with its epoch, and nowhere else."""
    tables = folded(Log().other("share", 1).other("share", 2).entries)
    assert (tables.group["group_type"], tables.group["group_epoch"], tables.group["is_simple"]) == ("share", 2, False)
    assert not any(tables.table(name) for name in ("generations", "members", "assignments", "rebalances"))


# Holes


def test_unsynced_generations_are_a_hole() -> None:
    """Goal: a jump counts the increments without a record apart and claims nothing."""
    tables = folded(Log().record(3, member("a", 0)).record(6, member("b", 0)).entries)
    first, second = tables.table("rebalances")
    assert (first["is_hole"], first["generation_gap"], first["changes"]) == (True, 2, None)
    assert (second["is_hole"], second["hole_cause"], second["generation_gap"]) == (True, "not_synced", 2)
    assert second["changes"] is second["inferred_trigger"] is second["partitions_moved"] is None
    left, joined = tables.table("members")
    assert (left["leave_cause"], left["is_end_known"], joined["is_start_known"]) == (None, False, False)


def test_compacted_transitions_claim_nothing() -> None:
    """Goal: between two records of a compacted stretch anything may be gone; from its last one on all is known."""
    log = Log().record(7, member("a", 0)).record(8, member("b", 0, 1)).record(9, member("b", 0), member("c", 1))
    tables = folded(log.entries, COMPACTED_FIRST)
    assert [(row["to_generation"], row["hole_cause"]) for row in tables.table("rebalances")] == [
        (8, "not_covered"),
        (9, None),
    ]
    assert tables.rows["rebalances"][1, 8]["sync_wait_ms"] is None
    assert tables.kinds(9) == ["member_joined"]
    assert [row["is_start_known"] for row in tables.table("generations")] == [False, False, True]


def test_a_hole_ends_what_was_open() -> None:
    """Goal: after a hole the owner is unknown until a record shows it; the member is the same one."""
    log = Log().record(1, member("a", 0)).mark("unknown")
    hole_at = log.offset + 1
    log.offset += 10
    log.wait(60_000).mark("complete")
    behind = log.offset + 1
    coverage = [
        stretch(0, hole_at, (0, 5_000), "complete"),
        stretch(hole_at, behind, None, "unknown"),
        stretch(behind, 10**9, (60_000, 10**9), "complete"),
    ]
    before = folded([entry for entry in log.entries if not isinstance(entry, Coverage) or entry.from_offset < behind])
    assert (before.group["generation"], before.table("generations")[0]["ended_by"]) == (None, "hole")
    tables = folded(log.record(2, member("a", 0)).entries)
    assert tables.owner(coverage, "orders", 0, 2_000).member_ids == ("a",)
    assert tables.owner(coverage, "orders", 0, 30_000).status == "unknown"
    assert tables.owner(coverage, "orders", 0, 61_500).status == "unknown"
    assert tables.owner(coverage, "orders", 0, 62_500).member_ids == ("a",)
    assert [row["is_end_known"] for row in tables.table("assignments")] == [False, None]
    assert [row["from_generation"] for row in tables.table("members")] == [1]
    assert tables.rows["rebalances"][1, 2]["hole_cause"] == "not_covered"


def test_a_thinned_stretch_between_complete_ones() -> None:
    """Goal: records that were removed between two passes leave a hole; the newest record of a group is there, and all
    is known from it on; a group without one goes on as it was."""
    log = Log().record(1, member("a", 0)).mark("compacted").record(3, member("b", 0)).mark("complete")
    tables = folded(log.record(4, member("c", 0)).entries)
    rebalances = [(row["to_generation"], row["hole_cause"]) for row in tables.table("rebalances")]
    assert rebalances == [(1, None), (3, "not_covered"), (4, None)]
    assert [row["is_end_known"] for row in tables.table("assignments")] == [False, True, None]
    quiet = folded(Log().record(1, member("a", 0)).mark("compacted").mark("complete").entries)
    assert quiet.group["generation"] == 1
    assert [row["valid_to"] for row in quiet.table("assignments")] == [None]


def test_a_thinned_stretch_without_its_tombstones() -> None:
    """Goal: if a group's end may have come and gone, none of its open rows goes on, until a record shows."""
    log = Log().record(1, member("a", 0)).mark("compacted", is_state_lost=True).mark("complete")
    lost = folded(log.entries)
    assert (lost.group["generation"], lost.table("generations")[0]["ended_by"]) == (None, "hole")
    assert [row["is_end_known"] for row in lost.table("assignments")] == [False]
    tables = folded(log.record(2, member("a", 0)).entries)
    assert tables.rows["rebalances"][1, 2]["hole_cause"] == "not_covered"


@pytest.mark.parametrize("hiding", ["unknown", "compacted"])
def test_a_group_whose_end_may_be_hidden(hiding: str) -> None:
    """Goal: a group whose end may be hidden neither lives nor has ended, and has no known commits, until a record shows
    it again; then earlier commits are not counted. A group whose end was seen stays ended."""
    names = ("is_alive", "is_simple", "committed_partition_count", "member_count")
    log = Log().record(1, member("a", 0)).commit(0).commit(1).mark(hiding, is_state_lost=hiding == "compacted")
    log.offset += 10
    log.mark("complete")
    assert [folded(log.entries).group[name] for name in names] == [None, None, None, None]
    assert [folded(log.commit(1).entries).group[name] for name in names] == [True, False, 1, None]
    simple = Log().commit(0).mark(hiding, is_state_lost=True)
    assert [folded(simple.entries).group[name] for name in names] == [None, None, None, None]
    ended = Log().record(1, member("a", 0)).tombstone().mark(hiding, is_state_lost=True)
    assert [folded(ended.entries).group[name] for name in names] == [False, False, 0, None]


def test_a_compacted_stretch_that_has_all_its_records() -> None:
    """Goal: in such a stretch a group is known from its first record on, and another group's absence says nothing; a
    group without a record there is known again where the complete stretch begins."""
    log = Log().record(1, member("a", 0)).mark("compacted", has_all_records=True)
    renewed = folded(log.record(2, member("a", 0)).record(3, member("b", 0)).entries)
    assert [row["hole_cause"] for row in renewed.table("rebalances")] == [None, "not_covered", None]
    assert [row["is_start_known"] for row in renewed.table("members")] == [True, True]
    first = Log().mark("compacted", has_all_records=True).record(1, member("a", 0)).entries
    assert folded(first, marks=()).table("rebalances") == []
    quiet = Log().record(1, member("a", 0)).mark("compacted", has_all_records=True)
    quiet.offset += 1  # of another group
    tables = folded(quiet.mark("complete").record(2, member("b", 0)).entries)
    assert [row["is_hole"] for row in tables.table("rebalances")] == [False, False]


def test_nothing_is_claimed_without_coverage() -> None:
    """Goal: a fold that gets no coverage states records and claims nothing."""
    tables = folded(Log().record(1, member("a", 0)).record(2, member("b", 0)).entries, marks=())
    assert [row["is_hole"] for row in tables.table("rebalances")] == [True]
    assert [row["is_start_known"] for row in tables.table("assignments")] == [False, False]


# Ownership


def test_owner_at_an_instant() -> None:
    """Goal: not born, owned, unowned, ended, and unknown where coverage ends; the record's own instant belongs to the
    new owner."""
    log = Log().birth().record(1, member("a", 0)).record(2, member("b", 0)).record(3).tombstone()
    tables = folded(log.entries)
    coverage = [stretch(0, 100, (0, 10_000), "complete")]
    answers = [tables.owner(coverage, "orders", 0, at_ms) for at_ms in (500, 1_500, 2_000, 3_000, 4_000, 5_000, 10_000)]
    statuses = ["not_born", "unowned", "owned", "owned", "unowned", "ended", "unknown"]
    assert [answer.status for answer in answers] == statuses
    assert [answer.member_ids for answer in answers[2:4]] == [("a",), ("b",)]
    assert tables.owner(coverage, "orders", 1, 2_000).status == "unowned"
    assert tables.owner([stretch(0, 100, (0, 10_000), "compacted")], "orders", 0, 2_000).status == "unknown"
    other = folded(Log().other("share", 1).entries)
    assert other.owner(everything(), "orders", 0, 2_000).status == "unknown"


def test_owner_where_clocks_disagree() -> None:
    """Goal: rows belong to a stretch by offset: an instant that our clock puts into it, and the broker's before it, is
    unknown, since the record that was in force may be compacted away."""
    log = Log().record(1, member("a", 0)).record(2, member("b", 0)).record(3, member("c", 0))
    tables = folded([log.entries[0], log.entries[2]], (Coverage(0, "compacted"), Coverage(4, "complete")))
    coverage = [stretch(4, 100, (1_500, 9_000), "complete")]
    assert tables.owner(coverage, "orders", 0, 2_500).status == "unknown"
    assert tables.owner(coverage, "orders", 0, 3_500).member_ids == ("c",)
    log = Log().record(1, member("a", 0)).record(2, member("b", 0)).record(3, member("a", 0))
    back = folded([log.entries[0], log.entries[2]], (Coverage(0, "compacted"), Coverage(4, "complete")))
    assert back.owner(coverage, "orders", 0, 2_500).status == "unknown"
    assert back.owner(coverage, "orders", 0, 3_500).member_ids == ("a",)


def test_shared_partition_is_kept_and_flagged() -> None:
    """Goal: a custom assignor may give a partition to two members: one interval names both."""
    tables = folded(Log().record(1, member("b", 0), member("a", 0)).record(2, member("a", 0), member("b")).entries)
    shared, alone = tables.table("assignments")
    assert (shared["member_id"], shared["other_member_ids"], shared["to_generation"]) == ("a", ["b"], 1)
    assert (alone["member_id"], alone["other_member_ids"]) == ("a", [])
    assert tables.rows["rebalances"][1, 2]["partitions_moved"] == 1


def test_broken_assignment_is_unknown_not_unowned() -> None:
    """Goal: the generation and its members stay; what the broken member may own is unknown until it can be read."""
    broken = member("b", is_readable=False)
    log = Log().record(1, member("a", 0), member("b", 1)).record(2, member("a", 0), broken)
    tables = folded(log.record(3, member("a", 0), member("b", 1)).entries)
    asked = [tables.owner(everything(), "orders", number, 2_500) for number in (0, 1, 7)]
    assert [answer.status for answer in asked] == ["owned", "unknown", "unknown"]
    assert tables.rows["generations"][1, 2, 0]["is_ownership_known"] is False
    assert [row["is_end_known"] for row in tables.table("assignments") if row["partition"] == 1] == [False, None]
    assert tables.table("assignments")[-1]["is_start_known"] is False
    for generation in (2, 3):
        assert tables.changes(generation) == []
        assert tables.rows["rebalances"][1, generation]["partitions_lost"] is None
    assert tables.rows["rebalances"][1, 2]["members_idle"] is None


def test_an_unknown_protocol_type_has_unknown_owners() -> None:
    """Goal: nobody here can read what members of a schema registry own: no count is 0, and no partition is called
    unowned; without members the group owns nothing."""
    registry: dict[str, Any] = {"protocol_type": "sr", "protocol": "v0"}
    log = Log().record(1, member("a", is_readable=False, topics=None, assignment_error=None), **registry)
    tables = folded(log.record(2, protocol_type="sr").entries[:1])
    assert tables.group["member_count"] == 1
    assert tables.table("generations")[0]["owned_count"] is tables.group["owned_count"] is None
    assert tables.owner(everything(), "orders", 0, 1_500).status == "unknown"
    emptied = folded(log.entries)
    assert emptied.group["owned_count"] == 0
    assert emptied.owner(everything(), "orders", 0, 2_500).status == "unowned"


def test_connect_intervals() -> None:
    """Goal: connectors and tasks have intervals of their own, the connector itself as task -1."""
    group: dict[str, Any] = {"protocol_type": "connect", "protocol": "sessioned"}
    both = member("w1", units=[("sink", -1), ("sink", 0)], topics=None)
    log = Log().record(1, both, **group)
    log.record(
        2, member("w1", units=[("sink", -1)], topics=None), member("w2", units=[("sink", 0)], topics=None), **group
    )
    tables = folded(log.entries)
    assert not tables.table("assignments")
    intervals = [(row["task"], row["member_id"], row["to_generation"]) for row in tables.table("connect_assignments")]
    assert intervals == [(-1, "w1", None), (0, "w1", 1), (0, "w2", None)]
    assert tables.rows["rebalances"][1, 2]["partitions_moved"] == 1
    # w2 is lost: its tasks are kept back until it returns, or the delay is over.
    left = [("sink", -1)]
    log.record(3, member("w1", units=left, topics=None), **group, scheduled_delay_ms=300_000)
    log.record(4, member("w1", units=[*left, ("sink", 0)], topics=None), **group, scheduled_delay_ms=0)
    tables = folded(log.entries)
    ended = [
        (row["member_id"], row["to_generation"], row["scheduled_delay_ms"])
        for row in tables.table("connect_assignments")
        if row["task"] == 0
    ]
    assert ended == [("w1", 1, None), ("w2", 2, 300_000), ("w1", None, None)]
    assert [tables.rows["rebalances"][1, number]["scheduled_delay_ms"] for number in (2, 3, 4)] == [None, 300_000, 0]


# Commits without a generation


def test_simple_group() -> None:
    """Goal: commits alone make a group, its tombstone ends it, and no generation is invented."""
    log = Log().commit(0).commit(0, 1)
    tables = folded(log.entries)
    assert (tables.group["is_simple"], tables.group["generation"], tables.group["incarnation"]) == (True, None, 1)
    assert (tables.group["committed_partition_count"], tables.table("generations")) == (2, [])
    gone = folded(log.commit(0, 1, at=None).tombstone().commit(0, at=None).entries)
    assert (gone.group["is_alive"], gone.group["committed_partition_count"]) == (False, 0)
    assert folded(log.commit(0).entries).group["incarnation"] == 2


def test_a_simple_group_ends_with_its_last_offset() -> None:
    """Goal: coordinators before 4.0 write no tombstone of a simple group; the next commit begins another incarnation,
    and 4.2's tombstone adds nothing."""
    log = Log().commit(0, 1).commit(1, at=None)
    assert folded(log.entries).group["is_alive"]
    gone = folded(log.commit(0, at=None).entries)
    assert (gone.group["is_alive"], gone.group["is_simple"], gone.group["incarnation"]) == (False, False, 1)
    assert folded(log.wait(60_000).commit(1).entries).group["incarnation"] == 2
    back = folded(log.record(1, member("a", 0)).entries)
    assert (back.group["is_alive"], back.table("generations")[0]["incarnation"]) == (True, 2)
    tombstone = folded(Log().commit(0).commit(0, at=None).tombstone().commit(0).entries)
    assert (tombstone.group["is_alive"], tombstone.group["incarnation"]) == (True, 2)


def test_what_has_a_generation_or_unknown_offsets_outlives_them() -> None:
    """Goal: a group that had members ends with its tombstone alone, and a simple group that may have offsets in a hole
    does not end with the last known one."""
    log = Log().record(1, member("a", 0)).record(2).commit(0).commit(0, at=None)
    assert folded(log.entries).group["is_alive"]
    behind = Log().commit(0).mark("unknown")
    behind.offset += 10
    assert folded(behind.mark("complete").commit(0, at=None).entries).group["is_alive"]


def test_simple_groups_end_alike_however_their_commits_are_summed_up() -> None:
    """Goal: an end between two commits is found in one summary as in many, and a partition that was committed meanwhile
    keeps the group alive."""
    ended = Log().commit(0, 1).commit(0, 1, at=None).commit(0, 1)
    overlapping = Log().commit(0, 1).commit(0, at=None).commit(0).commit(1, at=None).commit(1)
    for log, incarnation in ((ended, 2), (overlapping, 1)):
        for entries in (log.entries, list(reversed_partitions(log.entries))):
            at_once, one_by_one = folded(entries), Tables()
            for number in range(len(entries)):
                one_by_one.take([*ALL_COMPLETE, *entries[: number + 1]])
            assert at_once.group["incarnation"] == incarnation
            assert (one_by_one.rows, one_by_one.open_group) == (at_once.rows, at_once.open_group)


def reversed_partitions(entries: list[Entry]) -> Iterable[Entry]:
    """Yields the entries with partitions 0 and 1 exchanged."""
    for entry in entries:
        yield replace(entry, partition=1 - entry.partition) if isinstance(entry, Commit) else entry


def test_admin_reset_of_an_empty_group() -> None:
    """Goal: a commit while there are no members is nobody's: it is counted separately and begins nothing."""
    log = Log().record(1, member("a", 0)).commit(0).wait(9_000).record(2)
    assert folded(log.entries).group["last_memberless_commit_at"] is None
    tables = folded(log.wait(9_000).commit(0, at=0).entries)
    assert tables.group["last_memberless_commit_at"] == tables.group["last_commit_at"] == 20_000_000
    assert (tables.group["generation"], tables.group["incarnation"]) == (2, 1)


def test_offsets_that_expire() -> None:
    """Goal: tombstones of offsets leave the group as it is, with fewer committed partitions."""
    tables = folded(Log().record(1, member("a", 0)).commit(0, 1).commit(1, at=None).entries)
    assert (tables.group["committed_partition_count"], tables.group["member_count"]) == (1, 1)


# Order


def test_repeated_events_change_nothing() -> None:
    """Goal: a batch that comes twice, or begins below the guard, is harmless."""
    log = Log().birth().record(1, member("a", 0)).commits(0, every_ms=1_000, times=3).record(2, member("b", 0))
    tables = folded(log.entries)
    before = {name: dict(rows) for name, rows in tables.rows.items()}
    state = tables.open_group
    tables.take(log.entries[2:])
    assert (tables.rows, tables.open_group) == (before, state)


@pytest.mark.parametrize("swap", [(0, 1), (1, 2)])
def test_disorder_is_refused(swap: tuple[int, int]) -> None:
    """Goal: events out of order are an error, never another history."""
    entries = Log().record(1, member("a", 0)).record(2, member("a", 0)).commit(0).entries
    entries[swap[0]], entries[swap[1]] = entries[swap[1]], entries[swap[0]]
    with pytest.raises(LogOrderError):
        fold("g1", 0, None, summaries(entries))


def test_late_mark_is_refused() -> None:
    """Goal: coverage can't come after what it should have judged."""
    tables = Tables()
    tables.take(Log().record(1, member("a", 0)).entries)
    with pytest.raises(LogOrderError):
        tables.take([Coverage(0, "complete")])
