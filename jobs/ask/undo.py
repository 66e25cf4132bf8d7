"""Makes the file that undoes a change of committed offsets, and says what executing such a file would cost.

A move back and a move forward are not symmetrical. A group that was moved back reads up to its earlier offset again by
itself, and then nothing is left to undo. A group that was moved forward never reads what it skipped, but goes on after
it. Its earlier offset brings back the skipped records, and with them all that the group has read since. So an undo
comes with the skipped ranges, for another group to read, and with the number of records that would be read again.

Present offsets are those of `committed_offsets`: so far the ledger knows, and a group may be further by now. An offset
that was removed after the act counts as it was then: the group had read up to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from groupledger.jobs.ask.group_timeline import places
from groupledger.jobs.ask.offsets_at import reset_file_lines
from groupledger.jobs.process.output import number_of
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.words import OffsetEventKind, OffsetStatus
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

RANGES_MAX = 100
REMOVALS = (
    *(OffsetEventKind.DELETED, OffsetEventKind.GROUP_DELETED, OffsetEventKind.TOPIC_DELETED),
    *(OffsetEventKind.EXPIRED, OffsetEventKind.REMOVED),
)
NOT_KNOWN = "their offsets before are not known"
READ_UP_TO = "the group has committed up to its offsets before again, so that nothing is left to undo"
WENT_BACK = "the group has gone back to its offsets before, or further, so that nothing is left to undo"


@dataclass(frozen=True, kw_only=True, slots=True)
class Undo:
    """The undo of an act: the file's `lines`, the partitions that it leaves out, as (reason, topic, partition), and the
    ranges of records that the act skipped and the group has not gone back to, as (topic, partition, from, to), `to`
    included. The file moves the group back by `moved_back` records, of them `never_read` that it skipped. `removed_at`
    is when offsets of the act were last removed after it."""

    group: str
    lines: Sequence[str]
    left_out: Sequence[tuple[str, str, int]]
    skipped: Sequence[tuple[str, int, int, int]]
    moved_back: int
    never_read: int
    removed_at: datetime | None = None

    def notes(self) -> Iterator[str]:
        """Yields sentences about the file: what it leaves out, and which records it makes the group read again. All
        names are escaped."""
        if self.removed_at is not None:
            yield (
                f"Careful: offsets of {printable(self.group)} were removed later, at {iso(self.removed_at)}."
                " To get those back, take the --undo of that removal."
            )
        for reason in dict.fromkeys(reason for reason, *_ in self.left_out):
            units = [(printable(topic), partition) for why, topic, partition in self.left_out if why == reason]
            yield f"left out: {places(units)}: {reason}"
        again = self.moved_back - self.never_read
        if again <= 0:
            return
        moves = f"Careful: this file moves {printable(self.group)} back by {number_of(self.moved_back, 'record')}"
        if not self.skipped:
            yield f"{moves} that lie below its present offsets: it reads again those that it has read since."
            return
        yield (
            f"{moves}, for at most {self.never_read:,} that it never read: the other {again:,} it has read since, and"
            " would read again. Leave the group where it is, and read only what it skipped, with another group:"
        )
        for topic, partition, first, last in self.skipped[:RANGES_MAX]:
            yield f"    {printable(topic)} {partition}: offsets {first} to {last}"
        if len(self.skipped) > RANGES_MAX:
            yield f"    and {len(self.skipped) - RANGES_MAX:,} more partitions: see `groupledger audit --json`"


def undo(tables: ClusterRows, act: Answer) -> Undo:
    """Returns the undo of an act (`jobs.ask.audit`)."""
    group = act["group_id"]
    present, removed = present_offsets(tables, [group]), _removed_later(tables, act)
    kept, left_out, skipped = [], [], []
    moved_back = never_read = 0
    for row in act["partitions"]:
        topic, partition, before = row["topic"], row["partition"], row["offset_before"]
        now = present.get((group, topic, partition))
        if now is None and (topic, partition) in removed:
            now = removed[topic, partition]["offset_before"]
        reason = _why_left_out(row, now)
        if reason is not None:
            left_out.append((reason, topic, partition))
            continue
        kept.append(row | {"group_id": group, "committed_offset": before, "status": OffsetStatus.COMMITTED})
        is_skip = row["kind"] == OffsetEventKind.SKIPPED
        reached = now if now is not None else row["offset_after"] if is_skip else before
        moved_back += max(reached - before, 0)
        if is_skip:
            skipped.append((topic, partition, before, row["offset_after"] - 1))
            never_read += min(reached, row["offset_after"]) - before
    return Undo(
        group=group,
        lines=[*reset_file_lines([group], kept)],
        left_out=left_out,
        skipped=skipped,
        moved_back=moved_back,
        never_read=never_read,
        removed_at=max((row["happened_at"] for row in removed.values()), default=None),
    )


def _removed_later(tables: ClusterRows, act: Answer) -> dict[tuple[str, int], Answer]:
    """Returns the last removal of each offset that an act moved, by topic and partition."""
    columns = ("topic", "partition", "happened_at", "offset_before")
    of_group, is_removal = ("group_id", "=", act["group_id"]), ("kind", "in", REMOVALS)
    found = tables.rows(
        "offset_events", of_group, is_removal, ("happened_at", ">", act["happened_at"]), columns=columns
    )
    moved = {(row["topic"], row["partition"]) for row in act["partitions"] if row["kind"] not in REMOVALS}
    in_order = sorted(found, key=itemgetter("happened_at"))
    return {place: row for row in in_order if (place := (row["topic"], row["partition"])) in moved}


def _why_left_out(row: Answer, now: int | None) -> str | None:
    before = row["offset_before"]
    if before is None:
        return NOT_KNOWN
    if now is None:
        return None
    if row["kind"] == OffsetEventKind.REWOUND and now >= before:
        return READ_UP_TO
    return WENT_BACK if row["kind"] == OffsetEventKind.SKIPPED and now <= before else None


def moved_back_note(tables: ClusterRows, names: Sequence[str], answers: Iterable[Answer]) -> str | None:
    """Returns a sentence about a file of past offsets (`jobs.ask.offsets_at`), if groups are further now; else None.
    All names are escaped."""
    present = present_offsets(tables, names)
    back = [
        now - row["committed_offset"]
        for row in answers
        if row["status"] == OffsetStatus.COMMITTED
        and (now := present.get((row["group_id"], row["topic"], row["partition"]))) is not None
        and now > row["committed_offset"]
    ]
    if not back:
        return None
    who = printable(names[0]) if len(names) == 1 else "these groups"
    return (
        f"Careful: {who} committed beyond these offsets since. This file moves back by {number_of(sum(back), 'record')}"
        f" in {number_of(len(back), 'partition')}, and what was read since is read again. To undo a reset take"
        " `groupledger audit NAME --undo RECORD`, which leaves out what the group has read up to again."
    )


def present_offsets(tables: ClusterRows, names: Sequence[str]) -> dict[tuple[str, str, int], int]:
    """Returns the last known committed offsets of groups, by group, topic and partition."""
    columns = ("group_id", "topic", "partition", "committed_offset")
    rows = tables.rows_if_any(
        "committed_offsets", ("group_id", "in", names), ("is_removed", "=", False), columns=columns
    )
    return {
        (row["group_id"], row["topic"], row["partition"]): row["committed_offset"]
        for row in rows
        if row["committed_offset"] is not None
    }
