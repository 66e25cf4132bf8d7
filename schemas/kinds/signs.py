"""The facts by which causes are proved or ruled out: the signs, a row each, with the source that shows them.

Most signs are read from the words of rows: `kinds` and `roots` of incidents (only of those that a broker's log shows,
if `is_logged`), `triggers` of at least half of the rebalances, `events` of committed offsets as (kind, cause), `flags`
and `statuses` of lag in the last round of the episode. For each of the other signs, `transforms.incidents.diagnosis`
has a function under its name. `of_kind`, `of_root` and `of_trigger` make the sign of any kind or root of incidents, or
of any trigger.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from groupledger.schemas.kinds import rows_of
from groupledger.schemas.kinds.incidents import (
    COMMIT_AHEAD_OF_END,
    COMMIT_FROM_OUTSIDE,
    FENCED_INSTANCE,
    INCIDENT_KINDS,
    LOST_TO_RETENTION,
    OPEN_TRANSACTION_IN_TOPIC,
    POLL_TIMEOUT,
    REBALANCE_STUCK,
    RETENTION_OVERTAKES,
    SESSION_EXPIRED,
    STALLED_TRANSACTION,
    UNRELEASED_INSTANCE_ID,
)
from groupledger.schemas.words import LagFlag, LagStatus, OffsetEventCause, OffsetEventKind

if TYPE_CHECKING:
    from groupledger.schemas.kinds.roots import Root
    from groupledger.schemas.kinds.triggers import Trigger


class Source:
    """The source in which a sign is seen."""

    TOPIC = "topic"  # records of __consumer_offsets
    SAMPLES = "samples"  # ends of topics and states of groups
    REQUEST_LOG = "request log"
    SERVER_LOG = "server log"
    SHARE_STATE = "share state"  # records of __share_group_state


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    name: str
    meaning: str
    source: str = Source.TOPIC
    kinds: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    is_logged: bool = False
    triggers: tuple[str, ...] = ()
    events: tuple[tuple[str, str | None], ...] = ()
    flags: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()


_MEANING_OF_KIND = {kind.name: kind.meaning for kind in INCIDENT_KINDS}
_REFUSALS = {COMMIT_FROM_OUTSIDE.name, *(kind.name for kind in INCIDENT_KINDS if kind.error_code is not None)}


# Kinds that only samples show: of the ends and starts of logs, and of the states of groups.
_SAMPLED = {
    kind.name
    for kind in (
        COMMIT_AHEAD_OF_END,
        LOST_TO_RETENTION,
        OPEN_TRANSACTION_IN_TOPIC,
        REBALANCE_STUCK,
        RETENTION_OVERTAKES,
        STALLED_TRANSACTION,
    )
}


@cache
def of_kind(kind: str) -> Sign:
    """Returns the sign that the episode has an incident of this kind."""
    source = Source.REQUEST_LOG if kind in _REFUSALS else Source.SAMPLES if kind in _SAMPLED else Source.TOPIC
    return Sign(name=kind, meaning=_MEANING_OF_KIND.get(kind, kind), source=source, kinds=(kind,))


@cache
def logged_kind(kind: str) -> Sign:
    """Returns the sign that a broker's log shows an incident of a kind."""
    meaning = f"A server log shows it: {_MEANING_OF_KIND.get(kind, kind)}"
    return Sign(name=f"{kind}_logged", meaning=meaning, source=Source.SERVER_LOG, kinds=(kind,), is_logged=True)


@cache
def of_root(root: Root) -> Sign:
    """Returns the sign that `root` is the root cause of the incidents in the episode."""
    return Sign(
        name=f"root_{root.name}", meaning=f"The root of the incidents at that time is {root.name}.", roots=(root.name,)
    )


@cache
def of_trigger(trigger: Trigger) -> Sign:
    """Returns the sign that a trigger began at least half of the rebalances."""
    meaning = f"Most rebalances began for this reason: {trigger.meaning}"
    return Sign(name=f"began_with_{trigger.name}", meaning=meaning, triggers=(trigger.name,))


# Members

