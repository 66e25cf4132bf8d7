"""Members that were removed, or left since they did not poll, and what became of them."""

from __future__ import annotations

from groupledger.schemas.kinds import roots, rows_of, triggers
from groupledger.schemas.kinds.clauses import Clause, Fact
from groupledger.schemas.kinds.incidents.kind import UNCONFIRMED, IncidentKind
from groupledger.schemas.words import Severity

_PROBABLY = (Clause("probably ", needs=(Fact.INFERRED,)),)
REBALANCE_TIMEOUT_FENCED = IncidentKind(
    name="rebalance_timeout_fenced",
    meaning="A member was fenced because it did not give up partitions within its rebalance timeout (KIP-848).",
    happened=(
        "{who} ",
        *_PROBABLY,
        "did not give up partitions that others waited for, for longer than max.poll.interval.ms, and was fenced.",
        UNCONFIRMED,
    ),
    root=roots.POLL_TIMEOUT_EXCEEDED,
    trigger=triggers.REBALANCE_TIMEOUT,
    confidence=0.9,
)
POLL_TIMEOUT = IncidentKind(
    name="poll_timeout",
    meaning="A member left because it did not poll within max.poll.interval.ms.",
    happened=(
        *("{who} ", *_PROBABLY, "did not poll for longer than ", *roots.POLL_INTERVAL, ", and left the group."),
        UNCONFIRMED,
    ),
    root=roots.POLL_TIMEOUT_EXCEEDED,
    trigger=triggers.LEFT_POLL_TIMEOUT,
    confidence=0.7,
)
FAILED_TO_REJOIN = IncidentKind(
    name="failed_to_rejoin",
    meaning="A member did not join again while its group rebalanced, and was removed (classic protocol).",
    happened=(
        "{who} did not join again within the rebalance timeout, while the group waited for it, and was removed.",
        UNCONFIRMED,
    ),
    advice=(
        "It was busy between two polls, hung or gone, and reads nothing until it joins again: shorten its work, or",
        " raise ",
        *roots.POLL_INTERVAL,
        " (a client that is not Java's calls it its rebalance timeout).",
    ),
    settings=(*roots.POLL_INTERVAL, Clause("max.poll.records", excludes=(Fact.CONNECT_GROUP,))),
    root=roots.POLL_TIMEOUT_EXCEEDED,
    trigger=triggers.FAILED_TO_REJOIN,
)
SESSION_EXPIRED = IncidentKind(
    name="session_expired",
    meaning="A member sent no heartbeat within its session timeout and was removed.",
    happened=(
        *("{who} ", *_PROBABLY, "sent no heartbeat for longer than its session timeout, and was removed."),
        UNCONFIRMED,
    ),
    static_advice="It is a static member, which does not leave when it is stopped: if that was meant, remove it with an"
    " admin client (removeMembersFromConsumerGroup) the next time, else it was paused, cut off, or away for too long.",
    root=roots.SESSION_EXPIRED,
    trigger=triggers.SESSION_EXPIRED,
    confidence=0.85,
)
STATIC_SUBSCRIPTION_IGNORED = IncidentKind(
    name="static_subscription_ignored",
    meaning="A static member came back with other topics, and kept its assignment.",
    happened="{who} came back under instance id {instance} with other topics, and the group did not rebalance.",
    advice="Its old assignment stays until the next rebalance (KIP-345): let all members subscribe to the same topics,"
    " and make the group rebalance once.",
    settings=(),
    root=roots.RESTART,
    confidence=0.95,
)
ZOMBIE_COMMIT_SUSPECTED = IncidentKind(
    name="zombie_commit_suspected",
    meaning="A silent member was removed, and the same process joined again soon after.",
    happened="{who} fell silent and dropped out of the group, and the same client joined again soon after: it was alive"
    " all the time.",
    advice="What it had in hand may have been processed twice{duplicates}; refused commits are not in the topic, so"
    " import the request log to be certain.",
    severity=Severity.INFO,
    confidence=0.65,
)

KINDS = rows_of(globals(), IncidentKind)
