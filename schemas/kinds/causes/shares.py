"""Causes of trouble in share groups (KIP-932), which commit no offsets: members acknowledge, release or reject records.

The brokers' state of a share partition shows what became of deliveries, once a record was acknowledged, given back or
given up. It never shows which member had it.
"""

from __future__ import annotations

from groupledger.schemas.kinds import rows_of, signs
from groupledger.schemas.kinds.causes.cause import Cause, Fault
from groupledger.schemas.kinds.clauses import Clause
from groupledger.schemas.kinds.symptoms import BEHIND, NO_PROGRESS, READ_TWICE_OR_NEVER
from groupledger.schemas.words import Severity

_LAGGING = (BEHIND, NO_PROGRESS)
_LOCK = "group.share.record.lock.duration.ms"

RECORDS_GIVEN_UP = Cause(
    name="records_given_up",
    symptoms=(READ_TWICE_OR_NEVER,),
    happened=(
        "{records} records, most of them of {place}, were given up",
        Clause(
            " after they had been delivered up to {times}: members rejected them, or did not acknowledge them as often"
            " as group.share.delivery.count.limit allows",
            excludes=(signs.REJECTED_AT_ONCE.name,),
        ),
        Clause(" at their first delivery: members rejected them", needs=(signs.REJECTED_AT_ONCE.name,)),
        ". The group never processes them.",
    ),
    needs=(signs.OF_SHARE_GROUP, signs.RECORDS_ARCHIVED),
    proved_by=((signs.RECORDS_ARCHIVED,),),
    advice="Look at these records with a console consumer, and at the application's log: why it rejects them, or does"
    " not get through them. To deliver them again, reset the group's offsets (kafka-share-groups --reset-offsets).",
    settings=("group.share.delivery.count.limit", _LOCK),
    decided_by="The records of `__share_group_state`, and the application's log.",
    severity=Severity.ERROR,
)
DELIVERIES_FAIL = Cause(
    name="deliveries_fail",
    symptoms=(*_LAGGING, READ_TWICE_OR_NEVER),
    happened="Records of {place} were delivered up to {times}, and wait again: members release them, or do not"
    " acknowledge them before their lock is over.",
    needs=(signs.OF_SHARE_GROUP, signs.DELIVERED_AGAIN),
    against=(signs.NO_MEMBERS,),
    proved_by=((signs.DELIVERED_AGAIN,),),
    advice="`groupledger share NAME` lists these records. If the application releases them, its log says why. Else it"
    " takes longer than the lock lasts: fetch fewer records per poll, or let the lock last longer.",
    settings=(_LOCK, "max.poll.records"),
    decided_by="ShareAcknowledge requests in the broker's request log: whether they release (2) these records.",
)
ACKNOWLEDGES_NOTHING = Cause(
    name="acknowledges_nothing",
    symptoms=_LAGGING,
    happened="Members are there and may not poll, or may not acknowledge what they have got: {records} records wait.",
    needs=(signs.OF_SHARE_GROUP, signs.HAS_MEMBERS, signs.RECORDS_WAIT, signs.OFFSETS_STAND),
    against=(signs.DELIVERED_AGAIN,),
    advice="Take a thread dump of a member: its polling thread hangs, waits or has died.",
    settings=(_LOCK,),
    decided_by="The client's metric last-poll-seconds-ago, and ShareFetch and ShareAcknowledge requests in the broker's"
    " request log.",
    severity=Severity.ERROR,
)
WAITS_FOR_SHARED_TRANSACTION = Cause(
    name="waits_for_shared_transaction",
    symptoms=_LAGGING,
    happened="A transaction may be open in {place}: with share.isolation.level=read_committed the group waits for its"
    " end.",
    needs=(signs.OF_SHARE_GROUP, signs.HAS_MEMBERS, signs.RECORDS_WAIT, signs.OFFSETS_STAND),
    against=(signs.DELIVERED_AGAIN,),
    advice="Find the producer by `kafka-transactions.sh find-hanging`.",
    settings=("share.isolation.level", "transaction.timeout.ms"),
    decided_by="`kafka-transactions.sh describe-producers` on that partition.",
    fault=Fault.PRODUCER,
)
SHARES_TOO_SLOWLY = Cause(
    name="shares_too_slowly",
    symptoms=(BEHIND,),
    happened="Producers write faster than the members acknowledge: {records} records wait.",
    needs=(signs.OF_SHARE_GROUP, signs.HAS_MEMBERS, signs.OFFSETS_GO_ON, signs.LAG_GROWS, signs.PRODUCERS_FASTER),
    against=(signs.DELIVERED_AGAIN,),
    proved_by=((signs.PRODUCERS_FASTER,),),
    advice="Make the processing faster, or add members: members of a share group read the same partitions, so that more"
    " of them than partitions help, too.",
    settings=("max.poll.records", "group.share.partition.max.record.locks"),
    decided_by="The time that processing takes, beside the number of members.",
)

CAUSES = rows_of(globals(), Cause)