HAS_MEMBERS = Sign(name="has_members", meaning="The group has members at the end.")
NO_MEMBERS = Sign(name="no_members", meaning="The group has no members at the end.")
MEMBERS_AWAY = Sign(
    name="members_away", meaning="In a round of that time the group had no members.", source=Source.SAMPLES
)
STATIC_MEMBERS = Sign(
    name="static_members",
    meaning="Members have a group.instance.id.",
    kinds=(FENCED_INSTANCE.name, UNRELEASED_INSTANCE_ID.name),
)
INSTANCES_REPLACED = Sign(
    name="instances_replaced",
    meaning="Static members went away, and as many with other instance ids joined.",
)
NAME_GENERATED = Sign(
    name="name_generated", meaning="The group has a name of the kind that the console consumer generates for one use."
)
LAST_LEFT = Sign(name="last_left", meaning="The last members left by themselves.")
LAST_LEFT_TOGETHER = Sign(name="last_left_together", meaning="The last two or more members left within one minute.")
LAST_EXPIRED = Sign(name="last_expired", meaning="The last members' sessions expired.")
LAST_POLL_TIMEOUT = Sign(
    name="last_poll_timeout",
    meaning="The last members left because they did not poll in time.",
    kinds=(POLL_TIMEOUT.name,),
)
BETWEEN_RUNS = Sign(
    name="between_runs",
    meaning="The group came three times or more, worked and left by itself each time, and has not been away for longer"
    " than before.",
    source=Source.SAMPLES,
)
DEPARTURES_LOGGED = Sign(
    name="departures_logged", meaning="A server log says why members left.", source=Source.SERVER_LOG
)
ONE_CAME_AND_WENT = Sign(
    name="one_came_and_went",
    meaning="One process (same client id and host, or same instance id) joined and left three times.",
)
CAME_AND_WENT_BY_FENCING = Sign(
    name="came_and_went_by_fencing",
    meaning="One instance id joined and left three times, and an incident of that time says that two processes use it.",
)
TENURES_OF_ONE_INTERVAL = Sign(
    name="tenures_of_one_interval",
    meaning="One process left at least three times when it had been a member for just its max.poll.interval.ms.",
)
WENT_BY_LEAVING = Sign(name="went_by_leaving", meaning="The members that went away left by themselves.")
WENT_BY_EXPIRY = Sign(
    name="went_by_expiry",
    meaning="The members that went away stopped sending heartbeats until their sessions expired.",
    kinds=(SESSION_EXPIRED.name,),
)
WENT_BY_POLL_TIMEOUT = Sign(
    name="went_by_poll_timeout",
    meaning="The members that went away had not polled in time.",
    kinds=(POLL_TIMEOUT.name,),
)
BEGAN_WELL = Sign(
    name="began_well",
    meaning="The group started at that time, and its members had partitions soon afterwards.",
)
REMOVED_BY_ADMIN = Sign(name="removed_by_admin", meaning="An administrator removed a member.")
HOSTS_EXPIRED_TOGETHER = Sign(
    name="hosts_expired_together", meaning="Sessions of members on two or more hosts expired within ten seconds."
)
ALL_REPLACED = Sign(
    name="all_replaced",
    meaning="Each member was replaced once by one with the same client id, and the number of members is the same as"
    " before.",
)
MEMBER_COUNT_CHANGED = Sign(name="member_count_changed", meaning="The number of members changed.")
SUBSCRIPTIONS_APART = Sign(
    name="subscriptions_apart",
    meaning="Members with different client ids subscribe to different topics, with none in common.",
)
MEMBERS_WITHOUT_PARTITIONS = Sign(name="members_without_partitions", meaning="Some members own no partition.")
NOTHING_ASSIGNED = Sign(name="nothing_assigned", meaning="The group has members, but none of them owns a partition.")
SUBSCRIBED_TOPIC_UNSEEN = Sign(
    name="subscribed_topic_unseen",
    meaning="The brokers were asked by name for a topic of the subscription in two sampling rounds, and return no such"
    " topic.",
    source=Source.SAMPLES,
)
ONE_TOPIC_UNSEEN = Sign(
    name="one_topic_unseen",
    meaning="Members own partitions of some topics of their subscription, and the brokers, asked by name for another"
    " one in two sampling rounds, return no such topic.",
    source=Source.SAMPLES,
)
REGEX_SUBSCRIPTION = Sign(name="regex_subscription", meaning="Members subscribe by a regular expression (KIP-848).")
TOPOLOGY_NOT_READY = Sign(name="topology_not_ready", meaning="Topics of the streams topology are missing or differ.")
PARTITIONS_ADDED = Sign(
    name="partitions_added", meaning="At least half of the rebalances came with new partitions of subscribed topics."
)
SUBSCRIPTION_CHANGES = Sign(
    name="subscription_changes",
    meaning="One member came with a different subscription in at least three rebalances, and in a third of all.",
)
FOLLOW_UPS = Sign(name="follow_ups", meaning="Most rebalances are the second step of a cooperative rebalance.")

