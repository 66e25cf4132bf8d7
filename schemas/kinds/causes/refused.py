"""Causes of refusals: rights, limits, ids that two clients share, and requests that come from outside or too late.

Refused requests are not in `__consumer_offsets`. If no request log was imported, none of these causes can be seen, and
a diagnosis does not mention them.
"""

from __future__ import annotations

from groupledger.schemas.kinds import incidents, rows_of, signs
from groupledger.schemas.kinds.causes.cause import Cause, Fault, of_incident
from groupledger.schemas.kinds.symptoms import NO_PROGRESS, READ_TWICE_OR_NEVER, REBALANCES_GO_ON, REQUEST_REFUSED
from groupledger.schemas.words import Severity

COMMITS_FROM_OUTSIDE = of_incident(
    incidents.COMMIT_FROM_OUTSIDE,
    REQUEST_REFUSED,
    decided_by="The request log of that time: commits without a member id and with generation -1.",
)
SPEAKS_IN_ANOTHERS_NAME = Cause(
    name="speaks_in_anothers_name",
    symptoms=(REQUEST_REFUSED, READ_TWICE_OR_NEVER),
    happened="Requests with the member id of {who} came from {hosts}: another process uses its member id.",
    needs=(signs.MEMBER_ON_TWO_HOSTS,),
    proved_by=((signs.MEMBER_ON_TWO_HOSTS,),),
    advice="A proxy or network address translation can look the same. Otherwise find the process that copied the"
    " member id and give it its own group.id: `groupledger audit NAME` has the host from which each change of offsets"
    " came.",
    settings=("group.id",),
    decided_by="The request log of that time: the connections and principals of both hosts.",
    explains=(incidents.TWO_COMMITTERS.name,),
    severity=Severity.ERROR,
    harmless=Severity.WARNING,
)
TWO_APPLICATIONS = Cause(
    name="two_applications",
    symptoms=(REBALANCES_GO_ON,),
    happened="Members with different client ids subscribe to different topics, with none in common: two applications"
    " seem to share one group.id.",
    needs=(signs.SUBSCRIPTIONS_APART,),
    against=(signs.ONE_CAME_AND_WENT,),
    proved_by=((signs.SUBSCRIPTIONS_APART,),),
    advice="Give each application its own group.id. Now each one makes the other rebalance.",
    settings=("group.id",),
    decided_by="The owner of the group: members may subscribe to different topics on purpose.",
    harmless=Severity.INFO,
)
TOPIC_RIGHT_LOST = of_incident(incidents.TOPIC_NOT_AUTHORIZED, REQUEST_REFUSED, NO_PROGRESS, fault=Fault.OPERATOR)
GROUP_RIGHT_LOST = of_incident(incidents.GROUP_NOT_AUTHORIZED, REQUEST_REFUSED, NO_PROGRESS, fault=Fault.OPERATOR)
GROUP_FULL = of_incident(incidents.GROUP_FULL, REQUEST_REFUSED)
INVALID_SESSION_TIMEOUT = of_incident(incidents.INVALID_SESSION_TIMEOUT, REQUEST_REFUSED)
METADATA_TOO_LARGE = of_incident(incidents.OFFSET_METADATA_TOO_LARGE, REQUEST_REFUSED, NO_PROGRESS)
COMMITS_FOR_MISSING_TOPIC = of_incident(incidents.UNKNOWN_TOPIC_COMMIT, REQUEST_REFUSED)
PRODUCER_FENCED = of_incident(incidents.PRODUCER_FENCED, REQUEST_REFUSED, NO_PROGRESS)
STALE_EPOCH_KEPT = of_incident(incidents.STALE_MEMBER_EPOCH, REQUEST_REFUSED, READ_TWICE_OR_NEVER)
LOCK_EXPIRED = of_incident(incidents.LATE_ACKNOWLEDGEMENT, REQUEST_REFUSED, READ_TWICE_OR_NEVER)
COMMIT_DURING_REBALANCE = of_incident(incidents.REBALANCE_IN_PROGRESS_COMMIT, REQUEST_REFUSED, fault=Fault.NOBODY)
MEMBER_UNKNOWN = Cause(
    name="member_unknown",
    symptoms=(REQUEST_REFUSED,),
    happened="{who} was refused {times} with UNKNOWN_MEMBER_ID, and no source shows when it was removed.",
    needs=(signs.of_kind(incidents.UNKNOWN_MEMBER.name),),
    against=(
        signs.WENT_BY_POLL_TIMEOUT,
        signs.WENT_BY_EXPIRY,
        signs.COORDINATOR_MOVED,
        signs.of_kind(incidents.COMMIT_FROM_OUTSIDE.name),
    ),
    advice="The client rejoins by itself. Find out why it had been removed.",
    kind=incidents.UNKNOWN_MEMBER.name,
    decided_by="The server log of that time: when and why the group removed it.",
)

CAUSES = rows_of(globals(), Cause)
