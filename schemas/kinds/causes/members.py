"""Causes that lie with a group's members: they left, dropped out, come and go, or were started twice."""

from __future__ import annotations

from groupledger.schemas.kinds import incidents, roots, rows_of, signs
from groupledger.schemas.kinds.causes.cause import Cause, Fault, of_incident
from groupledger.schemas.kinds.clauses import Clause, Fact
from groupledger.schemas.kinds.symptoms import (
    BEHIND,
    MEMBER_COMES_AND_GOES,
    NO_PROGRESS,
    NOBODY_HAS_PARTITIONS,
    READ_TWICE_OR_NEVER,
    REBALANCES_GO_ON,
    REQUEST_REFUSED,
)
from groupledger.schemas.words import Severity

_WITHOUT_MEMBERS = (NOBODY_HAS_PARTITIONS, NO_PROGRESS, BEHIND)
_RESTLESS = (MEMBER_COMES_AND_GOES, REBALANCES_GO_ON)
_IMPORT = "The server log of that time: it says of each member whether it left, and why, or was removed."
_WAITING = Clause(" {records} records wait, and nobody reads them.", needs=(signs.RECORDS_WAIT.name,))
_START = "Start its consumers again, or delete the group if it is not needed any more."
STATIC_MEMBERSHIP = Clause("group.instance.id", excludes=(Fact.SHARE_GROUP, Fact.STREAMS_GROUP))
POLL_SETTINGS = (
    Clause("max.poll.interval.ms", excludes=(Fact.SHARE_GROUP,)),
    Clause("max.poll.records"),
)

