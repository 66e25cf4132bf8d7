"""Causes that lie with a group's members: they left, dropped out, come and go, or were started twice."""

from __future__ import annotations

from groupledger.schemas.kinds import incidents, roots, rows_of, signs
from groupledger.schemas.kinds.causes.cause import Cause, Fault, of_incident
from groupledger.schemas.kinds.clauses import MODERN_GROUP, Clause, Fact
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
_IMPORT = "The server log of that time: it shows for each member whether and why it left or was removed."
_WAITING = Clause(" {records} records wait, and nobody reads them.", needs=(signs.RECORDS_WAIT.name,))
_COORDINATOR_FAILED = signs.of_kind(incidents.COORDINATOR_FAILED.name)
_FENCED_EPOCH = signs.of_kind(incidents.FENCED_MEMBER_EPOCH.name)
_START = "Start its consumers again, or delete the group if it is no longer needed."
STATIC_MEMBERSHIP = Clause("group.instance.id", excludes=(Fact.SHARE_GROUP, Fact.STREAMS_GROUP))
POLL_SETTINGS = (
    Clause("max.poll.interval.ms", excludes=(Fact.SHARE_GROUP,)),
    Clause("max.poll.records"),
)

JOB_BETWEEN_RUNS = Cause(
    name="job_between_runs",
    symptoms=_WITHOUT_MEMBERS,
    happened="The group is a job between two runs: it runs at intervals, and {records} records wait for the next run.",
    needs=(signs.NO_MEMBERS, signs.BETWEEN_RUNS),
    proved_by=((signs.BETWEEN_RUNS,),),
    decided_by="The job's schedule.",
    fault=Fault.NOBODY,
    severity=Severity.INFO,
)
CONSOLE_CONSUMER_ENDED = Cause(
    name="console_consumer_ended",
    symptoms=_WITHOUT_MEMBERS,
    happened="The group's name was generated for one use by a console consumer, which has ended: nobody comes back.",
    needs=(signs.NO_MEMBERS, signs.NAME_GENERATED),
    proved_by=((signs.NAME_GENERATED,),),
    advice="Delete the group, or exclude such names from alerts. Its offsets expire by themselves.",
    decided_by="The group's name.",
    fault=Fault.NOBODY,
    severity=Severity.INFO,
)
SCALED_TO_ZERO = Cause(
    name="scaled_to_zero",
    symptoms=_WITHOUT_MEMBERS,
    happened=(
        "All members of the group left within a minute, as happens when it is scaled to zero or stopped.",
        _WAITING,
    ),
    needs=(signs.NO_MEMBERS, signs.LAST_LEFT),
    against=(signs.LAST_EXPIRED, signs.LAST_POLL_TIMEOUT, signs.ONE_CAME_AND_WENT, signs.BETWEEN_RUNS),
    proved_by=((signs.LAST_LEFT_TOGETHER,),),
    advice=f"{_START} An autoscaler that scales by lag must not treat a missing number as zero.",
    decided_by="The deployment: how many replicas were configured at that time.",
    fault=Fault.OPERATOR,
    severity=Severity.ERROR,
)
MEMBERS_LEFT = Cause(
    name="members_left",
    symptoms=_WITHOUT_MEMBERS,
    happened=("The group's last member{last} left by itself.", _WAITING),
    needs=(signs.NO_MEMBERS, signs.LAST_LEFT),
    against=(signs.LAST_EXPIRED, signs.LAST_POLL_TIMEOUT, signs.LAST_LEFT_TOGETHER, signs.BETWEEN_RUNS),
    proved_by=((signs.LAST_LEFT,),),
    advice=f"It was stopped or ended with an error: look at its own log. {_START}",
    decided_by=_IMPORT,
    severity=Severity.ERROR,
)
MEMBERS_EXPIRED = Cause(
    name="members_expired",
    symptoms=_WITHOUT_MEMBERS,
    happened=(
        "The group's last member{last} stopped sending heartbeats and was removed. It did not leave by itself.",
        _WAITING,
    ),
    needs=(signs.NO_MEMBERS, signs.LAST_EXPIRED),
    proved_by=((signs.LAST_EXPIRED,),),
    advice=f"It was killed, paused or disconnected: find out how its process ended, and check its network. {_START}",
    decided_by=_IMPORT,
    severity=Severity.ERROR,
)
MEMBERS_POLLED_TOO_LATE = Cause(
    name="members_polled_too_late",
    symptoms=_WITHOUT_MEMBERS,
    happened=(
        "The group's last member{last} left because it had not polled within max.poll.interval.ms.",
        _WAITING,
    ),
    needs=(signs.NO_MEMBERS, signs.LAST_POLL_TIMEOUT),
    proved_by=((signs.LAST_POLL_TIMEOUT, signs.DEPARTURES_LOGGED),),
    advice="Its processing hangs, or its polling thread has died: take a thread dump, then restart it.",
    settings=POLL_SETTINGS,
    decided_by=_IMPORT,
    severity=Severity.ERROR,
)
INSTANCES_REPLACED = Cause(
    name="instances_replaced",
    symptoms=(*_RESTLESS, *_WITHOUT_MEMBERS),
    happened=(
        "Static members were replaced by processes with other instance ids (group.instance.id)",
        Clause(": a rebalance waited for the former ones", needs=(signs.IN_REBALANCE.name,)),
        ".",
    ),
    needs=(signs.STATIC_MEMBERS, signs.INSTANCES_REPLACED),
    proved_by=((signs.INSTANCES_REPLACED,),),
    advice="A group keeps the partitions of a static member that was closed until its session ends. Give each process"
    " the same group.instance.id at each start, as the ordinals of a StatefulSet do, or give it none.",
    settings=("group.instance.id",),
    decided_by="The instance ids before and after: `groupledger members NAME`.",
    fault=Fault.OPERATOR,
    severity=Severity.ERROR,
)
INSTANCE_STARTED_TWICE = Cause(
    name="instance_started_twice",
    symptoms=(REQUEST_REFUSED, *_RESTLESS),
    happened="Two processes use the same group.instance.id and fence each other.",
    needs=(signs.STATIC_MEMBERS,),
    proved_by=(
        (signs.of_kind(incidents.FENCED_INSTANCE.name),),
        (signs.of_kind(incidents.UNRELEASED_INSTANCE_ID.name),),
        (signs.of_root(roots.INSTANCE_STARTED_TWICE),),
        (signs.CAME_AND_WENT_BY_FENCING,),
    ),
    advice="Give each process its own group.instance.id.",
    settings=("group.instance.id",),
    kind=incidents.FENCED_INSTANCE.name,
    decided_by="The request log of that time: FENCED_INSTANCE_ID or UNRELEASED_INSTANCE_ID, and from which hosts.",
    severity=Severity.ERROR,
    harmless=Severity.ERROR,
)
NETWORK = Cause(
    name="network",
    symptoms=(*_RESTLESS, NO_PROGRESS),
    happened="Members on two or more hosts stopped sending heartbeats within ten seconds and were removed.",
    needs=(signs.HOSTS_EXPIRED_TOGETHER,),
    against=(signs.COORDINATOR_MOVED, _COORDINATOR_FAILED),
    proved_by=((signs.of_root(roots.NETWORK),), (signs.HOSTS_EXPIRED_TOGETHER, signs.DEPARTURES_LOGGED)),
    advice=("Look at the network between them and the brokers, or raise ", *roots.SESSION_TIMEOUT, "."),
    settings=roots.SESSION_TIMEOUT,
    decided_by="The server log: whether the coordinator was paused or moved at that time. Also other groups'"
    " members on these hosts.",
    fault=Fault.OPERATOR,
)
POLL_TIMEOUT = Cause(
    name="poll_timeout",
    symptoms=(*_RESTLESS, NO_PROGRESS, BEHIND, READ_TWICE_OR_NEVER),
    happened="{who} did not poll for longer than max.poll.interval.ms, and left the group.",
    needs=(signs.WENT_BY_POLL_TIMEOUT,),
    proved_by=(
        (signs.logged_kind(incidents.POLL_TIMEOUT.name),),
        (signs.DEPARTURES_LOGGED,),
        (signs.TENURES_OF_ONE_INTERVAL,),
    ),
    advice="Its processing takes too long between two polls: fetch fewer records per poll, or allow more time.",
    settings=POLL_SETTINGS,
    kind=incidents.POLL_TIMEOUT.name,
    decided_by=_IMPORT,
)
# After what explains each departure: a member that is too slow, or fenced, is not restarted.
# Where a static member would not stop the loop: it is one already, has none, or ends at the same record again.
NO_USE_OF_INSTANCE_IDS = (
    *STATIC_MEMBERSHIP.excludes,
    *(signs.STATIC_MEMBERS.name, signs.OWNERS_STOP_AT_ONE_OFFSET.name),
)