# Offsets

MOVED_AT_REST = Sign(
    name="moved_at_rest",
    meaning="Offsets went back while the group had no members.",
    events=((OffsetEventKind.REWOUND, OffsetEventCause.NO_MEMBER),),
)
SKIPPED_AT_REST = Sign(
    name="skipped_at_rest",
    meaning="Offsets were moved forward while the group had no members.",
    events=((OffsetEventKind.SKIPPED, None),),
)
MOVED_BY_MEMBER = Sign(
    name="moved_by_member",
    meaning="A member committed a lower offset than before.",
    events=((OffsetEventKind.REWOUND, OffsetEventCause.MEMBER),),
)
MOVED_REPEATEDLY = Sign(
    name="moved_repeatedly",
    meaning="Offsets were moved at three or more different times while the group had no members.",
)
OFFSETS_EXPIRED = Sign(
    name="offsets_expired_now", meaning="Kafka expired committed offsets.", events=((OffsetEventKind.EXPIRED, None),)
)
OFFSETS_DELETED = Sign(
    name="offsets_deleted",
    meaning="Somebody deleted committed offsets.",
    events=((OffsetEventKind.DELETED, None),),
)
GROUP_DELETED = Sign(
    name="group_deleted",
    meaning="Somebody deleted the group.",
    events=((OffsetEventKind.GROUP_DELETED, None),),
)
TOPIC_DELETED = Sign(
    name="topic_deleted",
    meaning="A topic of the group was deleted.",
    events=((OffsetEventKind.TOPIC_DELETED, None),),
)
TOPIC_RECREATED = Sign(
    name="topic_recreated",
    meaning="A topic of the group was deleted and created again.",
    events=((OffsetEventKind.TOPIC_RECREATED, None),),
    flags=(LagFlag.TOPIC_RECREATED,),
)
PASSED_BY_RETENTION = Sign(
    name="passed_by_retention",
    meaning="Retention has removed the log up to an offset after the committed one.",
    source=Source.SAMPLES,
    events=((OffsetEventKind.LOST_TO_RETENTION, None),),
    flags=(LagFlag.MESSAGES_LOST,),
)
REMOVED_SOMEHOW = Sign(
    name="removed_somehow",
    meaning="Offsets were removed, and the records do not show why.",
    events=((OffsetEventKind.REMOVED, None),),
)

# Lag, in the rounds of the episode

