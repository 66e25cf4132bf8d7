"""Rebalances that come too often, have no effect, or do not end."""

from __future__ import annotations

from dataclasses import replace

from groupledger.schemas.kinds import roots, rows_of
from groupledger.schemas.kinds.clauses import MODERN_GROUP, Clause, Fact
from groupledger.schemas.kinds.incidents.kind import WITHOUT_STATIC_MEMBERS, IncidentKind
from groupledger.schemas.words import Severity

_STATIC_MEMBERSHIP = Clause("group.instance.id", excludes=WITHOUT_STATIC_MEMBERS)
REBALANCE_STORM = IncidentKind(
    name="rebalance_storm",
    meaning="A group rebalanced more often than a restart of every member explains.",
    happened="The group rebalanced {detail} times within {seconds} s.",
    advice=(
        Clause(
            "Most of them only follow up the one before, and no member came or went: members do not get their"
            " assignment in time, or their assignor keeps moving partitions. Upgrade the clients",
            needs=(Fact.FOLLOW_UPS,),
        ),
        Clause(
            ", or give all of them another partition.assignment.strategy", needs=(Fact.CLASSIC_GROUP, Fact.FOLLOW_UPS)
        ),
        Clause(".", needs=(Fact.FOLLOW_UPS,)),
        Clause(
            "No member came or went in most of them: members join again by themselves. Their own logs say why, such as"
            " metadata of topics that changed; the server log has it as the client's reason.",
            needs=(Fact.SAME_MEMBERS,),
            excludes=(Fact.FOLLOW_UPS,),
        ),
        Clause(
            "Nothing is processed while members rejoin, unless their assignor is cooperative. Find out who"
            " comes and goes, and use static membership (group.instance.id) and cooperative-sticky.",
            needs=(Fact.CLASSIC_GROUP,),
            excludes=(Fact.COOPERATIVE, Fact.FOLLOW_UPS, Fact.SAME_MEMBERS),
        ),
        *(
            Clause(
                "Members that keep their partitions continue to process. Find out who comes and goes, and use static"
                " membership (group.instance.id).",
                needs=needs,
                excludes=(Fact.FOLLOW_UPS, Fact.SAME_MEMBERS),
            )
            for needs in ((Fact.CONSUMER_GROUP,), (Fact.CLASSIC_GROUP, Fact.COOPERATIVE))
        ),
        Clause(
            "Find out which workers come and go, and which connectors keep changing their configuration or tasks;"
            " raise scheduled.rebalance.max.delay.ms where workers are restarted.",
            needs=(Fact.CONNECT_GROUP,),
            excludes=(Fact.FOLLOW_UPS, Fact.SAME_MEMBERS),
        ),
        Clause(
            "Tasks that do not move continue. Find out who comes and goes, use static membership (group.instance.id),"
            " and standby tasks (num.standby.replicas) where state takes long to restore.",
            needs=(Fact.CLASSIC_STREAMS_GROUP,),
            excludes=(Fact.FOLLOW_UPS, Fact.SAME_MEMBERS),
        ),
        Clause(
            "Find out who comes and goes.",
            excludes=(
                *(Fact.CLASSIC_GROUP, Fact.CONSUMER_GROUP, Fact.CONNECT_GROUP, Fact.CLASSIC_STREAMS_GROUP),
                *(Fact.FOLLOW_UPS, Fact.SAME_MEMBERS),
            ),
        ),
    ),
    settings=(
        Clause("partition.assignment.strategy", needs=(Fact.CLASSIC_GROUP, Fact.FOLLOW_UPS)),
        Clause("group.instance.id", excludes=(*WITHOUT_STATIC_MEMBERS, Fact.FOLLOW_UPS, Fact.SAME_MEMBERS)),
        Clause("scheduled.rebalance.max.delay.ms", needs=(Fact.CONNECT_GROUP,), excludes=(Fact.FOLLOW_UPS,)),
        Clause(
            "partition.assignment.strategy=cooperative-sticky",
            needs=(Fact.CLASSIC_GROUP,),
            excludes=(Fact.COOPERATIVE, Fact.FOLLOW_UPS, Fact.SAME_MEMBERS),
        ),
    ),
    root=roots.REBALANCE,
    is_pattern=True,
    confidence=0.95,
)
MEMBER_FLAPPING = IncidentKind(
    name="member_flapping",
    meaning="One process kept joining and leaving.",
    happened="{who} joined and went away {detail} times within {seconds} s.",
    advice=(
        Clause("Each time the group rebalances: fix the process", excludes=(Fact.STATIC_MEMBER,)),
        Clause(
            ". It left in order: its own log, and that of its supervisor, may say why",
            needs=(Fact.LEFT_IN_ORDER,),
            excludes=(Fact.STATIC_MEMBER,),
        ),
        Clause(
            ", or give it a group.instance.id so that a restart causes no rebalance",
            excludes=(*WITHOUT_STATIC_MEMBERS, Fact.STATIC_MEMBER, Fact.LEFT_IN_ORDER),
        ),
        Clause(
            "It has a group.instance.id: the group rebalances only if it stays away for longer than its session"
            " timeout. Look whether it ends, or whether a second process uses its id",
            needs=(Fact.STATIC_MEMBER,),
        ),
        ".",
    ),
    settings=(Clause("group.instance.id", excludes=(*WITHOUT_STATIC_MEMBERS, Fact.STATIC_MEMBER, Fact.LEFT_IN_ORDER)),),
    root=roots.RESTART,
    is_pattern=True,
    confidence=0.95,
)
LEADER_NEVER_SYNCED = IncidentKind(
    name="leader_never_synced",
    meaning="Generations formed but left no record: no assignment was sent, or it could not be stored.",
    happened=(
        Clause(
            "{detail} generations before {current} left no record: their leader sent no assignment, or the coordinator"
            " could not store it.",
            needs=(Fact.INFERRED,),
        ),
        Clause(
            "A generation formed, but its leader never sent an assignment: {times}, first before generation {current}.",
            excludes=(Fact.INFERRED,),
        ),
        " Nobody had partitions then.",
        Clause(
            " {who} was removed while the group waited for it.", needs=(Fact.WAS_REMOVED,), excludes=(Fact.INFERRED,)
        ),
    ),
    advice=(
        Clause("Import the server log of that time, which distinguishes the two.", excludes=(Fact.LOG_IMPORTED,)),
        Clause("Look at the leader of that time.", excludes=(Fact.INFERRED, Fact.WAS_REMOVED)),
        Clause(roots.LOOK_AT_THE_LEADER, needs=(Fact.WAS_REMOVED,), excludes=(Fact.INFERRED,)),
    ),
    settings=(
        Clause(
            "partition.assignment.strategy", needs=(Fact.CLASSIC_GROUP, Fact.WAS_REMOVED), excludes=(Fact.INFERRED,)
        ),
    ),
    root=roots.REBALANCE,
    severity=Severity.INFO,
    confidence=0.95,
)
ASSIGNMENT_NOT_STORED = IncidentKind(
    name="assignment_not_stored",
    meaning="The coordinator could not store the leader's assignment, and the group rebalanced again.",
    happened="The coordinator failed {times} to store the group's assignment ({detail}), and made the group rebalance"
    " each time. Nobody had partitions in that time.",
    root=roots.ASSIGNMENT_UNSTORED,
    severity=Severity.ERROR,
    is_pattern=True,
)
# No leader sends its assignment sooner because of it.
_INTERVAL_OF_MEMBERS = tuple(
    replace(each, excludes=(*each.excludes, Fact.AWAITS_ASSIGNMENT)) for each in roots.POLL_INTERVAL
)
REBALANCE_STUCK = IncidentKind(
    name="rebalance_stuck",
    meaning="A rebalance of the group does not end, and the group reads nothing while records wait.",
    happened="The group has been in one rebalance for {seconds} s, and nobody read the {detail} records that"
    " waited in {count} partitions.",
    advice=(
        Clause(
            "It waits for the assignment of the group's leader: look at its log.",
            needs=(Fact.AWAITS_ASSIGNMENT,),
        ),
        Clause(
            "In the state CompletingRebalance it waits for the leader's assignment: look at the leader's log."
            " Otherwise it waits",
            excludes=(Fact.AWAITS_ASSIGNMENT, Fact.AWAITS_MEMBERS),
        ),
        Clause("It waits", needs=(Fact.AWAITS_MEMBERS,)),
        Clause(" for a member that does not rejoin, for as long as the longest ", excludes=(Fact.AWAITS_ASSIGNMENT,)),
        *_INTERVAL_OF_MEMBERS,
        Clause(
            " in the group: find the client that no longer polls, by a thread dump, stop it, and lower ",
            excludes=(Fact.AWAITS_ASSIGNMENT,),
        ),
        *_INTERVAL_OF_MEMBERS,
        Clause(".", excludes=(Fact.AWAITS_ASSIGNMENT,)),
        Clause(
            " The group has static members. One that was closed, or is stopped now, does not leave, and the rebalance"
            " waits for it until its session is over: start it again with its group.instance.id, or remove that id"
            " (removeMembersFromConsumerGroup).",
            needs=(Fact.STATIC_MEMBER,),
            excludes=(Fact.AWAITS_ASSIGNMENT,),
        ),
    ),
    settings=(
        *_INTERVAL_OF_MEMBERS,
        Clause("session.timeout.ms", needs=(Fact.STATIC_MEMBER,), excludes=(Fact.AWAITS_ASSIGNMENT, *MODERN_GROUP)),
    ),
    root=roots.REBALANCE,
    severity=Severity.ERROR,
    confidence=0.95,
)
RECONCILIATION_STUCK = IncidentKind(
    name="reconciliation_stuck",
    meaning="A member of a KIP-848 group holds back partitions that others should get, and records wait in them.",
    happened="{who} has held back {count} partitions that others wait for, for {seconds} s, and nobody committed the"
    " {detail} records that arrived.",
    advice="It does not poll, or its processing takes that long, and it keeps them until max.poll.interval.ms is over:"
    " look at that process, stop it if it hangs, and lower max.poll.interval.ms.",
    settings=("max.poll.interval.ms", "max.poll.records"),
    root=roots.POLL_TIMEOUT_EXCEEDED,
    severity=Severity.ERROR,
    confidence=0.95,
)

KINDS = rows_of(globals(), IncidentKind)
