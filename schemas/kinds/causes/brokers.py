"""Causes that lie with the brokers: none of them has advice for a client, whose settings are not to blame.

A coordinator that dies, freezes or moves touches all groups of its partitions at once. If its log shows that, the
members' behaviour in that minute is no evidence against them.
"""

from __future__ import annotations

from groupledger.schemas.kinds import incidents, roots, rows_of, signs
from groupledger.schemas.kinds.causes.cause import Cause, Fault, of_incident
from groupledger.schemas.kinds.symptoms import (
    BEHIND,
    MEMBER_COMES_AND_GOES,
    NO_PROGRESS,
    NOBODY_HAS_PARTITIONS,
    OFFSET_MOVED,
    READ_TWICE_OR_NEVER,
    REBALANCES_GO_ON,
    REQUEST_REFUSED,
)
from groupledger.schemas.words import Severity

_FAILED = signs.of_kind(incidents.COORDINATOR_FAILED.name)

COORDINATOR_MOVED = Cause(
    name="coordinator_moved",
    symptoms=(REBALANCES_GO_ON, MEMBER_COMES_AND_GOES, REQUEST_REFUSED, NO_PROGRESS),
    happened="The group's coordinator moved to another broker or was restarted, and lost the state that no record"
    " holds.",
    suspected_by=(signs.COORDINATOR_MOVED, signs.HOSTS_EXPIRED_TOGETHER),
    proved_by=(
        (_FAILED,),
        (signs.of_root(roots.COORDINATOR_FAILOVER),),
        (signs.COORDINATOR_MOVED, signs.WENT_BY_EXPIRY),
    ),
    advice="Nothing has to change in the clients: look at that broker.",
    decided_by="The server logs of both brokers at that time, and other groups of the same partition of"
    " __consumer_offsets.",
    kind=incidents.COORDINATOR_FAILED.name,
    fault=Fault.BROKERS,
)
ZOMBIE_COORDINATOR = of_incident(
    incidents.ZOMBIE_COORDINATOR,
    MEMBER_COMES_AND_GOES,
    decided_by="The server logs of all brokers at that time: which of them had loaded the group's partition last.",
    fault=Fault.BROKERS,
)
OFFSETS_TOPIC_UNAVAILABLE = Cause(
    name="offsets_topic_unavailable",
    symptoms=(NOBODY_HAS_PARTITIONS, REBALANCES_GO_ON, NO_PROGRESS, REQUEST_REFUSED),
    happened="The brokers could not write to __consumer_offsets.",
    suspected_by=(
        signs.of_kind(incidents.ASSIGNMENT_NOT_STORED.name),
        signs.of_kind(incidents.LEADER_NEVER_SYNCED.name),
    ),
    against=(signs.of_root(roots.ASSIGNMENT_TOO_LARGE), signs.BEGAN_WELL),
    proved_by=((signs.of_root(roots.OFFSETS_TOPIC_UNAVAILABLE),),),
    advice="Look at its replicas and at the brokers' disks. Nothing has to change in the clients.",
    decided_by="The server log of that time, and the metric UnderMinIsrPartitionCount.",
    fault=Fault.BROKERS,
    severity=Severity.ERROR,
    harmless=Severity.ERROR,
)
DATA_LOST = Cause(
    name="data_lost",
    symptoms=(READ_TWICE_OR_NEVER, OFFSET_MOVED, NO_PROGRESS),
    happened="The end of the log of {place} went back: records that the group had read are lost, as after an unclean"
    " leader election or the loss of a broker's disk.",
    needs=(signs.LOG_TRUNCATED,),
    against=(signs.TOPIC_RECREATED,),
    proved_by=((signs.LOG_TRUNCATED,),),
    advice="Check unclean.leader.election.enable, min.insync.replicas and the producers' acks. Then let the"
    " group start at the new end, or where its producers wrote the records again.",
    settings=("unclean.leader.election.enable", "min.insync.replicas"),
    decided_by="The controller's log: the election of a replica that was not in sync.",
    fault=Fault.BROKERS,
    severity=Severity.ERROR,
)
FETCHES_FAIL = Cause(
    name="fetches_fail",
    symptoms=(NO_PROGRESS, BEHIND),
    happened="The leader of {place} may be down or slow, so that nobody can read it.",
    needs=(signs.RECORDS_WAIT, signs.OFFSETS_STAND, signs.ONE_PARTITION_BEHIND),
    against=(signs.AT_LAST_STABLE_OFFSET, signs.ONE_RECORD_LEFT),
    advice="Look at that partition's leader.",
    decided_by="Whether a console consumer can read that partition.",
    fault=Fault.BROKERS,
)
CLOCK_WRONG = Cause(
    name="clock_wrong",
    symptoms=(OFFSET_MOVED, BEHIND, NO_PROGRESS),
    happened="Commit timestamps of the group are wrong by days: the clock of a broker or a client is wrong.",
    needs=(signs.COMMIT_TIME_ABSURD,),
    proved_by=((signs.COMMIT_TIME_ABSURD,),),
    advice="Correct the clock. Do not rely on the timestamps of the group's rows from that time.",
    decided_by="The clocks of the brokers.",
    fault=Fault.BROKERS,
    harmless=Severity.WARNING,
)
OFFSETS_REMOVED_UNSEEN = Cause(
    name="offsets_removed_unseen",
    symptoms=(OFFSET_MOVED,),
    happened="Committed offsets of {count} partitions were removed, and neither their age nor a request explains it.",
    needs=(signs.REMOVED_SOMEHOW,),
    advice="Import the brokers' logs of that time, or set the brokers' offsets.retention.minutes in the settings.",
    decided_by="The brokers' offsets.retention.minutes, and the request log: DeleteGroups, OffsetDelete and"
    " DeleteTopics.",
    fault=Fault.OPERATOR,
)

CAUSES = rows_of(globals(), Cause)
