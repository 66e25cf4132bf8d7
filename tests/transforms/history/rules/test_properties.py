"""What must hold for every history: of real coordinators and assignors, cut anywhere, thinned by compaction."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.transforms.history.rules.events import Coverage, GroupTombstone
from lab.truth.histories import Commit, Tables, everything, folded, member, position, stretch
from lab.truth.histories import Log as HandLog
from tests.transforms.history.rules.live import ACTIONS, COOPERATIVE, LiveGroup, Truth, play

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.truth.histories import Entry

pytestmark = pytest.mark.slow

UNITS = [("orders", number) for number in range(5)] + [("payments", 0), ("payments", 1), ("absent", 0)]

histories = st.builds(
    play,
    st.sampled_from(["range", "roundrobin", "sticky", COOPERATIVE, COOPERATIVE]),
    st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5)), min_size=4, max_size=14),
)
some = settings(max_examples=40, deadline=None)


def truth_at(truth: Sequence[Truth], at_ms: int) -> Truth | None:
    index = bisect_right([each.at_ms for each in truth], at_ms)
    return truth[index - 1] if index else None


def instants(live: LiveGroup) -> Iterable[int]:
    """About a hundred, and those of every record and just before."""
    step_ms = max(1, live.now_ms // 100)
    yield from range(0, live.now_ms, step_ms)
    for each in live.truth:
        yield from (each.at_ms - 1, each.at_ms)


@some
@given(live=histories)
def test_tables_equal_the_truth(live: LiveGroup) -> None:
    """Goal: generations, leaders, members and owners at every instant agree with the consumers' own knowledge, and the
    changes of a rebalance are the difference of its members."""
    tables = folded(live.log())
    stated = [row for row in tables.table("generations") if row["generation"]]
    reported = [each for each in live.truth if each.generation > 0]
    assert [(row["generation"], row["leader"], row["member_count"], row["started_at"]) for row in stated] == [
        (each.generation, each.leader, len(each.members), each.at_ms * 1_000) for each in reported
    ]
    for at_ms in instants(live):
        owners = getattr(truth_at(live.truth, at_ms), "owners", {})
        for unit in UNITS:
            answer = tables.owner(everything(), *unit, at_ms)
            is_early = any(at_ms * 1_000 < row["started_at"] for row in tables.table("generations")[:1])
            nobodys = {"not_born"} if is_early else {"unowned", "ended"}
            assert answer.status in ({"owned"} if unit in owners else nobodys) or not stated
            assert answer.member_ids == ((owners[unit],) if unit in owners else ())
    for row in tables.table("rebalances"):
        after = next(index for index, each in enumerate(live.truth) if each.at_ms * 1_000 == row["happened_at"])
        if row["is_hole"] or [each["kind"] for each in row["changes"]] == ["group_started"]:
            continue
        check_changes(row, live.truth[after - 1], live.truth[after])


def check_changes(row: dict[str, Any], before: Truth, after: Truth) -> None:
    kinds = ("member_joined", "member_left", "dynamic_restart", "member_replaced")
    joined, left, *others = ([each for each in row["changes"] if each["kind"] == kind] for kind in kinds)
    back = [each for pairs in others for each in pairs]
    assert {each["member_id"] for each in (*joined, *back)} == after.members - before.members
    gone = {each["member_id"] for each in left} | {each["previous_member_id"] for each in back}
    assert gone == before.members - after.members
    units = before.owners.keys() & after.owners.keys()
    replaced = {each["previous_member_id"]: each["member_id"] for each in others[1]}
    kept = [unit for unit in units if replaced.get(before.owners[unit], before.owners[unit]) == after.owners[unit]]
    assert row["partitions_kept"] >= len(kept)  # more where a revoked partition came back
    assert row["partitions_lost"] == len(before.owners.keys() - after.owners.keys())
    counts = [row[f"partitions_{fate}"] for fate in ("kept", "moved", "gained")]
    assert sum(counts) == len(after.owners)


@some
@given(live=histories)
def test_intervals_of_a_partition_do_not_overlap(live: LiveGroup) -> None:
    """Goal: at any time a partition has one owner, and intervals lie within their owner's tenure."""
    tables = folded(live.log())
    members = {row["member_id"]: row for row in tables.table("members")}
    ends: dict[tuple[str, int], int] = {}
    for row in sorted(tables.table("assignments"), key=lambda row: row["from_offset"]):
        unit = (row["topic"], row["partition"])
        assert ends.get(unit, 0) is not None
        assert row["from_offset"] >= ends.get(unit, 0)
        ends[unit] = row["to_offset"]
        owner = members[row["member_id"]]
        assert owner["from_offset"] <= row["from_offset"]
        assert owner["to_offset"] is None or row["to_offset"] is not None