RECORDS_WAIT = Sign(name="records_wait", meaning="Records wait to be read.", source=Source.SAMPLES)
LAG_GROWS = Sign(name="lag_grows", meaning="The lag grew.", source=Source.SAMPLES)
LAG_SHRINKS = Sign(name="lag_shrinks", meaning="The lag shrank.", source=Source.SAMPLES)
OFFSETS_GO_ON = Sign(
    name="offsets_go_on", meaning="Committed offsets advanced on partitions with lag.", source=Source.SAMPLES
)
OFFSETS_STAND = Sign(
    name="offsets_stand", meaning="No committed offset advanced on partitions with lag.", source=Source.SAMPLES
)
SAME_OFFSET_AGAIN = Sign(
    name="same_offset_again",
    meaning="The same offset is committed repeatedly.",
    source=Source.SAMPLES,
    statuses=(LagStatus.STALLED,),
)
OWNERS_STOP_AT_ONE_OFFSET = Sign(
    name="owners_stop_at_one_offset",
    meaning="Two or more owners of a partition in turn did not get past the same offset for a minute.",
    source=Source.SAMPLES,
)
PRODUCERS_FASTER = Sign(
    name="producers_faster", meaning="Producers wrote more records than the group committed.", source=Source.SAMPLES
)
PRODUCERS_IDLE = Sign(name="producers_idle", meaning="Producers wrote no records in that time.", source=Source.SAMPLES)
ONE_PARTITION_BEHIND = Sign(
    name="one_partition_behind",
    meaning="One partition (of three or more) has most of the lag and received more records than the others.",
    source=Source.SAMPLES,
)
ONE_MEMBER_BEHIND = Sign(
    name="one_member_behind",
    meaning="One member's partitions have most of the lag, although they received no more records than the others.",
    source=Source.SAMPLES,
)
UNEVEN_ASSIGNMENT = Sign(
    name="uneven_assignment",
    meaning="The member with the lag owns at least twice as many partitions as the other members on average.",
    source=Source.SAMPLES,
)
AT_LAST_STABLE_OFFSET = Sign(
    name="at_last_stable_offset",
    meaning="For half a minute every commit with lag equals the last stable offset, where an open transaction begins.",
    source=Source.SAMPLES,
)
MARKERS_AT_END = Sign(
    name="markers_at_end",
    meaning="Only transaction markers, or records of aborted transactions, lie after the committed offset.",
    source=Source.SAMPLES,
    flags=(LagFlag.TRANSACTION_MARKERS_ONLY,),
)
ONE_RECORD_LEFT = Sign(
    name="one_record_left",
    meaning="Every lagging partition has a lag of exactly one, and no new records arrive.",
    source=Source.SAMPLES,
)
HAS_TRANSACTIONS = Sign(
    name="has_transactions",
    meaning="The partitions hold transactional records.",
    source=Source.SAMPLES,
    flags=(LagFlag.TRANSACTION_MARKERS_ONLY, LagFlag.OPEN_TRANSACTION),
)
AHEAD_OF_END = Sign(
    name="ahead_of_end",
    meaning="A committed offset lies beyond the end of the log.",
    source=Source.SAMPLES,
    statuses=(LagStatus.AHEAD_OF_LOG,),
    flags=(LagFlag.AHEAD_OF_LOG, LagFlag.TRUNCATED),
)
ONE_LEFT_EVERYWHERE = Sign(
    name="one_left_everywhere",
    meaning="All partitions of the group, three or more, have a lag of exactly one, and no new records arrive.",
    source=Source.SAMPLES,
)
OWNER_GOES_ON = Sign(
    name="owner_goes_on",
    meaning="The owner of the partitions with lag commits in its other partitions, and has no lag there.",
    source=Source.SAMPLES,
)
INTERVAL_PASSED = Sign(
    name="interval_passed",
    meaning="The owner has been in the group for longer than max.poll.interval.ms without progress, and did not leave:"
    " it polls.",
    source=Source.SAMPLES,
)
WENT_ON = Sign(
    name="went_on",
    meaning="The owner of the partitions with lag advanced in all of them soon afterwards, and was the same.",
    source=Source.SAMPLES,
)
LOG_TRUNCATED = Sign(
    name="log_truncated",
    meaning="The end of a partition's log went back, and a committed offset now lies beyond it.",
    source=Source.SAMPLES,
    flags=(LagFlag.TRUNCATED,),
)
NEVER_COMMITTED = Sign(
    name="never_committed",
    meaning="Members own partitions that hold records, but nothing is committed for them.",
    source=Source.SAMPLES,
    statuses=(LagStatus.NO_COMMIT,),
)
COMMITS_RARELY = Sign(
    name="commits_rarely",
    meaning="The owner of the partitions with lag went on to commit them at intervals about as long as they stood.",
    source=Source.SAMPLES,
)
OUTSIDER_STOPPED = Sign(
    name="outsider_stopped",
    meaning="The group never had members, and what was committed for it has stood for a minute while records wait.",
    source=Source.SAMPLES,
)
OWNER_COMMITS_ELSEWHERE = Sign(
    name="owner_commits_elsewhere",
    meaning="The owner of the partitions without a commit advanced in its other partitions.",
    source=Source.SAMPLES,
)
PASSED_OVER = Sign(
    name="passed_over",
    meaning="The owner of a new partition with records committed for a minute in its others and not in this one, and"
    " its first commit here lies after these records.",
    source=Source.SAMPLES,
)
UNSUBSCRIBED = Sign(
    name="unsubscribed",
    meaning="No member subscribes to the topic any more.",
    source=Source.SAMPLES,
    statuses=(LagStatus.UNSUBSCRIBED,),
)
NOBODY_OWNS = Sign(name="nobody_owns", meaning="Nobody owns the partitions with lag.", source=Source.SAMPLES)
IN_REBALANCE = Sign(
    name="in_rebalance", meaning="The broker reported that the group was rebalancing.", source=Source.SAMPLES
)
REBALANCE_LASTS = Sign(
    name="rebalance_lasts",
    meaning="The broker reported for two minutes or longer that the group was rebalancing, no generation began in that"
    " time, and records wait.",
    source=Source.SAMPLES,
)
AWAITS_ASSIGNMENT = Sign(
    name="awaits_assignment",
    meaning="The broker reported in most rounds of a rebalance that all members had joined, and the leader's assignment"
    " was missing.",
    source=Source.SAMPLES,
)
COMMIT_TIME_ABSURD = Sign(
    name="commit_time_absurd",
    meaning="Commit timestamps differ by days from the time of the sample.",
    source=Source.SAMPLES,
)

