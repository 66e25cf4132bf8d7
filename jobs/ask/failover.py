"""`groupledger failover`: what a group would read again, or never, if it moved to the cluster that its topics are
mirrored to.

Committed offsets of both clusters are those of one instant, which both ledgers know. MirrorMaker's offset syncs
translate between them (`transforms.offsets.rules.failover`); they may have been read from either cluster. A sync names
a fact that does not age, so that later ones count for an earlier instant, too.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from groupledger.jobs.ask.answers import last_answered, refuse_unknown
from groupledger.jobs.ask.offsets_at import offsets_at
from groupledger.jobs.process.errors import InputError, UnknownNameError
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.wire.offset_sync import SYNCS_PREFIX, SYNCS_SUFFIX
from groupledger.schemas.words import FailoverOutcome, OffsetStatus
from groupledger.transforms.offsets.rules.failover import Sync, failover_of, usable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

    Syncs = Mapping[tuple[str, int], Sequence[Sync]]

COLUMNS = (
    *("topic", "partition", "target_topic", "outcome", "source_offset", "target_offset", "place_lowest"),
    *("place_highest", "repeated_min", "repeated_max", "skipped_min", "skipped_max", "reason"),
)
OPTIONAL = ("place_lowest", "place_highest", "source_offset", "target_offset", "target_topic")
COUNTS = ("repeated_min", "repeated_max", "skipped_min", "skipped_max")


class Names(NamedTuple):
    """How MirrorMaker names the copies: after the `alias` of the source and a dot, or like their sources. With neither,
    the alias is the one that the group's commits in the target have."""

    alias: str | None = None
    is_same: bool = False


BY_COMMITS = Names()


def failover(
    source: ClusterRows, target: ClusterRows, name: str, at: datetime | None = None, names: Names = BY_COMMITS
) -> tuple[datetime, list[Answer]]:
    """Returns the instant of the commits, and a row for each partition with a committed offset in the source. Raises
    UnknownNameError if the source does not know the group, NotKnownError if a ledger does not know the instant, and
    InputError if the syncs or the names of copies are ambiguous."""
    if source.cluster == target.cluster:
        raise InputError("A failover goes to another cluster: name it with --to.")
    refuse_unknown(source, name)
    at = at or min(last_answered(source), last_answered(target))
    commits = offsets_at(source, [name], at)
    try:
        there = offsets_at(target, [name], at)
    except UnknownNameError:
        there = []  # the log of the target is known, and has nothing of the group
    syncs = _syncs(source, target, {row["topic"] for row in commits})
    of_target = {(row["topic"], row["partition"]): row for row in there}
    copies = {
        topic: _copy_of(topic, source.cluster, {row["topic"] for row in there}, names)
        for topic in {row["topic"] for row in commits}
    }
    return at, [_row(row, copies[row["topic"]], of_target, syncs) for row in commits]


def _row(row: Answer, copy: str | None, there: Mapping[tuple[str, int], Answer], syncs: Syncs) -> Answer:
    place = (row["topic"], row["partition"])
    other = None if copy is None else there.get((copy, row["partition"]))
    target_offset = None if other is None else other["committed_offset"]
    found = failover_of(row["committed_offset"], target_offset, syncs.get(place, ()))
    is_other_unknown = other is not None and other["status"] != OffsetStatus.COMMITTED
    outcome = FailoverOutcome.UNKNOWN if is_other_unknown else found.outcome
    reason = None
    if row["status"] != OffsetStatus.COMMITTED or is_other_unknown:
        reason = f"the commit in the {'target' if is_other_unknown else 'source'} is not known for certain"
    elif outcome == FailoverOutcome.UNKNOWN:
        reason = _why_no_place(place, syncs)
    elif outcome == FailoverOutcome.NO_COMMIT:
        reason = _why_no_commit(copy)
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "target_topic": copy,
        "outcome": outcome,
        "source_offset": row["committed_offset"],
        "target_offset": target_offset,
        "place_lowest": found.place and found.place.lowest,
        "place_highest": found.place and found.place.highest,
        **{count: getattr(found, count) for count in COUNTS},
        "reason": reason,
    }