@some
@given(live=histories)
def test_kinds_of_protocol(live: LiveGroup) -> None:
    """Goal: no eager assignor's rebalance is taken for a cooperative one, nor the reverse; follow-ups only there."""
    kinds = {row["protocol_kind"] for row in folded(live.log()).table("rebalances")} - {"unknown"}
    assert kinds <= ({"cooperative"} if live.protocol == COOPERATIVE else {"eager"})
    for row in folded(live.log()).table("rebalances"):
        if row["caused_by_generation"] is not None:
            assert live.protocol == COOPERATIVE
            assert row["caused_by_generation"] < row["to_generation"]


@some
@given(live=histories, data=st.data())
def test_cuts_and_repeats_change_nothing(live: LiveGroup, data: st.DataObject) -> None:
    """Goal: any cut of the log into batches gives the same tables and the same open state, also if a batch begins
    before the end of the one before it."""
    log = with_marks(live.log(), data)
    at_once = Tables()
    at_once.take(log)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(log) - 1)), max_size=12)))
    in_parts = Tables()
    for begin, end in zip([0, *cuts], [*cuts, len(log)], strict=True):
        in_parts.take(log[max(0, begin - data.draw(st.integers(0, 4))) : end])
    assert in_parts.rows == at_once.rows
    assert in_parts.open_group == at_once.open_group


def test_two_hundred_cuts_of_the_same_log() -> None:
    """Goal: the log of a group that everything has happened to, cut in 200 random ways with batches that come again,
    gives the tables and the open state that it gives in one piece."""
    source = Random(5)
    live = play(COOPERATIVE, [(action, source.randrange(6)) for _ in range(3) for action in ("join", *ACTIONS)])
    log = sorted([Coverage(0, "complete"), *live.log()], key=position)
    at_once = Tables()
    at_once.take(log)
    for _ in range(200):
        cuts = sorted(source.sample(range(1, len(log)), source.randint(1, 25)))
        in_parts = Tables()
        for begin, end in pairwise([0, *cuts, len(log)]):
            in_parts.take(log[max(0, begin - source.choice([0, 0, 1, 4, 20])) : end])
        assert in_parts.rows == at_once.rows
        assert in_parts.open_group == at_once.open_group
    assert len(at_once.table("generations")) > 30


def with_marks(log: Sequence[Entry], data: st.DataObject) -> list[Entry]:
    """The log with marks of coverage at random offsets, the first at 0."""
    last = max((entry.kafka_offset for entry in log if not isinstance(entry, Coverage)), default=0)
    offsets = sorted(data.draw(st.sets(st.integers(1, last + 1), max_size=3)))
    kinds = st.sampled_from(["complete", "compacted", "unknown"])
    marks = [Coverage(offset, data.draw(kinds)) for offset in (0, *offsets)]
    return sorted([*marks, *log], key=position)


STATED = (
    "generation",
    "protocol_type",
    "protocol",
    "leader",
    "member_count",
    "owned_count",
    "is_ownership_known",
    "started_at",
    "current_state_at",
)
CLAIMED = (
    "from_generation",
    "happened_at",
    "generation_gap",
    "protocol_kind",
    "partitions_kept",
    "partitions_moved",
    "partitions_gained",
    "partitions_lost",
    "members_idle",
    "sync_wait_ms",
)


