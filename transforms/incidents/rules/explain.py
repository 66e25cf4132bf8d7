"""Each incident in two sentences for a developer on call, and the setting that prevents it.

The first sentence says what happened, with the names, the second what it means and what to do. Names come from clients
and stand here as they are: whoever prints the text makes them harmless (`jobs.process.terminal.printable`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.transforms.incidents.rules import roots
from groupledger.transforms.incidents.rules import sighting as kinds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Row = Mapping[str, Any]

MAX_POLL_INTERVAL = "max.poll.interval.ms"
MAX_POLL_RECORDS = "max.poll.records"
SESSION_TIMEOUT = "session.timeout.ms"
INSTANCE_ID = "group.instance.id"

_FIRST = {
    kinds.ILLEGAL_GENERATION: "{who} spoke for generation {claimed} when the group was at {current}, and was refused"
    " {times} with ILLEGAL_GENERATION.",
    kinds.UNKNOWN_MEMBER: "{who} was refused {times} with UNKNOWN_MEMBER_ID: the group had removed it before.",
    kinds.FENCED_INSTANCE: "{who} was refused {times} with FENCED_INSTANCE_ID: another process joined under its"
    " instance id {instance}.",
    kinds.REBALANCE_IN_PROGRESS_COMMIT: "{who} committed while the group waited for its leader's assignment, and was"
    " refused {times} with REBALANCE_IN_PROGRESS.",
    kinds.FENCED_MEMBER_EPOCH: "{who} spoke for epoch {claimed}, which the coordinator no longer grants it, and was"
    " refused {times} with FENCED_MEMBER_EPOCH.",
    kinds.STALE_MEMBER_EPOCH: "{who} committed under the epoch {claimed}, which the group has moved on from, and was"
    " refused {times} with STALE_MEMBER_EPOCH.",
    kinds.POLL_TIMEOUT: "{who} did not poll for longer than max.poll.interval.ms and left the group.",
    kinds.SESSION_EXPIRED: "{who} sent no heartbeat for longer than session.timeout.ms and was removed.",
    kinds.STATIC_SUBSCRIPTION_IGNORED: "{who} came back under instance id {instance} with other topics, and the group"
    " did not rebalance.",
    kinds.ZOMBIE_COMMIT_SUSPECTED: "{who} fell silent and dropped out of the group, and the same client joined again"
    " soon after: it was alive all the time.",
    kinds.OFFSET_REWIND: "Committed offsets of {count} partitions went back.",
    kinds.COMMIT_GAP: "{who} stopped committing all of its partitions for {seconds} s, though it had a steady rhythm.",
    kinds.REBALANCE_STORM: "The group rebalanced {detail} times within {seconds} s.",
    kinds.MEMBER_FLAPPING: "{who} came and went {detail} times within {seconds} s.",
    kinds.LEADER_NEVER_SYNCED: "A generation before {current} was formed, but its leader never sent an assignment.",
    kinds.STALLED_TRANSACTION: "A transaction with offsets in partition {partition} of __consumer_offsets has not ended"
    " for {seconds} s.",
}
_REFUSED_COMMIT = "What it had processed is processed again by the new owner{duplicates}"
_NOT_A_COMMIT = "No commit was lost with that; the client joins again by itself"
_SECOND = {
    roots.POLL_TIMEOUT_EXCEEDED: "Its processing takes too long between two polls: raise max.poll.interval.ms, or lower"
    " max.poll.records.",
    roots.SESSION_EXPIRED: "Its process was paused, starved or cut off: look at its garbage collection and its CPU"
    " limit, or raise session.timeout.ms.",
    roots.NETWORK: "Other members at other addresses expired at the same moment: look at the network between them and"
    " the coordinator, or raise session.timeout.ms.",
    roots.INSTANCE_STARTED_TWICE: "Two processes run under one group.instance.id: give each its own.",
    roots.COORDINATOR_FAILOVER: "The group's coordinator had just moved to another broker, and it forgot what no record"
    " held: there is nothing to change in the client.",
    roots.STALE_GENERATION_KEPT: "The client goes on with a generation that it should have given up: upgrade it, and"
    " commit within its rebalance callback.",
    roots.REBALANCE: "It happened during a rebalance.",
    roots.RESTART: "Processes of it were restarted.",
    roots.UNKNOWN: "Import the server log of that time to learn why.",
}
_OF_KIND = {
    kinds.REBALANCE_IN_PROGRESS_COMMIT: "This is normal life: the client joins again and commits what it then owns.",
    kinds.STATIC_SUBSCRIPTION_IGNORED: "Its old assignment stays until the next rebalance (KIP-345): let all members"
    " subscribe to the same topics, and make the group rebalance once.",
    kinds.REBALANCE_STORM: "Nothing is processed while members join again: look at who comes and goes, use static"
    " membership (group.instance.id) and cooperative-sticky.",
    kinds.MEMBER_FLAPPING: "Each time the group rebalances: mend the process, or give it a group.instance.id so that a"
    " restart costs no rebalance.",
    kinds.LEADER_NEVER_SYNCED: "The others waited for it until the next rebalance: look at the leader of that time.",
    kinds.STALLED_TRANSACTION: "Readers of committed offsets wait behind it: find the producer, or abort it with"
    " kafka-transactions.",
    kinds.COMMIT_GAP: "If its topics had new records, it has processed nothing or not committed: look at its lag then.",
    kinds.ZOMBIE_COMMIT_SUSPECTED: "What it had in hand was processed again by the new owners{duplicates}; refused"
    " commits are not in the topic, so import the request log to be certain.",
}
_STATIC_EXPIRED = (
    "It is a static member, which does not leave when it is stopped: if that was meant, remove it with an admin client"
    " (removeMembersFromConsumerGroup) the next time, else it was paused, cut off, or away for too long."
)
_REWINDS = {
    "admin_reset": "The group had no members then, so somebody reset it: what lies between is read again{duplicates}.",
    "client_seek_or_reset": "A member sought back, or its offset was reset: what lies between is read"
    " again{duplicates}; look at auto.offset.reset and at who called seek.",
    "topic_recreated": "The topic was deleted and made anew, so offsets begin again: nothing is read twice.",
}
_SETTING_OF_KIND = {
    kinds.STATIC_SUBSCRIPTION_IGNORED: None,
    kinds.REBALANCE_IN_PROGRESS_COMMIT: None,
    kinds.OFFSET_REWIND: None,
    kinds.STALLED_TRANSACTION: "transaction.timeout.ms",
    kinds.REBALANCE_STORM: f"{INSTANCE_ID}, partition.assignment.strategy=cooperative-sticky",
    kinds.MEMBER_FLAPPING: INSTANCE_ID,
}
_SETTING_OF_ROOT = {
    roots.POLL_TIMEOUT_EXCEEDED: f"{MAX_POLL_INTERVAL}, {MAX_POLL_RECORDS}",
    roots.SESSION_EXPIRED: SESSION_TIMEOUT,
    roots.NETWORK: SESSION_TIMEOUT,
    roots.INSTANCE_STARTED_TWICE: INSTANCE_ID,
}


def explanation(row: Row, detail: str | None) -> str:
    names = {
        "who": _who(row),
        "times": "once" if row["occurrences"] == 1 else f"{row['occurrences']:,} times",
        "claimed": _number(row["claimed_generation"]),
        "current": _number(row["current_generation"]),
        "instance": row["group_instance_id"],
        "count": f"{len(row['partitions']):,}",
        "seconds": f"{(row['last_seen_at'] - row['first_seen_at']) // 1_000_000:,}",
        "partition": row["partitions"][0]["partition"] if row["partitions"] else "-",
        "detail": detail,
        "duplicates": _duplicates(row),
    }
    return f"{_FIRST[row['kind']].format(**names)} {_second(row).format(**names)}"


def setting_to_change(row: Row) -> str | None:
    if row["kind"] in _SETTING_OF_KIND:
        return _SETTING_OF_KIND[row["kind"]]
    return _SETTING_OF_ROOT.get(row["probable_root"])


def _second(row: Row) -> str:
    kind, root = row["kind"], row["probable_root"]
    if kind == kinds.OFFSET_REWIND:
        return _REWINDS[root]
    if kind in _OF_KIND:
        return _OF_KIND[kind]
    if (kind, root) == (kinds.SESSION_EXPIRED, roots.SESSION_EXPIRED) and row["group_instance_id"] is not None:
        return _STATIC_EXPIRED
    cause = _SECOND[root] if root in _SECOND else _SECOND[roots.UNKNOWN]
    if kind not in kinds.REFUSALS:
        return cause
    consequence = _REFUSED_COMMIT if row["severity"] == kinds.ERROR else _NOT_A_COMMIT
    return f"{consequence}; {cause[0].lower()}{cause[1:]}"


def _who(row: Row) -> str:
    named = row["client_id"] or row["member_id"] or "A member"
    return f"{named} at {row['client_host']}" if row["client_host"] else str(named)


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _duplicates(row: Row) -> str:
    low, high = row["duplicates_min"], row["duplicates_max"]
    if high is None:
        return ""
    return f" ({high:,} records)" if low == high else f" ({low or 0:,} to {high:,} records)"