def _why_no_place(place: tuple[str, int], syncs: Syncs) -> str:
    if not syncs:
        return "no offset sync was read: `pipeline` reads the topic mm2-offset-syncs.ALIAS.internal, where it may"
    if place not in syncs:
        return "no offset sync names the partition: MirrorMaker does not copy it, or its syncs were not read"
    return "the commit is before the first known offset sync"


def _why_no_commit(copy: str | None) -> str:
    if copy is not None:
        return "in the target the group has no commit for the copy: it would begin by auto.offset.reset"
    return (
        "in the target no commit of the group shows a copy of the topic: it would begin by auto.offset.reset; where"
        " copies have the names of their sources, ask with --same-names"
    )


def _copy_of(topic: str, cluster: str, there: Collection[str], names: Names) -> str | None:
    """Returns the name of a topic's copy; None if the target has no commit that shows it."""
    if names.is_same:
        return topic
    if names.alias is not None:
        return f"{names.alias}.{topic}"
    copies = sorted(each for each in there if each.endswith(f".{topic}"))
    if f"{cluster}.{topic}" in copies:
        return f"{cluster}.{topic}"
    if len(copies) > 1:
        shown = ", ".join(map(printable, copies))
        raise InputError(f"Several topics may be the copy of {printable(topic)}: {shown}. Give MirrorMaker's --alias.")
    return copies[0] if copies else None


def _syncs(source: ClusterRows, target: ClusterRows, topics: Collection[str]) -> Syncs:
    """Returns the syncs of each partition, as `usable` returns them."""
    columns = ("syncs_topic", "kafka_offset", "topic", "partition", "upstream_offset", "downstream_offset")
    rows: defaultdict[tuple[str, str], list[Answer]] = defaultdict(list)
    for tables in (source, target):
        for row in tables.rows_if_any("offset_syncs", ("topic", "in", sorted(topics)), columns=columns):
            rows[tables.cluster, row["syncs_topic"]].append(row)
    chosen = [*_chosen([*rows], source.cluster, target.cluster)]
    of_place: defaultdict[tuple[str, int], list[Sync]] = defaultdict(list)
    for row in sorted((row for each in chosen for row in rows[each]), key=lambda row: row["kafka_offset"]):
        of_place[row["topic"], row["partition"]].append(Sync(row["upstream_offset"], row["downstream_offset"]))
    return {place: usable(each) for place, each in of_place.items()}


def _chosen(found: Sequence[tuple[str, str]], source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yields the topic of the syncs between the two clusters, with the cluster that it lies in: the one that is named
    after the other cluster, else the only one. Raises InputError if there are several."""
    named = {(source, f"{SYNCS_PREFIX}{target}{SYNCS_SUFFIX}"), (target, f"{SYNCS_PREFIX}{source}{SYNCS_SUFFIX}")}
    ours = [each for each in found if each in named] or found
    if len(ours) > 1:
        shown = ", ".join(f"{printable(topic)} of {cluster}" for cluster, topic in sorted(ours))
        raise InputError(
            f"Several topics may have the offset syncs from {source} to {target}: {shown}. Name the clusters as"
            " MirrorMaker does."
        )
    yield from ours


def sentence(name: str, source: str, target: str, rows: Sequence[Answer]) -> str:
    """Returns what a failover would do, in one sentence."""
    group = f"{printable(name)} from {source} to {target}"
    known = [row for row in rows if row["repeated_min"] is not None and row["reason"] is None]
    others = len(rows) - len(known)
    left = f"; of {others:,} of {len(rows):,} partitions it is not known" if others else ""
    if not known:
        why = "see the reasons" if rows else "it has no commit"
        return f"What a failover of {group} would do is unknown: {why}."
    totals = {count: sum(row[count] for row in known) for count in COUNTS}
    repeated = between(totals["repeated_min"], totals["repeated_max"])
    skipped = between(totals["skipped_min"], totals["skipped_max"])
    return f"A failover of {group} would read {repeated} records again and skip {skipped}{left}."


def between(lowest: int, highest: int) -> str:
    if lowest == highest:
        return f"{lowest:,}"
    return f"{lowest:,} to {highest:,}"