def _if_killed(text: str) -> Clause:
    """Returns a text for a process that ended without leaving: one that is only too slow did not end, and of one that
    leaves in order nobody knows how soon it is back."""
    return Clause(text, needs=(signs.WENT_BY_EXPIRY.name,), excludes=NO_USE_OF_INSTANCE_IDS)


CRASH_LOOP = Cause(
    name="crash_loop",
    symptoms=(*_RESTLESS, NOBODY_HAS_PARTITIONS, NO_PROGRESS, BEHIND),
    happened=(
        "{who} joined and went away {times} within {seconds} s",
        Clause(": each time it left in order, as a consumer that is closed", needs=(signs.WENT_BY_LEAVING.name,)),
        Clause(": it was disconnected or killed each time", needs=(signs.WENT_BY_EXPIRY.name,)),
        Clause(": it had not polled in time", needs=(signs.WENT_BY_POLL_TIMEOUT.name,)),
        ".",
        Clause(" Each time, the whole group stops processing.", needs=(Fact.CLASSIC_GROUP, signs.OFFSETS_STAND.name)),
        Clause(" Members that keep their partitions continue to process.", needs=(Fact.CONSUMER_GROUP,)),
    ),
    needs=(signs.ONE_CAME_AND_WENT,),
    against=(signs.BETWEEN_RUNS, signs.CAME_AND_WENT_BY_FENCING),
    proved_by=((signs.ONE_CAME_AND_WENT,),),
    advice=(
        "It ends and is started again",
        Clause(
            ", or it does not poll in time (max.poll.interval.ms)",
            excludes=(signs.WENT_BY_LEAVING.name, signs.WENT_BY_EXPIRY.name),
        ),
        ": look for the reason in its own log and in that of its supervisor",
        Clause(
            ", and at the records at the committed offsets, which no owner gets past",
            needs=(signs.OWNERS_STOP_AT_ONE_OFFSET.name,),
        ),
        _if_killed(". With a group.instance.id, no rebalance begins if it is back within its session timeout"),
        ".",
    ),
    settings=(_if_killed("group.instance.id"),),
    decided_by="The process's own log, and the number of restarts that its supervisor counted.",
    severity=Severity.ERROR,
    harmless=Severity.WARNING,
)
FAILED_TO_REJOIN = of_incident(incidents.FAILED_TO_REJOIN, *_RESTLESS, decided_by=_IMPORT)
SESSION_TIMEOUT = Cause(
    name="session_timeout",
    symptoms=(*_RESTLESS, NO_PROGRESS, READ_TWICE_OR_NEVER),
    happened="{who} sent no heartbeat for longer than its session timeout, and was removed.",
    needs=(signs.WENT_BY_EXPIRY,),
    against=(signs.HOSTS_EXPIRED_TOGETHER, signs.COORDINATOR_MOVED, _COORDINATOR_FAILED),
    proved_by=(
        (signs.logged_kind(incidents.SESSION_EXPIRED.name),),
        (signs.of_kind(incidents.SESSION_EXPIRED.name),),
        (signs.DEPARTURES_LOGGED,),
    ),
    advice=(
        "Its process was paused, starved of CPU, killed or disconnected: check its CPU limit and GC, or raise ",
        *roots.SESSION_TIMEOUT,
        ".",
    ),
    settings=roots.SESSION_TIMEOUT,
    kind=incidents.SESSION_EXPIRED.name,
    decided_by=_IMPORT,
)
HELD_BACK_PARTITIONS = Cause(
    name="held_back_partitions",
    symptoms=(*_RESTLESS, NO_PROGRESS, BEHIND),
    happened="{who} did not revoke partitions that others waited for within max.poll.interval.ms.",
    proved_by=(
        (signs.of_kind(incidents.RECONCILIATION_STUCK.name),),
        (signs.of_kind(incidents.REBALANCE_TIMEOUT_FENCED.name),),
    ),
    advice="It does not poll, or its processing takes that long: look at that process, and stop it if it hangs.",
    settings=POLL_SETTINGS,
    kind=incidents.RECONCILIATION_STUCK.name,
    decided_by="Each member's current assignment in the topic (KIP-848), and the server log of that time.",
    severity=Severity.ERROR,
)
WAITS_FOR_MEMBER = Cause(
    name="waits_for_member",
    symptoms=(REBALANCES_GO_ON, NO_PROGRESS, BEHIND, NOBODY_HAS_PARTITIONS),
    happened=(
        "A rebalance does not end, because {who} does not rejoin.",
        _WAITING,
    ),
    against=(signs.of_kind(incidents.ASSIGNMENT_NOT_STORED.name), signs.GENERATIONS_FORM, signs.AWAITS_ASSIGNMENT),
    proved_by=((signs.of_kind(incidents.REBALANCE_STUCK.name),), (signs.REBALANCE_LASTS, signs.OFFSETS_STAND)),
    needs=(signs.IN_REBALANCE,),
    advice=(
        "It waits up to the longest max.poll.interval.ms in the group: stop the process that hangs.",
        Clause(
            " A static member that was closed, and not started again with its group.instance.id, keeps it waiting, too,"
            " until its session ends: remove that id (removeMembersFromConsumerGroup).",
            needs=(signs.STATIC_MEMBERS.name,),
        ),
    ),
    settings=(
        "max.poll.interval.ms",
        Clause("session.timeout.ms", needs=(signs.STATIC_MEMBERS.name,), excludes=MODERN_GROUP),
    ),
    kind=incidents.REBALANCE_STUCK.name,
    decided_by="Samples of the group's state every few seconds (a monitor), and the server log of that time.",
    severity=Severity.ERROR,
)
REMOVED_BY_ADMINISTRATOR = Cause(
    name="removed_by_administrator",
    symptoms=(*_RESTLESS, *_WITHOUT_MEMBERS),
    happened="An administrator removed {who} from the group.",
    needs=(signs.REMOVED_BY_ADMIN,),
    proved_by=((signs.REMOVED_BY_ADMIN,),),
    advice="Ask who called removeMembersFromConsumerGroup (kafka-streams-application-reset does it with --force). The"
    " process rejoins by itself.",
    decided_by=_IMPORT,
    fault=Fault.OPERATOR,
)
WENT_ON_AFTER_REMOVAL = Cause(
    name="went_on_after_removal",
    symptoms=(REQUEST_REFUSED, READ_TWICE_OR_NEVER),
    happened=(
        Clause(
            "{who} had been removed from the group and continued as if it had not. It was refused {times}.",
            excludes=(_FENCED_EPOCH.name,),
        ),
        Clause(
            "{who} came with a member epoch that is not the coordinator's, and was refused {times}.",
            needs=(_FENCED_EPOCH.name,),
        ),
    ),
    against=(signs.of_kind(incidents.COMMIT_FROM_OUTSIDE.name), signs.MEMBER_ON_TWO_HOSTS, signs.COORDINATOR_MOVED),
    proved_by=(
        (signs.of_kind(incidents.ILLEGAL_GENERATION.name),),
        (_FENCED_EPOCH,),
        (signs.of_kind(incidents.UNKNOWN_MEMBER.name), signs.WENT_BY_POLL_TIMEOUT),
        (signs.of_kind(incidents.UNKNOWN_MEMBER.name), signs.WENT_BY_EXPIRY),
    ),
    advice=(
        "The records that it had fetched are processed again. ",
        Clause("Find out why it was removed, and fetch fewer records per poll.", excludes=(_FENCED_EPOCH.name,)),
        Clause(
            "The coordinator went on without it, or an answer to it was lost: look in its log of that time. If it does"
            " not come back by itself, restart it, and upgrade client and brokers.",
            needs=(_FENCED_EPOCH.name,),
        ),
    ),
    settings=POLL_SETTINGS,
    kind=incidents.ILLEGAL_GENERATION.name,
    decided_by="The request log of that time: requests of its member id or generation after its removal.",
)
ZOMBIE = Cause(
    name="zombie",
    symptoms=(READ_TWICE_OR_NEVER, MEMBER_COMES_AND_GOES),
    happened="{who} was silent, was removed and rejoined soon. It may have continued to process records in that time.",
    needs=(signs.of_kind(incidents.ZOMBIE_COMMIT_SUSPECTED.name),),
    advice="The records that it had fetched may have been processed twice: make the processing idempotent.",
    kind=incidents.ZOMBIE_COMMIT_SUSPECTED.name,
    decided_by="The request log of that time: commits of the removed member that were refused.",
    severity=Severity.WARNING,
)
STATIC_MEMBER_AWAY = Cause(
    name="static_member_away",
    symptoms=(NO_PROGRESS, BEHIND),
    happened=(
        "{who}, which has a group.instance.id, ",
        Clause("sends no requests", needs=(signs.OWNER_SILENT.name,)),
        Clause("may be down", excludes=(signs.OWNER_SILENT.name, signs.WENT_BY_EXPIRY.name)),
        Clause("was down", needs=(signs.WENT_BY_EXPIRY.name,), excludes=(signs.OWNER_SILENT.name,)),
        ": its partitions wait for it until its session{session} expires{expires}.",
    ),
    needs=(signs.STATIC_MEMBERS, signs.OFFSETS_STAND),
    against=(signs.OFFSETS_GO_ON, signs.NO_MEMBERS, signs.OWNERS_STOP_AT_ONE_OFFSET, signs.OWNER_HEARD),
    proved_by=((signs.OWNER_SILENT,), (signs.WENT_BY_EXPIRY, signs.DEPARTURES_LOGGED)),
    advice=(
        "Restart it, or remove its instance id by Kafka's Admin API (removeMembersFromConsumerGroup);",
        " kafka-consumer-groups.sh has no option for that. A shorter ",
        *roots.SESSION_TIMEOUT,
        " shortens the wait.",
    ),
    settings=roots.SESSION_TIMEOUT,
    decided_by="Whether the process of that instance runs, and its heartbeats in the request log.",
)
DEPLOY = Cause(
    name="deploy",
    symptoms=_RESTLESS,
    happened="Each member was replaced once and their number is the same as before, as in a deployment.",
    needs=(signs.ALL_REPLACED,),
    against=(signs.ONE_CAME_AND_WENT,),
    proved_by=((signs.ALL_REPLACED,),),
    advice=(
        Clause(
            "Cooperative assignment and a group.instance.id for each make the next one cheaper.",
            needs=(Fact.CLASSIC_GROUP,),
            excludes=(Fact.COOPERATIVE,),
        ),
        Clause("With a group.instance.id for each, the next one costs less.", needs=(Fact.COOPERATIVE,)),
        Clause("A group.instance.id for each makes the next one cheaper.", needs=(Fact.CONSUMER_GROUP,)),
    ),
    settings=(
        STATIC_MEMBERSHIP,
        Clause(
            "partition.assignment.strategy=cooperative-sticky",
            needs=(Fact.CLASSIC_GROUP,),
            excludes=(Fact.COOPERATIVE,),
        ),
    ),
    decided_by="The time of the deployment.",
    fault=Fault.OPERATOR,
    severity=Severity.INFO,
)
SCALING = Cause(
    name="scaling",
    symptoms=_RESTLESS,
    happened="The number of members changed: the group has {members} now.",
    needs=(signs.MEMBER_COUNT_CHANGED,),
    against=(signs.ONE_CAME_AND_WENT, signs.ALL_REPLACED, signs.WENT_BY_EXPIRY, signs.WENT_BY_POLL_TIMEOUT),
    proved_by=((signs.MEMBER_COUNT_CHANGED,),),
    advice="If an autoscaler scales up and down repeatedly, give it a longer stabilization window.",
    decided_by="The deployment's or the autoscaler's own events.",
    fault=Fault.OPERATOR,
    severity=Severity.INFO,
)
STATIC_SUBSCRIPTION_IGNORED = of_incident(
    incidents.STATIC_SUBSCRIPTION_IGNORED,
    REBALANCES_GO_ON,
    NOBODY_HAS_PARTITIONS,
    decided_by="The members' subscriptions before and after the restart, in the topic.",
)

CAUSES = rows_of(globals(), Cause)
