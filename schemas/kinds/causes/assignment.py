"""Causes between joining and owning: no assignment, an assignment that can't be stored, or a new one again and
again."""

from __future__ import annotations

from groupledger.schemas.kinds import incidents, roots, rows_of, signs, triggers
from groupledger.schemas.kinds.causes.cause import Cause, Fault, of_incident
from groupledger.schemas.kinds.clauses import MODERN_GROUP, Clause, Fact
from groupledger.schemas.kinds.symptoms import (
    BEHIND,
    NO_PROGRESS,
    NOBODY_HAS_PARTITIONS,
    REBALANCES_GO_ON,
    REQUEST_REFUSED,
)
from groupledger.schemas.words import Severity

_WITHOUT = (NOBODY_HAS_PARTITIONS, REBALANCES_GO_ON, NO_PROGRESS, BEHIND)
_UNSYNCED = signs.of_kind(incidents.LEADER_NEVER_SYNCED.name)
_NOT_STORED = signs.of_kind(incidents.ASSIGNMENT_NOT_STORED.name)
_IMPORT = "The server log of that time: it shows whether the leader's assignment arrived and whether it was stored."
_OF_RESTARTS = (signs.ONE_CAME_AND_WENT, signs.WENT_BY_EXPIRY, signs.WENT_BY_POLL_TIMEOUT, _NOT_STORED)

