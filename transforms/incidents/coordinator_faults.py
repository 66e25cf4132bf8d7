"""Prepares rows of the ledger for `rules.coordinator_faults`, which finds faults of coordinators. Works on Arrow
tables.

    departures(members, stated, removed)  the tenures that ended for no stated reason
    placed(departures, groups)            the same with their group's partition
    bursts(departures)                    the times when several groups of one partition lost members at once
    seconds(records)                      the seconds of those times with records, by partition
    counted(faults, departures)           the faults, with how many departures and groups they had
    hit(faults, departures)               the ids of the groups that faults hit

Members drop out of several groups of one partition at once when that partition has no coordinator, but also when
somebody deploys or a host dies. Only the records of that time distinguish these cases. They are read only for the
newest `BURSTS_MAX` of these times.

Nothing here depends on rows that are further away in time than `STATED_WITHIN_MS`, but for the lines about partitions.
So a pass needs to read only rows of a short time (`transforms.incidents.settled_faults`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.schemas.instants import LATEST_MS
from groupledger.transforms.incidents.rules.blameless import NO_DEPARTURE, is_fault
from groupledger.transforms.incidents.rules.coordinator_faults import Second

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.transforms.incidents.rules.coordinator_faults import CoordinatorFault

Span = tuple[int, int]
BUCKET_MS = 30_000
BURST_GROUPS = 2
BEFORE_BURST_MS = 180_000  # a session, the outage before it, and the busy time before that
BURSTS_MAX = 100
STATED_WITHIN_MS = 6 * 3_600_000  # a rebalance may wait for minutes or hours before a record shows who has left
MEMBER_COLUMNS = ("group_id", "member_id", "joined_at", "left_at", "leave_cause")
LINE_COLUMNS = ("group_id", "member_id", "left_at")
GROUP_COLUMNS = ("group_id", "kafka_partition")
RECORD_COLUMNS = ("kafka_partition", "kafka_timestamp", "kafka_offset")
DEPARTURES = pa.schema([("group_id", pa.string()), ("left_ms", pa.int64())])


def departures(members: pa.Table, stated: pa.Table, removed: pa.Table) -> pa.Table:
    """Returns one row for each tenure that ended for no stated reason: `group_id` and `left_ms`. `stated` and `removed`
    have lines of the log, with `LINE_COLUMNS`. A line in `stated` says why a member left about that time, which is then
    left out. In a line of `removed` a coordinator removed a member. It counts only if the history does not have the
    member at about that time, whose records the cleaner may have removed."""
    is_gone = pc.is_valid(members["left_at"])
    is_gone = pc.and_(is_gone, pc.invert(pc.is_in(members["leave_cause"], pa.array(NO_DEPARTURE))))
    gone, lines = members.filter(is_gone), removed
    gone = gone.filter(pc.invert(_is_within(gone, stated["member_id"], stated["left_at"], stated["left_at"])))
    lines = lines.filter(pc.invert(_is_within(lines, members["member_id"], members["joined_at"], members["left_at"])))
    gone = gone.select(LINE_COLUMNS)
    gone = pa.concat_tables([gone, lines.select(LINE_COLUMNS).cast(gone.schema)])
    return pa.table({"group_id": gone["group_id"], "left_ms": _ms(gone["left_at"])}, DEPARTURES)


def _is_within(rows: pa.Table, member_ids: Any, from_at: Any, until_at: Any) -> pa.Array:
    """Returns for each row whether its member left in, or shortly before or after, one of the member's spans. A span
    without an end goes on."""
    until_ms = pc.fill_null(_ms(until_at), LATEST_MS)
    spans = pa.table({"member_id": member_ids, "from_ms": _ms(from_at), "until_ms": until_ms}).sort_by("from_ms")
    of_member: defaultdict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for span in spans.filter(pc.is_in(spans["member_id"], rows["member_id"].combine_chunks())).to_pylist():
        begins, ends = of_member[span["member_id"]]
        begins.append(span["from_ms"])
        ends.append(max([span["until_ms"], *ends[-1:]]))  # the latest end of those that began until then
    found = []
    for member_id, at_ms in zip(rows["member_id"].to_pylist(), _ms(rows["left_at"]).to_pylist(), strict=True):
        begins, ends = of_member.get(member_id, ([], []))
        place = bisect_right(begins, at_ms + STATED_WITHIN_MS)
        found.append(bool(place) and ends[place - 1] >= at_ms - STATED_WITHIN_MS)
    return pa.array(found, pa.bool_())


def _ms(instants: Any) -> Any:
    return pc.divide(instants.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1_000)


def placed(gone: pa.Table, groups: pa.Table) -> pa.Table:
    """Returns departures with `kafka_partition`. Those of groups that are not in `groups` are left out."""
    return gone.join(groups.select(GROUP_COLUMNS), "group_id", join_type="inner")


def bursts(gone: pa.Table) -> list[Span]:
    """Returns the times in which several groups of one partition lost members at once, as pairs of milliseconds, the
    newest first, at most BURSTS_MAX of them. The records of these times show whether the coordinator was away."""
    buckets = gone.append_column("bucket", pc.divide(gone["left_ms"], BUCKET_MS))
    counts = buckets.group_by(["kafka_partition", "bucket"]).aggregate([("group_id", "count_distinct")])
    busy = counts.filter(pc.greater_equal(counts["group_id_count_distinct"], BURST_GROUPS))
    spans: list[Span] = []
    for bucket in sorted(set(busy["bucket"].to_pylist()), reverse=True):
        begin_ms, end_ms = bucket * BUCKET_MS - BEFORE_BURST_MS, (bucket + 2) * BUCKET_MS
        if spans and end_ms >= spans[-1][0]:
            spans[-1] = (begin_ms, spans[-1][1])
        else:
            spans.append((begin_ms, end_ms))
    return spans[:BURSTS_MAX]


def seconds(records: pa.Table) -> dict[int, dict[int, Second]]:
    """Returns the seconds in which records were written, by partition of `__consumer_offsets`."""
    at_us = records["kafka_timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    in_second = pa.table(
        {
            "partition": records["kafka_partition"],
            "second": pc.divide(at_us, 1_000_000),
            "kafka_offset": records["kafka_offset"],
        }
    ).group_by(["partition", "second"])
    offsets = in_second.aggregate([([], "count_all"), ("kafka_offset", "min"), ("kafka_offset", "max")])
    found: defaultdict[int, dict[int, Second]] = defaultdict(dict)
    for row in offsets.to_pylist():
        written = Second(row["count_all"], row["kafka_offset_min"], row["kafka_offset_max"])
        found[row["partition"]][row["second"]] = written
    return dict(found)


def counted(faults: Iterable[CoordinatorFault], gone: pa.Table) -> list[CoordinatorFault]:
    """Returns the faults with `departures` and `groups` filled in. If a broker died or stood still and its own groups
    lost no member, the departures of all other groups at that time count. Faults that hit no group are left out, except
    moves in good order, which still explain commits that were sent again."""
    found = []
    for fault in faults:
        groups = _of_fault(fault, gone)["group_id"]
        with_counts = replace(fault, departures=len(groups), groups=pc.count_distinct(groups).as_py())
        if is_fault(with_counts) or fault.is_clean:  # a move in good order still explains commits that were sent again
            found.append(with_counts)
    return found


def hit(faults: Sequence[CoordinatorFault], gone: pa.Table) -> pa.Table:
    """Returns one row, `group_id`, for each group that a fault hit."""
    names = [_of_fault(fault, gone)["group_id"] for fault in faults if is_fault(fault)]
    found = pa.chunked_array([chunk for each in names for chunk in each.chunks], pa.string()).unique()
    return pa.table({"group_id": found})


def _of_fault(fault: CoordinatorFault, gone: pa.Table) -> pa.Table:
    then = gone.filter(_is_then(fault, gone))
    own = then.filter(_is_in_its_partitions(fault, then))
    return own if own.num_rows or not fault.holds_others_up else then


def is_during(fault: CoordinatorFault, gone: pa.Table) -> Any:
    """Returns for each departure whether it may belong to the fault. A fault of a log may have departures in all
    partitions."""
    is_then = _is_then(fault, gone)
    return is_then if fault.is_logged else pc.and_(is_then, _is_in_its_partitions(fault, gone))


def _is_then(fault: CoordinatorFault, gone: pa.Table) -> Any:
    return pc.and_(pc.greater_equal(gone["left_ms"], fault.from_ms), pc.less_equal(gone["left_ms"], fault.until_ms))


def _is_in_its_partitions(fault: CoordinatorFault, gone: pa.Table) -> Any:
    return pc.is_in(gone["kafka_partition"], pa.array(sorted(fault.partitions), pa.int32()))
