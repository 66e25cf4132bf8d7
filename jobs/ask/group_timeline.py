"""`groupledger group NAME`: what happened to a group, record by record, and who owns what now."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import group_row, ownership_rows, within
from groupledger.jobs.ask.rebalances import rebalances_with_triggers
from groupledger.jobs.ask.stream_copies import copies_now
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.kinds.changes import DYNAMIC_RESTART
from groupledger.schemas.kinds.incidents import COORDINATOR_FAILED
from groupledger.schemas.words import HoleCause, Ownership, PauseScope, ProtocolKind, TimelineEvent
from groupledger.transforms.history.rules.departures import EVENT_COLUMNS, with_logged_causes, with_unknown_causes
from groupledger.transforms.history.rules.group_timeline import timeline
from groupledger.transforms.history.rules.ownership_answer import status_of
from groupledger.transforms.history.rules.pause import NO_PAUSE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

OWNER_COLUMNS = ("member_id", "client_id", "client_host", "group_instance_id", "owns")
EVENTS = {
    TimelineEvent.GROUP_STARTED: "the group starts",
    TimelineEvent.FIRST_SEEN: "first seen",
    TimelineEvent.REBALANCE: "rebalance",
    TimelineEvent.REVISION: "a record of the same generation",
    TimelineEvent.GROUP_DELETED: "the group is deleted, or has expired",
    TimelineEvent.UPGRADED: "the group becomes one of the consumer protocol (KIP-848)",
    TimelineEvent.DOWNGRADED: "the group becomes a classic one",
    TimelineEvent.NOT_COVERED: "nobody read the log from here on",
    TimelineEvent.GENERATION_DECREASED: "the generation goes back: another incarnation",
}
SHOWN_NAMES_MAX = 10


def group_timeline(
    tables: ClusterRows, name: str, since: datetime | None, until: datetime | None, limit: int
) -> tuple[Answer, list[Answer], int]:
    """Returns the group's row, the entries of its last `limit` records in [since, until), and how many earlier records
    of that time are left out."""
    group = group_row(tables, name)
    filters: list[Filter] = [("group_id", "=", name)]
    of_window = [*filters, *within("started_at", since, until)]
    offsets = sorted(row["kafka_offset"] for row in tables.rows("generations", *of_window, columns=("kafka_offset",)))
    if not offsets:
        return group, [], 0
    earlier, first, last = len(offsets[:-limit]), offsets[-limit:][0], offsets[-1]
    shown = tables.rows("generations", *of_window, ("kafka_offset", ">=", first))
    # A partition that changes hands cooperatively loses its owner one record before it gets the next one.
    since_before = offsets[earlier - 1] if earlier else first
    entries = timeline(
        sorted(shown, key=itemgetter("kafka_offset"), reverse=True),
        [row for row in rebalances_with_triggers(tables, [name]) if first <= row["kafka_offset"] <= last],
        with_causes(tables, name, _ending_later(tables.rows("members", *filters), since_before)),
        _ending_later(tables.rows("assignments", *filters), since_before),
        _ending_later(tables.rows_if_any("member_epochs", *filters), since_before),
    )
    return group, entries, earlier


def with_causes(tables: ClusterRows, name: str, members: list[Answer]) -> list[Answer]:
    """Returns the given tenures of the group `name`, with the causes of their ends that the server log states."""
    of_group: tuple[Filter, ...] = (("group_id", "=", name), ("member_id", "in", [row["member_id"] for row in members]))
    lines = tables.rows_if_any("coordinator_events", *of_group, columns=EVENT_COLUMNS) if members else []
    generations = tables.rows("generations", of_group[0], columns=("started_at",)) if lines else []
    is_fault: Filter = ("kind", "=", COORDINATOR_FAILED.name)
    faults = tables.rows_if_any("incidents", of_group[0], is_fault, columns=("first_seen_at", "last_seen_at"))
    return with_unknown_causes(with_logged_causes(members, lines, generations), faults)


def _ending_later(rows: Iterable[Answer], offset: int) -> list[Answer]:
    return [row for row in rows if row["to_offset"] is None or row["to_offset"] >= offset]


def owners_now(tables: ClusterRows, name: str) -> list[Answer]:
    """Returns a row for each present member. By topic, `owned` has the partitions that it owns, and `reserved` those
    that are reserved for it while it is away; they are null if none is known because an assignment can't be read.
    `owns` has both as one text, or `unknown`, with the Kafka Streams tasks that the member keeps copies of."""
    present: tuple[Filter, ...] = (("group_id", "=", name), ("is_open", "=", 1))
    current = tables.rows("generations", *present, columns=("is_ownership_known",))
    is_known = all(generation["is_ownership_known"] for generation in current)
    nothing = "" if is_known else Ownership.UNKNOWN
    had = defaultdict(list)
    for row in sorted(ownership_rows(tables, *present), key=itemgetter("topic", "partition")):
        for member_id in (row["member_id"], *row["other_member_ids"]):
            had[status_of(row), member_id].append((row["topic"], row["partition"]))

    copies = copies_now(tables, name)

    def owns(member_id: str) -> str:
        reserved = places(had[Ownership.RESERVED, member_id])
        owned_and_reserved = (places(had[Ownership.OWNED, member_id]), reserved and f"{Ownership.RESERVED}: {reserved}")
        return "; ".join(filter(None, (*owned_and_reserved, copies.get(member_id))))

    def listed(status: str, member_id: str) -> list[Answer] | None:
        found = partitions_by_topic(had[status, member_id])
        return [{"topic": topic, "partitions": each} for topic, each in found.items()] if found or is_known else None

    return [
        {column: member[column] for column in OWNER_COLUMNS[:-1]}
        | {"owns": owns(member["member_id"]) or nothing}
        | {status: listed(status, member["member_id"]) for status in (Ownership.OWNED, Ownership.RESERVED)}
        for member in sorted(tables.rows("members", *present), key=itemgetter("member_id"))
    ]


def heading(group: Answer) -> str:
    state = {True: "alive", False: "gone", None: "not known to live"}[group["is_alive"]]
    return (
        f"Group {printable(group['group_id'])}: {group['group_type']}, {state}, incarnation {group['incarnation']},"
        f" __consumer_offsets-{group['kafka_partition']}, seen from {in_zone(group['first_seen_at'])}"
        f" to {in_zone(group['last_seen_at'])}"
    )


def lines(entry: Answer) -> Iterator[str]:
    """Yields the lines of an entry for a terminal; all names in them are escaped."""
    number = f"incarnation {entry['incarnation']}, generation {_generation(entry)}"
    yield f"{in_zone(entry['at'])}  {number}: {EVENTS[entry['event']]}"
    if "member_count" in entry:
        protocol = " ".join(filter(None, (entry["protocol"], _kind(entry))))
        yield f"    members: {entry['member_count']}" + (f"; protocol: {printable(protocol)}" if protocol else "")
    yield from _unknowns(entry)
    yield from _who(entry)
    for change in entry.get("other_changes", ()):
        yield f"    {_change(change)}"
    yield from _trigger(entry)
    yield from _cost(entry)
    yield from _convergence(entry)


def _kind(entry: Answer) -> str | None:
    kind: str | None = entry["protocol_kind"]
    return None if kind == ProtocolKind.UNKNOWN else kind


def _generation(entry: Answer) -> str:
    return f"{entry['generation']}" + (f", revision {entry['revision']}" if entry.get("revision") else "")


def _unknowns(entry: Answer) -> Iterator[str]:
    if entry.get("is_hole"):
        gap = entry["generation_gap"]
        if entry["hole_cause"] == HoleCause.CONVERTED:
            yield "    a rebalance was under way as the group became one of KIP-848: what changed is unknown"
        elif entry["hole_cause"] == HoleCause.NOT_SYNCED:
            yield f"    {gap} generations in between left no record: what changed is unknown"
        else:
            yield "    what happened in between is not covered: what changed is unknown"
    if entry.get("finding"):
        yield f"    finding: {entry['finding']}"


def _who(entry: Answer) -> Iterator[str]:
    yield from _listed("joined", map(_member, entry.get("joined", ())))
    for member in entry.get("left", ()):
        cause, confidence = member["leave_cause"], member["leave_cause_confidence"]
        yield f"    left: {_member(member)}" + ("" if cause is None else f": {cause} (confidence {confidence:.2f})")
    for member in entry.get("replaced", ()):
        kind = "restarted" if member["kind"] == DYNAMIC_RESTART.name else "replaced"
        yield f"    {kind}: {printable(member['previous_member_id'])} is now {printable(member['member_id'])}"


def _member(member: Answer) -> str:
    instance = member["group_instance_id"]
    named = "" if instance is None else f", instance {printable(instance)}"
    return f"{printable(member['member_id'])} ({printable(member['client_id'])}{named})"


def _listed(label: str, names: Iterable[str]) -> Iterator[str]:
    found = list(names)
    yield from (f"    {label}: {name}" for name in found[:SHOWN_NAMES_MAX])
    if len(found) > SHOWN_NAMES_MAX:
        yield f"    {label}: and {len(found) - SHOWN_NAMES_MAX} more"


def _change(change: Answer) -> str:
    details = {name: value for name, value in change.items() if value not in (None, []) and name != "kind"}
    shown = ", ".join(f"{name} {printable(_plain(value))}" for name, value in details.items())
    return f"{change['kind']}: {shown}" if shown else change["kind"]


def _plain(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _trigger(entry: Answer) -> Iterator[str]:
    """Yields the trigger from the server log, or else the inferred one."""
    if entry.get("trigger"):
        doubt = "" if entry["trigger_is_certain"] else "; names in the line could be read in another way, too"
        reason = "" if entry["trigger_reason"] is None else f": {printable(entry['trigger_reason'])}"
        yield f"    trigger: {entry['trigger']}, at {in_zone(entry['trigger_at'])}{reason}{doubt}"
    elif entry.get("inferred_trigger"):
        yield (
            f"    trigger: {entry['inferred_trigger']}, with confidence {entry['inferred_trigger_confidence']:.2f}:"
            f" {printable(entry['inferred_trigger_explanation'])}"
        )
    if entry.get("caused_by_generation") is not None:
        yield f"    follows the rebalance to generation {entry['caused_by_generation']}"


def _cost(entry: Answer) -> Iterator[str]:
    if entry.get("partitions_kept") is not None:
        yield "    partitions: " + ", ".join(
            f"{entry[f'partitions_{fate}']} {fate}" for fate in ("moved", "kept", "gained", "lost")
        )
    by_pair = defaultdict(list)
    for move in entry.get("moves", ()):
        by_pair[move["from_member_id"], move["to_member_id"]].append((move["topic"], move["partition"]))
    yield from _listed("ownership", (_handover(old, new, units) for (old, new), units in by_pair.items()))
    if (entry.get("pause_lower_ms"), entry.get("pause_upper_ms")) == NO_PAUSE:
        yield "    stood still: nobody"
    elif entry.get("pause_scope") is not None:
        upper = "no upper bound" if entry["pause_upper_ms"] is None else f"at most {entry['pause_upper_ms']:,} ms"
        lower = "" if entry["pause_lower_ms"] is None else f"at least {entry['pause_lower_ms']:,} ms, "
        who = "the whole group" if entry["pause_scope"] == PauseScope.GROUP else "the partitions that moved"
        yield f"    stood still: {who}, {lower}{upper}"


def _convergence(entry: Answer) -> Iterator[str]:
    """Yields how long an epoch took until the last member was stable at it, and who was waited for."""
    # A revision may come when its epoch has converged long before.
    if entry.get("converged_at") is not None and entry["converged_at"] >= entry["at"]:
        took_ms = (entry["converged_at"] - entry["at"]) // timedelta(milliseconds=1)
        yield f"    converged: after {took_ms:,} ms"
    for wait in entry.get("waited_for", ()):
        whom = "nobody any more" if wait["held_by"] is None else printable(wait["held_by"])
        how_long = "still waiting" if wait["waited_ms"] is None else f"{wait['waited_ms']:,} ms"
        yield f"    waited for: {whom}, which held {printable(places(wait['partitions']))}: {how_long}"


def _handover(old: str | None, new: str | None, units: Sequence[tuple[str, int]]) -> str:
    from_whom = "" if old is None else f" from {printable(old)}"
    return f"{printable(places(units))}{from_whom} to {'nobody' if new is None else printable(new)}"


def places(units: Sequence[tuple[str, int]]) -> str:
    """Returns partitions by topic: `orders 0 3, payments 1`."""
    by_topic = partitions_by_topic(units)
    return ", ".join(f"{topic} {' '.join(map(str, partitions))}" for topic, partitions in by_topic.items())


def partitions_by_topic(units: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    by_topic = defaultdict(list)
    for topic, partition in sorted(units):
        by_topic[topic].append(partition)
    return by_topic