@settings(max_examples=80, deadline=None)
@given(live=histories, data=st.data(), skew_ms=st.sampled_from([0, 0, 4_000]))
def test_compaction_and_holes_make_no_answer_wrong(live: LiveGroup, data: st.DataObject, skew_ms: int) -> None:
    """Goal: superseded records may be gone from a compacted stretch, and everything from a hole: the statements of a
    surviving record are equal, no definite owner is wrong (even by a skewed clock), and a transition that is no hole
    has the claims that it has in the whole log."""
    log = live.log()
    end = log[-1].kafka_offset + 1 if log else 1  # type: ignore[union-attr]  # no mark is in it
    first, second, third = sorted(data.draw(st.tuples(*[st.integers(0, end)] * 3)))
    kept = [*compacted(log, 0, first, data), *between(log, first, second), *between(log, third, end)]
    marks = [
        Coverage(0, "compacted"),
        Coverage(first, "complete"),
        Coverage(second, "unknown"),
        Coverage(third, "complete"),
    ]
    tables = folded(
        kept, [mark for mark, after in zip(marks, [*marks[1:], None], strict=True) if is_first(mark, after)]
    )
    whole = folded(log)

    by_offset = {row["kafka_offset"]: row for row in whole.table("generations")}
    for row in tables.table("generations"):
        assert [row[name] for name in STATED] == [by_offset[row["kafka_offset"]][name] for name in STATED]
    rebalances = {row["kafka_offset"]: row for row in whole.table("rebalances")}
    for row in tables.table("rebalances"):
        if row["is_hole"]:
            assert row["changes"] is row["partitions_moved"] is row["pause_scope"] is row["inferred_trigger"] is None
            assert row["protocol_kind"] == "unknown"
        else:
            claimed = rebalances[row["kafka_offset"]]
            assert [row[name] for name in CLAIMED] == [claimed[name] for name in CLAIMED]
            assert all(change in claimed["changes"] for change in row["changes"])
            # How many partitions there ever were is only known to who saw them.
            unlisted = [change["kind"] for change in claimed["changes"] if change not in row["changes"]]
            assert set(unlisted) <= {"partitions_added", "topic_deleted"}

    times = {entry.kafka_offset: entry.kafka_timestamp_ms for entry in log}  # type: ignore[union-attr]
    until = [max((at for offset, at in times.items() if offset < bound), default=0) for bound in (first, second, third)]
    coverage = [
        stretch(first, second, (until[0] - skew_ms, until[1]), "complete"),
        stretch(third, end, (until[2] - skew_ms, live.now_ms), "complete"),
    ]
    if second < third:
        coverage.append(stretch(second, third, None, "unknown"))
    for at_ms in instants(live):
        owners = getattr(truth_at(live.truth, at_ms), "owners", {})
        for unit in UNITS:
            answer = tables.owner(coverage, *unit, at_ms)
            assert answer.status == "unknown" or answer.member_ids == ((owners[unit],) if unit in owners else ())


def is_first(mark: Coverage, after: Coverage | None) -> bool:
    """A stretch without offsets is not written down."""
    return after is None or mark.from_offset < after.from_offset


def between(log: Sequence[Entry], begin: int, end: int) -> list[Entry]:
    return [entry for entry in log if not isinstance(entry, Coverage) and begin <= entry.kafka_offset < end]


def compacted(log: Sequence[Entry], begin: int, end: int, data: st.DataObject) -> list[Entry]:
    """Of each key the last record stays, unless it is a tombstone; of the others any part."""
    latest: dict[Any, Entry] = {}
    part = between(log, begin, end)
    for entry in part:
        latest[key(entry)] = entry
    chance = data.draw(st.sampled_from([0, 50, 100]))
    forgotten = {name for name, entry in latest.items() if is_tombstone(entry) and data.draw(st.booleans())}
    return [
        entry
        for entry in part
        if key(entry) not in forgotten and (latest[key(entry)] is entry or data.draw(st.integers(1, 100)) <= chance)
    ]


def key(entry: Entry) -> Any:
    return (entry.topic, entry.partition) if isinstance(entry, Commit) else "group"


def is_tombstone(entry: Entry) -> bool:
    return isinstance(entry, GroupTombstone) or (isinstance(entry, Commit) and entry.committed_offset is None)


def test_open_state_is_as_large_as_the_group() -> None:
    """Goal: after three hundred rebalances and restarts, the state is no larger than after the first thirty."""
    log = HandLog()
    sizes = []
    tables = Tables()
    for generation in range(1, 301):
        members = [member(f"member-{generation + number:06}", number) for number in range(3)]
        log.record(generation, *members).commits(0, 1, 2, every_ms=5_000, times=2)
        tables.take([*([Coverage(0, "complete")] if generation == 1 else []), *log.entries[-7:]])
        assert tables.open_group is not None
        sizes.append(len(tables.open_group["state"]))
    assert max(sizes[-30:]) <= 1.1 * max(sizes[:30])
    assert len(tables.table("generations")) == 300


def test_rows_of_a_large_group_are_as_many_as_what_changed() -> None:
    """Goal: in a group of 1,000 members and 5,000 partitions, one member's departure touches only what it touches."""
    units = [("orders", number) for number in range(5_000)]
    members = [member(f"m{number:04}", units=units[number * 5 : number * 5 + 5]) for number in range(1_000)]
    heir = member("m0000", units=[*units[:5], *units[-5:]])
    log = HandLog().record(1, *members)
    tables = folded(log.entries)
    before = dict(tables.rows["assignments"])
    tables.take(log.record(2, heir, *members[1:-1]).entries[-1:])
    touched = [row for place, row in tables.rows["assignments"].items() if before.get(place) is not row]
    assert len(touched) == 10
    assert tables.rows["rebalances"][1, 2]["partitions_moved"] == 5