# Share groups

OF_SHARE_GROUP = Sign(name="of_share_group", meaning="The group is a share group, which commits no offsets.")
RECORDS_ARCHIVED = Sign(
    name="records_archived",
    meaning="Delivered records were archived: rejected, or given up after too many deliveries.",
    source=Source.SHARE_STATE,
)
REJECTED_AT_ONCE = Sign(
    name="rejected_at_once",
    meaning="All archived records had been delivered once.",
    source=Source.SHARE_STATE,
)
DELIVERED_AGAIN = Sign(
    name="delivered_again",
    meaning="Records were delivered at least twice, and wait for another delivery.",
    source=Source.SHARE_STATE,
)

# Logs

COORDINATOR_MOVED = Sign(
    name="coordinator_moved",
    meaning="A broker loaded or unloaded the group.",
    source=Source.SERVER_LOG,
)
MEMBER_ON_TWO_HOSTS = Sign(
    name="member_on_two_hosts",
    meaning="Requests with one member id came from two hosts.",
    source=Source.REQUEST_LOG,
)
GENERATIONS_FORM = Sign(
    name="generations_form",
    meaning="The server log shows two or more rebalances that ended in a new generation at that time.",
    source=Source.SERVER_LOG,
)
OWNER_SILENT = Sign(
    name="owner_silent",
    meaning="In the last half minute other members of the group sent requests, and the owner of the lagging partitions"
    " sent none.",
    source=Source.REQUEST_LOG,
)
OWNER_HEARD = Sign(
    name="owner_heard",
    meaning="The owner of the lagging partitions sent requests in the last half minute.",
    source=Source.REQUEST_LOG,
)
OWNER_COMMITS = Sign(
    name="owner_commits",
    meaning="The owner of the lagging partitions sent commits in the last half minute.",
    source=Source.REQUEST_LOG,
)
OWNER_CEASED = Sign(
    name="owner_ceased",
    meaning="The owner of the lagging partitions committed at regular intervals, as auto-commit does while a client"
    " polls, and then stopped.",
    source=Source.REQUEST_LOG,
)
FETCHES_THROTTLED = Sign(
    name="fetches_throttled",
    meaning="In the last minute a quota of the brokers held up the fetches of the owner with the most lag for at least"
    " half of the time.",
    source=Source.REQUEST_LOG,
)
OFFSETS_ROLLED_BACK = Sign(
    name="offsets_rolled_back",
    meaning="For half a minute or longer, offsets of the partition with the most lag were sent in transactions, the"
    " same or lower ones again, and none of them is committed.",
    source=Source.REQUEST_LOG,
)
NO_TRANSACTIONS = Sign(
    name="no_transactions",
    meaning="The request log has requests of the owner of the lagging partitions, and no offsets of the group in a"
    " transaction.",
    source=Source.REQUEST_LOG,
)
NO_DELETE_REQUEST = Sign(
    name="no_delete_request",
    meaning="The request log of that time has requests of the group, and none that deletes offsets or groups.",
    source=Source.REQUEST_LOG,
)
ONE_REQUEST_DID_IT = Sign(
    name="one_request_did_it",
    meaning="The request log has one request for each of these operations, which was under way then: its principal,"
    " client and host are named.",
    source=Source.REQUEST_LOG,
)
A_REQUEST_DID_IT = Sign(
    name="a_request_did_it", meaning="Several requests may have done it at that time.", source=Source.REQUEST_LOG
)
REQUESTS_IMPORTED = Sign(
    name="requests_imported", meaning="A request log of that time was imported.", source=Source.REQUEST_LOG
)
SERVER_LOG_IMPORTED = Sign(
    name="server_log_imported", meaning="A server log of that time was imported.", source=Source.SERVER_LOG
)

COMPUTED_SIGNS = rows_of(globals(), Sign)
