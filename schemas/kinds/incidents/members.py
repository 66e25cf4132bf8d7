"""Members that were removed, or left because they did not poll, and the consequences."""

from __future__ import annotations

from groupledger.schemas.kinds import roots, rows_of, triggers
from groupledger.schemas.kinds.clauses import Clause, Fact
from groupledger.schemas.kinds.incidents.kind import UNCONFIRMED, IncidentKind
from groupledger.schemas.words import Severity

_PROBABLY = (Clause("probably ", needs=(Fact.INFERRED,)),)
REBALANCE_TIMEOUT_FENCED = IncidentKind(
    name="rebalance_timeout_fenced",
    meaning="A member was fenced because it did not revoke partitions within its rebalance timeout (KIP-848).",
    happened=(
        "{who} ",
        *_PROBABLY,
        "did not revoke partitions that others waited for within max.poll.interval.ms, and was fenced.",
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
    meaning="A member did not rejoin while its group rebalanced, and was removed (classic protocol).",
    happened=(
        "{who} did not rejoin within the rebalance timeout, while the group waited for it, and was removed.",
        UNCONFIRMED,
    ),
    advice=(
        "It was busy between two polls, hung or gone, and reads nothing until it rejoins. Shorten its work, or",
        " raise ",
        *roots.POLL_INTERVAL,
        " (clients other than Java's call it the rebalance timeout).",
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
    static_advice="It is a static member, which does not leave when it is stopped. If it was stopped on purpose,"
    " remove it with an"
    " admin client (removeMembersFromConsumerGroup) next time. Otherwise it was paused, disconnected or away for too"
    " long.",
    root=roots.SESSION_EXPIRED,
    trigger=triggers.SESSION_EXPIRED,
    confidence=0.85,
)
STATIC_SUBSCRIPTION_IGNORED = IncidentKind(
    name="static_subscription_ignored",
    meaning="A static member came back with different topics but kept its assignment.",
    happened='{who} came back under instance id "{instance}" with different topics, but the group did not rebalance.',
    advice="Its old assignment stays until the next rebalance (KIP-345): let all members subscribe to the same topics,"
    " and make the group rebalance once.",
    settings=(),
    root=roots.RESTART,
    confidence=0.95,
)
ZOMBIE_COMMIT_SUSPECTED = IncidentKind(
    name="zombie_commit_suspected",
    meaning="A silent member was removed, and the same process rejoined soon after.",
    happened="{who} stopped sending heartbeats and was removed, and the same client rejoined soon after: it was alive"
    " all the time.",
    advice="The records that it had fetched may have been processed twice{duplicates}. Refused commits are not in the"
    " topic, so import the request log to be certain.",
    severity=Severity.INFO,
    confidence=0.65,
)

KINDS = rows_of(globals(), IncidentKind)