ASSIGNMENT_TOO_LARGE = Cause(
    name="assignment_too_large",
    symptoms=_WITHOUT,
    happened=(
        Clause(
            "The leader sent its assignment each time, but it could not be stored: it is larger than __consumer_offsets"
            " accepts.",
            needs=(_NOT_STORED.name,),
        ),
        Clause(
            "Generations left no record, as when their assignment is larger than __consumer_offsets accepts.",
            excludes=(_NOT_STORED.name,),
        ),
    ),
    suspected_by=(_UNSYNCED, _NOT_STORED),
    against=(signs.of_root(roots.OFFSETS_TOPIC_UNAVAILABLE), signs.BEGAN_WELL),
    proved_by=((_NOT_STORED, signs.of_root(roots.ASSIGNMENT_TOO_LARGE)),),
    advice=roots.ASSIGNMENT_TOO_LARGE.advice,
    settings=roots.ASSIGNMENT_TOO_LARGE.settings,
    kind=incidents.ASSIGNMENT_NOT_STORED.name,
    decided_by=_IMPORT,
    fault=Fault.OPERATOR,
    severity=Severity.ERROR,
    harmless=Severity.ERROR,
)
LEADER_SENDS_NO_ASSIGNMENT = Cause(
    name="leader_sends_no_assignment",
    symptoms=_WITHOUT,
    happened="Generations formed but left no record, as happens when the leader's assignor fails or the leader leaves.",
    suspected_by=(_UNSYNCED, signs.AWAITS_ASSIGNMENT),
    against=(_NOT_STORED, signs.BEGAN_WELL),
    proved_by=((signs.logged_kind(incidents.LEADER_NEVER_SYNCED.name), signs.SERVER_LOG_IMPORTED),),
    advice=roots.LOOK_AT_THE_LEADER,
    settings=roots.LEADER_SENDS_NO_ASSIGNMENT.settings,
    kind=incidents.LEADER_NEVER_SYNCED.name,
    decided_by=_IMPORT,
    severity=Severity.ERROR,
)
JOINS_OVERTAKE_SYNC = Cause(
    name="joins_overtake_sync",
    symptoms=_WITHOUT,
    happened="Members joined again before the leader's assignment arrived, so that generations left no record.",
    needs=(_UNSYNCED,),
    against=(_NOT_STORED, signs.BEGAN_WELL),
    proved_by=((_UNSYNCED, signs.of_trigger(triggers.JOINED), signs.SERVER_LOG_IMPORTED),),
    advice="Let members start together (group.initial.rebalance.delay.ms of the brokers), or find the member that"
    " rejoins.",
    settings=("group.initial.rebalance.delay.ms",),
    decided_by=_IMPORT,
)
ASSIGNOR_GIVES_NOTHING = Cause(
    name="assignor_gives_nothing",
    symptoms=_WITHOUT,
    happened="The group has {members} members, but its assignment gives none of them a partition.",
    needs=(signs.NOTHING_ASSIGNED, signs.HAS_MEMBERS),
    against=(signs.TOPOLOGY_NOT_READY, _NOT_STORED),
    proved_by=((signs.NOTHING_ASSIGNED, signs.RECORDS_WAIT),),
    advice="Its topics exist and hold records. Look at the assignor (a custom one, or group.remote.assignor) and"
    " at the members' subscriptions.",
    settings=(
        Clause("partition.assignment.strategy", needs=(Fact.CLASSIC_GROUP,)),
        Clause("group.remote.assignor", needs=(Fact.CONSUMER_GROUP,)),
    ),
    decided_by="Samples of the subscribed topics: whether they exist and have partitions.",
    severity=Severity.ERROR,
)
SUBSCRIBED_TOPIC_MISSING = Cause(
    name="subscribed_topic_missing",
    symptoms=_WITHOUT,
    happened=(
        "The group has {members} members and nothing to read: ",
        Clause("a topic of its subscription may not exist.", excludes=(signs.SUBSCRIBED_TOPIC_UNSEEN.name,)),
        Clause(
            "the cluster has no {topics}, to which they subscribe, or groupledger may not describe it.",
            needs=(signs.SUBSCRIBED_TOPIC_UNSEEN.name,),
        ),
    ),
    needs=(signs.NOTHING_ASSIGNED, signs.HAS_MEMBERS),
    against=(signs.RECORDS_WAIT,),
    proved_by=((signs.NOTHING_ASSIGNED, signs.SUBSCRIBED_TOPIC_UNSEEN),),
    advice="Compare the subscription with the topics of the cluster, and check that bootstrap.servers names the right"
    " cluster.",
    settings=("subscription", "bootstrap.servers"),
    decided_by="`kafka-topics --describe` of the subscribed topics, with the client's own rights.",
    severity=Severity.ERROR,
)
ONE_TOPIC_MISSING = Cause(
    name="one_topic_missing",
    symptoms=(NOBODY_HAS_PARTITIONS,),
    happened="The cluster has no {topics}, to which members subscribe beside others, or groupledger may not describe"
    " it.",
    needs=(signs.HAS_MEMBERS, signs.ONE_TOPIC_UNSEEN),
    proved_by=((signs.ONE_TOPIC_UNSEEN,),),
    advice="If it is not to be created later, compare the subscription with the topics of the cluster.",
    settings=("subscription",),
    decided_by="`kafka-topics --describe` of the subscribed topics, with the client's own rights.",
    severity=Severity.INFO,
)
PATTERN_MATCHES_NOTHING = Cause(
    name="pattern_matches_nothing",
    symptoms=(NOBODY_HAS_PARTITIONS,),
    happened="Members subscribe by a regular expression and own nothing: it may match no topic that they may describe.",
    needs=(signs.REGEX_SUBSCRIPTION, signs.NOTHING_ASSIGNED),
    against=(signs.RECORDS_WAIT,),
    advice="The broker evaluates it in RE2 syntax, over the topics that the client is authorized to describe.",
    settings=("subscription pattern", "ACL: DESCRIBE of the topics"),
    decided_by="The resolved expression in the topic (consumer_group_regular_expression), and the client's ACLs.",
)
TOPOLOGY_NOT_READY = Cause(
    name="topology_not_ready",
    symptoms=_WITHOUT,
    happened="Topics of the streams topology are missing or have the wrong number of partitions: nobody gets a task.",
    needs=(signs.TOPOLOGY_NOT_READY,),
    proved_by=((signs.TOPOLOGY_NOT_READY,),),
    advice="Create the missing topics, or give joined topics the same number of partitions.",
    decided_by="The state of the streams group (kafka-streams-groups --describe).",
    fault=Fault.OPERATOR,
    severity=Severity.ERROR,
)
JOIN_STORM = Cause(
    name="join_storm",
    symptoms=(REBALANCES_GO_ON,),
    happened="Most of {count} rebalances began because a member joined, although none is known to have dropped out.",
    needs=(signs.of_trigger(triggers.JOINED),),
    against=(*_OF_RESTARTS, signs.ALL_REPLACED),
    proved_by=((signs.of_kind(incidents.REBALANCE_STORM.name), signs.SERVER_LOG_IMPORTED),),
    advice=(
        "Find out who joins: members that start one by one, or clients that give up while they join",
        Clause(" (request.timeout.ms has to be longer than a rebalance)", excludes=MODERN_GROUP),
        ".",
    ),
    settings=(Clause("group.initial.rebalance.delay.ms", excludes=MODERN_GROUP),),
    decided_by="The server log of that time: the reason of each rebalance.",
)
SUBSCRIPTION_ALTERNATES = Cause(
    name="subscription_alternates",
    symptoms=(REBALANCES_GO_ON,),
    happened=(
        Clause(
            "Most of {count} rebalances began because a member joined with a different subscription or different"
            " metadata.",
            needs=(signs.of_trigger(triggers.METADATA_CHANGED).name,),
        ),
        Clause(
            "A member changes its subscription again and again, and the group rebalanced {count} times.",
            excludes=(signs.of_trigger(triggers.METADATA_CHANGED).name,),
        ),
    ),
    suspected_by=(signs.of_trigger(triggers.METADATA_CHANGED),),
    against=(signs.FOLLOW_UPS, _NOT_STORED),
    proved_by=(
        (signs.SUBSCRIPTION_CHANGES,),
        (signs.of_trigger(triggers.METADATA_CHANGED), signs.of_kind(incidents.REBALANCE_STORM.name)),
        (signs.of_trigger(triggers.METADATA_CHANGED), signs.SERVER_LOG_IMPORTED),
    ),
    advice="Subscribe once, with all topics, and not before each poll. Give all members the same list.",
    settings=("subscription",),
    decided_by="The members' subscriptions by generation: `groupledger group NAME`.",
)
TOPICS_KEEP_CHANGING = Cause(
    name="topics_keep_changing",
    symptoms=(REBALANCES_GO_ON,),
    happened="Most of {count} rebalances began because subscribed topics had changed: new topics, deleted topics or"
    " more partitions.",
    suspected_by=(signs.of_trigger(triggers.LEADER_REJOINED),),
    proved_by=((signs.of_trigger(triggers.TOPICS_CHANGED),), (signs.PARTITIONS_ADDED,)),
    against=(_NOT_STORED, signs.SUBSCRIPTION_CHANGES),
    advice="Each new topic makes the group rebalance: narrow the pattern, or create topics together.",
    settings=("subscription pattern", Clause("metadata.max.age.ms", needs=(Fact.CLASSIC_GROUP,))),
    decided_by="Which topics were created at these times.",
    fault=Fault.OPERATOR,
)
COOPERATIVE_FOLLOW_UPS = Cause(
    name="cooperative_follow_ups",
    symptoms=(REBALANCES_GO_ON,),
    happened="Most of the rebalances are the second step of a cooperative rebalance, in which revoked partitions get"
    " new owners.",
    needs=(signs.FOLLOW_UPS,),
    against=_OF_RESTARTS,
    proved_by=((signs.FOLLOW_UPS,),),
    decided_by="The owned partitions that members sent as they joined: `groupledger rebalances NAME`.",
    fault=Fault.NOBODY,
    severity=Severity.INFO,
)
PROTOCOL_MISMATCH = of_incident(incidents.INCONSISTENT_PROTOCOL, REQUEST_REFUSED, NOBODY_HAS_PARTITIONS)
INVALID_REGEX = of_incident(incidents.INVALID_REGEX, REQUEST_REFUSED, NOBODY_HAS_PARTITIONS)
UNSUPPORTED_ASSIGNOR = of_incident(incidents.UNSUPPORTED_ASSIGNOR, REQUEST_REFUSED, NOBODY_HAS_PARTITIONS)
STREAMS_INVALID_TOPOLOGY = of_incident(incidents.STREAMS_INVALID_TOPOLOGY, REQUEST_REFUSED, NOBODY_HAS_PARTITIONS)
STREAMS_TOPOLOGY_EPOCH = of_incident(incidents.STREAMS_INVALID_TOPOLOGY_EPOCH, REQUEST_REFUSED)
STREAMS_TOPOLOGY_FENCED = of_incident(incidents.STREAMS_TOPOLOGY_FENCED, REQUEST_REFUSED)
STREAMS_TOPOLOGY_CHANGED = of_incident(incidents.STREAMS_TOPOLOGY_CHANGED, REQUEST_REFUSED)

CAUSES = rows_of(globals(), Cause)
