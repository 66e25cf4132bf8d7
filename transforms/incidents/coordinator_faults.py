"""Prepares rows of the ledger for `rules.coordinator_faults`, which finds faults of coordinators. Works on Arrow
tables.

    departures(members, groups, stated, removed)
                                          the tenures that ended for no stated reason, with their group's partition
    bursts(departures)                    the times when several groups of one partition lost members at once
    seconds(records)                      how many records those times have, by partition and second
    counted(faults, departures)           the faults, with how many departures and groups they had
    hit(faults, departures)               the ids of the groups that faults hit

Members drop out of several groups of one partition at once when that partition has no coordinator, but also when
somebody deploys or a host dies. Only the records of that time distinguish these cases. They are read only for the
newest `BURSTS_MAX` of these times.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.transforms.incidents.rules.blameless import NO_DEPARTURE, is_fault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from groupledger.transforms.incidents.rules.coordinator_faults import CoordinatorFault

    Span = tuple[int, int]

BUCKET_MS = 30_000
BURST_GROUPS = 2
BEFORE_BURST_MS = 180_000  # a session, the outage before it, and the busy time before that
BURSTS_MAX = 100
MEMBER_COLUMNS = ("group_id", "member_id", "left_at", "leave_cause")
LINE_COLUMNS = ("group_id", "member_id", "left_at")
GROUP_COLUMNS = ("group_id", "kafka_partition")
RECORD_COLUMNS = ("kafka_partition", "kafka_timestamp")


def departures(
    members: pa.Table, groups: pa.Table, stated: Collection[str], removed: pa.Table | None = None
) -> pa.Table:
    """Returns one row for each tenure that ended for no stated reason: `group_id`, `kafka_partition` and `left_ms`.
    Members in `stated` are left out, because a line of the log says why they left. `removed` has `group_id`,
    `member_id` and `left_at` of lines in which a coordinator removed a member. Such a line counts only if the history
    does not have the member, whose records the cleaner may have removed."""
    is_gone = pc.is_valid(members["left_at"])
    is_gone = pc.and_(is_gone, pc.invert(pc.is_in(members["leave_cause"], pa.array(NO_DEPARTURE))))
    is_gone = pc.and_(is_gone, pc.invert(pc.is_in(members["member_id"], pa.array([*stated], pa.string()))))
    gone = members.filter(is_gone).select(LINE_COLUMNS)
    if removed is not None:
        is_unseen = pc.invert(pc.is_in(removed["member_id"], members["member_id"]))
        gone = pa.concat_tables([gone, removed.select(LINE_COLUMNS).filter(is_unseen).cast(gone.schema)])
    left_ms = pc.divide(gone["left_at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1_000)
    found = pa.table({"group_id": gone["group_id"], "left_ms": left_ms})
    return found.join(groups.select(GROUP_COLUMNS), "group_id", join_type="inner")


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


def seconds(records: Iterable[pa.Table]) -> dict[int, dict[int, int]]:
    """Returns the number of records by partition of `__consumer_offsets`, then by second."""
    found: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for table in records:
        at_us = table["kafka_timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        counted_by = pa.table({"partition": table["kafka_partition"], "second": pc.divide(at_us, 1_000_000)})
        for row in counted_by.group_by(["partition", "second"]).aggregate([([], "count_all")]).to_pylist():
            counts = found[row["partition"]]
            counts[row["second"]] = counts.get(row["second"], 0) + row["count_all"]
    return dict(found)


def counted(faults: Iterable[CoordinatorFault], gone: pa.Table) -> list[CoordinatorFault]:
    """Returns the faults with `departures` and `groups` filled in. Faults that hit no group are left out, except moves
    in good order, which still explain commits that were sent again."""
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
    is_in = pc.is_in(gone["kafka_partition"], pa.array(sorted(fault.partitions), pa.int32()))
    is_in = pc.and_(is_in, pc.greater_equal(gone["left_ms"], fault.from_ms))
    return gone.filter(pc.and_(is_in, pc.less_equal(gone["left_ms"], fault.until_ms)))