SCALED_TO_ZERO = Cause(
    name="scaled_to_zero",
    symptoms=_WITHOUT_MEMBERS,
    happened=("All of the group's members left within a minute, as when it is scaled to zero or stopped.", _WAITING),
    needs=(signs.NO_MEMBERS, signs.LAST_LEFT),
    against=(signs.LAST_EXPIRED, signs.LAST_POLL_TIMEOUT, signs.ONE_CAME_AND_WENT),
    proved_by=((signs.LAST_LEFT_TOGETHER,),),
    advice=f"{_START} An autoscaler that counts lag must not take a missing number for zero.",
    told_apart_by="The deployment: how many replicas it was to have then.",
    fault=Fault.OPERATOR,
    severity=Severity.ERROR,
)
MEMBERS_LEFT = Cause(
    name="members_left",
    symptoms=_WITHOUT_MEMBERS,
    happened=("The group's last member, {who}, left by itself.", _WAITING),
    needs=(signs.NO_MEMBERS, signs.LAST_LEFT),
    against=(signs.LAST_EXPIRED, signs.LAST_POLL_TIMEOUT, signs.LAST_LEFT_TOGETHER),
    proved_by=((signs.LAST_LEFT,),),
    advice=f"It was stopped, or it ended with an error: look at its own log. {_START}",
    told_apart_by=_IMPORT,
    severity=Severity.ERROR,
)
MEMBERS_EXPIRED = Cause(
    name="members_expired",
    symptoms=_WITHOUT_MEMBERS,
    happened=("The group's last member, {who}, fell silent and was removed: it did not leave.", _WAITING),
    needs=(signs.NO_MEMBERS, signs.LAST_EXPIRED),
    proved_by=((signs.LAST_EXPIRED,),),
    advice=f"It was killed, paused or cut off: look for the end of its process and at its network. {_START}",
    told_apart_by=_IMPORT,
    severity=Severity.ERROR,
)
MEMBERS_POLLED_TOO_LATE = Cause(
    name="members_polled_too_late",
    symptoms=_WITHOUT_MEMBERS,
    happened=(
        "The group's last member, {who}, left since it had not polled within max.poll.interval.ms.",
        _WAITING,
    ),
    needs=(signs.NO_MEMBERS, signs.LAST_POLL_TIMEOUT),
    proved_by=((signs.LAST_POLL_TIMEOUT, signs.DEPARTURES_LOGGED),),
    advice="It hangs in its processing, or the thread that polls has died: look at its threads, and restart it.",
    settings=POLL_SETTINGS,
    told_apart_by=_IMPORT,
    severity=Severity.ERROR,
)
CRASH_LOOP = Cause(
    name="crash_loop",
    symptoms=(*_RESTLESS, NOBODY_HAS_PARTITIONS, NO_PROGRESS, BEHIND),
    happened=(
        "{who} came and went {times} within {seconds} s",
        Clause(": it left each time", needs=(signs.WENT_BY_LEAVING.name,)),
        Clause(": it was cut off or killed each time", needs=(signs.WENT_BY_EXPIRY.name,)),
        Clause(": it had not polled in time", needs=(signs.WENT_BY_POLL_TIMEOUT.name,)),
        ".",
        Clause(" Nobody processes meanwhile, each time.", needs=(Fact.CLASSIC_GROUP, signs.OFFSETS_STAND.name)),
        Clause(" Members that keep their partitions go on processing.", needs=(Fact.CONSUMER_GROUP,)),
    ),
    needs=(signs.ONE_CAME_AND_WENT,),
    proved_by=((signs.ONE_CAME_AND_WENT,),),
    advice=(
        "It is started again and ends again: look at its own log for what ends it",
        Clause(
            "; with a group.instance.id, a restart within its session costs no rebalance",
            excludes=(Fact.SHARE_GROUP, Fact.STREAMS_GROUP, signs.STATIC_MEMBERS.name),
        ),
        ".",
    ),
    settings=(STATIC_MEMBERSHIP,),
    told_apart_by="The process's own log and its supervisor's count of restarts.",
    severity=Severity.ERROR,
    harmless=Severity.WARNING,
)
INSTANCE_STARTED_TWICE = Cause(
    name="instance_started_twice",
    symptoms=(REQUEST_REFUSED, *_RESTLESS),
    happened="Two processes run under one group.instance.id, and take the member from each other.",
    needs=(signs.STATIC_MEMBERS,),
    proved_by=(
        (signs.of_kind(incidents.FENCED_INSTANCE.name),),
        (signs.of_kind(incidents.UNRELEASED_INSTANCE_ID.name),),
        (signs.of_root(roots.INSTANCE_STARTED_TWICE),),
    ),
    advice="Give each process a group.instance.id of its own.",
    settings=("group.instance.id",),
    kind=incidents.FENCED_INSTANCE.name,
    told_apart_by="The request log of that time: FENCED_INSTANCE_ID or UNRELEASED_INSTANCE_ID, and from which hosts.",
    severity=Severity.ERROR,
    harmless=Severity.ERROR,
)
NETWORK = Cause(
    name="network",
    symptoms=(*_RESTLESS, NO_PROGRESS),
    happened="Members on two or more hosts fell silent within ten seconds and were removed.",
    needs=(signs.HOSTS_EXPIRED_TOGETHER,),
    against=(signs.COORDINATOR_MOVED,),
    proved_by=((signs.of_root(roots.NETWORK),), (signs.HOSTS_EXPIRED_TOGETHER, signs.DEPARTURES_LOGGED)),
    advice=("Look at the network between them and the brokers, or raise ", *roots.SESSION_TIMEOUT, "."),
    settings=roots.SESSION_TIMEOUT,
    told_apart_by="The server log: whether the coordinator was paused or moved then; and other groups' members there.",
    fault=Fault.OPERATOR,
)
POLL_TIMEOUT = Cause(
    name="poll_timeout",
    symptoms=(*_RESTLESS, NO_PROGRESS, BEHIND, READ_TWICE_OR_NEVER),
    happened="{who} did not poll for longer than max.poll.interval.ms, and left the group.",
    needs=(signs.WENT_BY_POLL_TIMEOUT,),
    proved_by=((signs.logged_kind(incidents.POLL_TIMEOUT.name),), (signs.DEPARTURES_LOGGED,)),
    advice="Its processing takes too long between two polls: take fewer records at once, or allow more time.",
    settings=POLL_SETTINGS,
    kind=incidents.POLL_TIMEOUT.name,
    told_apart_by=_IMPORT,
)
FAILED_TO_REJOIN = of_incident(incidents.FAILED_TO_REJOIN, *_RESTLESS, told_apart_by=_IMPORT)
SESSION_TIMEOUT = Cause(
    name="session_timeout",
    symptoms=(*_RESTLESS, NO_PROGRESS, READ_TWICE_OR_NEVER),
    happened="{who} sent no heartbeat for longer than its session timeout, and was removed.",
    needs=(signs.WENT_BY_EXPIRY,),
    against=(signs.HOSTS_EXPIRED_TOGETHER, signs.COORDINATOR_MOVED),
    proved_by=(
        (signs.logged_kind(incidents.SESSION_EXPIRED.name),),
        (signs.of_kind(incidents.SESSION_EXPIRED.name),),
        (signs.DEPARTURES_LOGGED,),
    ),
    advice=(
        "Its process was paused, starved, killed or cut off: look at its CPU limit and garbage collection, or raise ",
        *roots.SESSION_TIMEOUT,
        ".",
    ),
    settings=roots.SESSION_TIMEOUT,
    kind=incidents.SESSION_EXPIRED.name,
    told_apart_by=_IMPORT,
)
HELD_BACK_PARTITIONS = Cause(
    name="held_back_partitions",
    symptoms=(*_RESTLESS, NO_PROGRESS, BEHIND),
    happened="{who} did not give up partitions that others waited for, for longer than max.poll.interval.ms.",
    proved_by=(
        (signs.of_kind(incidents.RECONCILIATION_STUCK.name),),
        (signs.of_kind(incidents.REBALANCE_TIMEOUT_FENCED.name),),
    ),
    advice="It does not poll, or its processing takes that long: look at that process, and stop it if it hangs.",
    settings=POLL_SETTINGS,
    kind=incidents.RECONCILIATION_STUCK.name,
    told_apart_by="Each member's current assignment in the topic (KIP-848), and the server log of that time.",
    severity=Severity.ERROR,
)
WAITS_FOR_MEMBER = Cause(
    name="waits_for_member",
    symptoms=(REBALANCES_GO_ON, NO_PROGRESS, BEHIND, NOBODY_HAS_PARTITIONS),
    happened=(
        "The group hangs in one rebalance, and waits for a member that does not join.",
        _WAITING,
    ),
    against=(signs.of_kind(incidents.ASSIGNMENT_NOT_STORED.name),),
    proved_by=((signs.of_kind(incidents.REBALANCE_STUCK.name),),),
    needs=(signs.IN_REBALANCE,),
    advice="It waits for as long as the longest max.poll.interval.ms of the group allows: stop the process that hangs.",
    settings=("max.poll.interval.ms",),
    kind=incidents.REBALANCE_STUCK.name,
    told_apart_by="Samples of the group's state every few seconds (a monitor), and the server log of that time.",
    severity=Severity.ERROR,
)
REMOVED_BY_ADMINISTRATOR = Cause(
    name="removed_by_administrator",
    symptoms=(*_RESTLESS, *_WITHOUT_MEMBERS),
    happened="An administrator removed {who} from the group.",
    needs=(signs.REMOVED_BY_ADMIN,),
    proved_by=((signs.REMOVED_BY_ADMIN,),),
    advice="Ask who ran removeMembersFromConsumerGroup or kafka-consumer-groups; the process joins again by itself.",
    told_apart_by=_IMPORT,
    fault=Fault.OPERATOR,
)
WENT_ON_AFTER_REMOVAL = Cause(
    name="went_on_after_removal",
    symptoms=(REQUEST_REFUSED, READ_TWICE_OR_NEVER),
    happened="{who} had been removed from the group and went on as if it had not: {times} it was refused.",
    against=(signs.of_kind(incidents.COMMIT_FROM_OUTSIDE.name), signs.MEMBER_ON_TWO_HOSTS, signs.COORDINATOR_MOVED),
    proved_by=(
        (signs.of_kind(incidents.ILLEGAL_GENERATION.name),),
        (signs.of_kind(incidents.FENCED_MEMBER_EPOCH.name),),
        (signs.of_kind(incidents.UNKNOWN_MEMBER.name), signs.WENT_BY_POLL_TIMEOUT),
        (signs.of_kind(incidents.UNKNOWN_MEMBER.name), signs.WENT_BY_EXPIRY),
    ),
    advice="What it had in hand is processed again: find why it was removed, and take fewer records at once.",
    settings=POLL_SETTINGS,
    kind=incidents.ILLEGAL_GENERATION.name,
    told_apart_by="The request log of that time: requests of its member id or generation after its removal.",
)
ZOMBIE = Cause(
    name="zombie",
    symptoms=(READ_TWICE_OR_NEVER, MEMBER_COMES_AND_GOES),
    happened="{who} was silent, removed, and joined again soon: it may have gone on working meanwhile.",
    needs=(signs.of_kind(incidents.ZOMBIE_COMMIT_SUSPECTED.name),),
    advice="What it had in hand may have been processed twice: make processing safe to repeat.",
    kind=incidents.ZOMBIE_COMMIT_SUSPECTED.name,
    told_apart_by="The request log of that time: commits of the removed member that were refused.",
    severity=Severity.WARNING,
)
STATIC_MEMBER_AWAY = Cause(
    name="static_member_away",
    symptoms=(NO_PROGRESS, BEHIND),
    happened="A static member, {who}, may be away: its partitions wait for it until its session ends.",
    needs=(signs.STATIC_MEMBERS, signs.OFFSETS_STAND),
    against=(signs.OFFSETS_GO_ON, signs.NO_MEMBERS, signs.OWNERS_STOP_AT_ONE_OFFSET),
    advice=(
        "Start it again, or remove its instance from the group; a shorter ",
        *roots.SESSION_TIMEOUT,
        " waits less.",
    ),
    settings=roots.SESSION_TIMEOUT,
    told_apart_by="Whether the process of that instance runs; and heartbeats of it in the request log.",
)
DEPLOY = Cause(
    name="deploy",
    symptoms=_RESTLESS,
    happened="Each member was restarted once, and as many are there as before, as a deployment does.",
    needs=(signs.ALL_REPLACED,),
    against=(signs.ONE_CAME_AND_WENT,),
    proved_by=((signs.ALL_REPLACED,),),
    advice=(
        Clause(
            "Cooperative assignment and a group.instance.id for each make the next one cheaper.",
            needs=(Fact.CLASSIC_GROUP,),
        ),
        Clause("A group.instance.id for each makes the next one cheaper.", needs=(Fact.CONSUMER_GROUP,)),
    ),
    settings=(
        STATIC_MEMBERSHIP,
        Clause("partition.assignment.strategy=cooperative-sticky", needs=(Fact.CLASSIC_GROUP,)),
    ),
    told_apart_by="The time of the deployment.",
    fault=Fault.OPERATOR,
    severity=Severity.INFO,
)
SCALING = Cause(
    name="scaling",
    symptoms=_RESTLESS,
    happened="The group has other members than before: {members} now.",
    needs=(signs.MEMBER_COUNT_CHANGED,),
    against=(signs.ONE_CAME_AND_WENT, signs.ALL_REPLACED, signs.WENT_BY_EXPIRY, signs.WENT_BY_POLL_TIMEOUT),
    proved_by=((signs.MEMBER_COUNT_CHANGED,),),
    advice="If an autoscaler goes up and down, let it wait for longer between two steps.",
    told_apart_by="The deployment's or the autoscaler's own events.",
    fault=Fault.OPERATOR,
    severity=Severity.INFO,
)
STATIC_SUBSCRIPTION_IGNORED = of_incident(
    incidents.STATIC_SUBSCRIPTION_IGNORED,
    REBALANCES_GO_ON,
    NOBODY_HAS_PARTITIONS,
    told_apart_by="The members' subscriptions before and after the restart, in the topic.",
)

CAUSES = rows_of(globals(), Cause)
