"""The ledger's own words, each declared once: what a column may say that Kafka has no name for.

A class has the words of one column, in the order in which docs list them. If they are graded, the class says whether
the mildest or the gravest is the first. They are plain strings, since rows, SQL and JSON have them as strings. Kafka's
own names (errors, APIs, topics, the texts of its logs) are in `schemas.kafka`. The kinds of incidents, changes and
triggers, which have sentences and settings, are the rows of `schemas.kinds`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@cache
def words_of(column: type) -> tuple[str, ...]:
    """Returns all words of one of the classes below, in the order of their declaration."""
    return tuple(word for name, word in vars(column).items() if name.isupper())


def one_of(words: Sequence[str]) -> str:
    """Returns the words as a comment lists them: `eager, cooperative or unknown`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


# The log, and what is known of it


class Completeness:
    """Says how much of a stretch of a `__consumer_offsets` partition the ledger has read (`coverage.completeness`)."""

    COMPLETE = "complete"  # nothing was removed before it was read
    COMPACTED = "compacted"  # Kafka's log cleaner may have removed records of it before it was read
    UNKNOWN = "unknown"  # a hole: nobody read it

    @staticmethod
    def today(word: str) -> str:
        """Returns this release's word for a word of an older warehouse or capture."""
        return Completeness.COMPLETE if word == "tailed" else word


class Proof:
    """Says what proves that a stretch of a `__consumer_offsets` partition is complete (`coverage.proof`)."""

    NO_GAP = "no_gap"  # every offset has a row
    BATCH_HEADERS = "batch_headers"  # control batches and aborted transactions account for the offsets without a row
    REPEATED_KEY = "repeated_key"  # the cleaner leaves at most one record of a key; of a single replica


class Source:
    """Names the sources of answers, each of which is known until an instant of its own (`known_until`)."""

    TOPIC = "topic"  # `__consumer_offsets`
    HISTORY = "history"  # the tables that its records are folded into
    SAMPLES = "samples"  # the sampling rounds that lag is made of
    REQUEST_LOG = "request_log"
    SERVER_LOG = "server_log"
    INCIDENTS = "incidents"  # the search for incidents


class OffsetStatus:
    """Says whether a committed offset of a past instant is known (the answer of `groupledger offsets`)."""

    COMMITTED = "committed"
    UNKNOWN = "unknown"


class OffsetEventKind:
    """Says what happened to a committed offset, other than a commit of a member that moves it on
    (`offset_events.kind`)."""

    REWOUND = "rewound"  # a commit below the one before
    SKIPPED = "skipped"  # a commit above the one before, by no member of the group
    EXPIRED = "expired"
    DELETED = "deleted"  # the offset was deleted, but not its group
    GROUP_DELETED = "group_deleted"
    TOPIC_DELETED = "topic_deleted"
    REMOVED = "removed"  # one of the four before, and nobody can know which
    TOPIC_RECREATED = "topic_recreated"  # a commit for a new topic of that name, or its log has reached an old commit
    LOST_TO_RETENTION = "lost_to_retention"  # the start of the topic's log has passed it


class OffsetEventCause:
    """Says who or what caused the event of a committed offset (`offset_events.cause`)."""

    MEMBER = "member"  # a member of the group, or a transactional producer without a member id
    NO_MEMBER = "no_member"  # a reset, or a consumer that assigns itself its partitions
    AFTER_REMOVAL = "after_removal"  # the group had lost its offset, and began elsewhere
    RETENTION = "retention"  # the broker's offsets.retention.minutes
    LOG_START = "log_start"  # the retention of the topic, or DeleteRecords
    OWN_EXPIRY = "own_expiry"  # the commit named the time itself, as old clients can
    DELETE_REQUEST = "delete_request"  # DeleteGroups
    TOPIC_DELETION = "topic_deletion"
    DELETE_REQUEST_OR_TOPIC = "delete_request_or_topic"  # OffsetDelete, or the deletion of its topic


class OffsetEventEvidence:
    """Says what shows an event of a committed offset (`offset_events.evidence`)."""

    RECORDS = "records"  # the log alone
    SAMPLES = "samples"  # the ends of the topic's log
    AGE = "age"  # how old the offset was, beside the retention in the settings


class Authorship:
    """Says how it is known who reset or removed committed offsets (`groupledger audit`)."""

    OBSERVED = "observed"  # one request of a request log did it
    CANDIDATES = "candidates"  # each of several requests can have done it
    INFERRED = "inferred"  # a member committed it, and this one owned the partition
    UNKNOWN = "unknown"


class Attribution:
    """Says how the owner of a committed partition was found (`offset_commits.owner_attribution`)."""

    ASSIGNED = "assigned"  # the member owned the partition then
    PREVIOUS_OWNER = "previous_owner"  # nobody owned the partition then, and this member, which was still there, before
    NONE = "none"


# Groups and their history


class GroupType:
    """Names the protocol that a group follows (`groups.group_type`, `group_states.group_type`): Kafka's own types."""

    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    SHARE = "share"
    STREAMS = "streams"


class Ownership:
    """Answers the question who owned a partition at an instant (`groupledger owner`, the report)."""

    OWNED = "owned"
    RESERVED = "reserved"  # for a static member of a KIP-848 group that is away: nobody processes the partition
    UNOWNED = "unowned"  # nobody's, though the group was there
    NOT_BORN = "not_born"  # the group had no record yet; one of its name may have been gone before the log was followed
    ENDED = "ended"  # the group was gone
    UNKNOWN = "unknown"

    @staticmethod
    def is_nobodys(word: str) -> bool:
        return word in {Ownership.UNOWNED, Ownership.NOT_BORN, Ownership.ENDED}


class NeverSeen:
    """Says which name in a question about an owner the ledger has never seen (`groupledger owner`)."""

    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"


class ExpiryCause:
    """Says why Kafka will expire committed offsets (`groupledger idle`)."""

    NO_MEMBERS = "no_members"
    NOT_SUBSCRIBED = "not_subscribed"  # the group has members, but none of them subscribes to the topic
    EXPLICIT = "explicit"  # the commit names its own expiry
    KEPT_BY_MEMBERS = "kept_by_members"  # of a modern group: it goes when no member subscribes to the topic any more


class EndedBy:
    """Says what ended a row of `generations` (`ended_by`)."""

    GENERATION = "generation"
    REVISION = "revision"
    TOMBSTONE = "tombstone"
    UPGRADE = "upgrade"  # to a group of KIP-848
    DOWNGRADE = "downgrade"  # of a group of KIP-848 to a classic one
    HOLE = "hole"
    GENERATION_DECREASE = "generation_decrease"


class MemberState:
    """Says how far a member of a KIP-848 group has come towards its target (`member_epochs.state`)."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"  # it still holds what it has to give up
    UNRELEASED = "unreleased"  # it waits for what others still hold
    AWAY = "away"  # a static member that left for a while: its partitions are reserved, and nobody processes them
    UNKNOWN = "unknown"  # a state that this version does not know


class TaskRole:
    """Says what a member of a streams group does with a task (`stream_tasks.role`)."""

    ACTIVE = "active"  # it processes the task
    STANDBY = "standby"  # it keeps a copy of the task's state
    WARMUP = "warmup"  # it builds up a copy, to take the task over


class HoleCause:
    """Says why nothing is known of a change from one generation to another (`rebalances.hole_cause`)."""

    NOT_SYNCED = "not_synced"  # increments whose leader never synced
    CONVERTED = "converted"  # a rebalance that was under way as the group became one of KIP-848
    NOT_COVERED = "not_covered"  # records in between may be missing


class ProtocolKind:
    """Says whether members gave up all partitions before they rejoined, or kept them (`rebalances.protocol_kind`)."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"
    UNKNOWN = "unknown"


class PauseScope:
    """Says what was not processed during a rebalance: anything of the group, or only the partitions that moved
    (`rebalances.pause_scope`)."""

    GROUP = "group"
    PARTITIONS = "partitions"


class LeaveCause:
    """Says why a member's tenure ended (`members.leave_cause`), in addition to the triggers that are departures
    (`schemas.kinds.triggers`)."""

    REPLACED = "replaced"
    UPGRADED = "upgraded"


class TurnoverKind:
    """Says what happened in a time in which members came and went (`groupledger deploys`)."""

    DEPLOY = "deploy"  # each member was replaced, in good order
    UNDER_WAY = "under_way"  # some were replaced, and the log ends soon after
    SILENT = "silent"  # each was replaced, and most had fallen silent: a crash, or clients that don't leave
    HIDDEN = "hidden"  # each was replaced, but the log in between is not all known
    SCALED = "scaled"  # some only came, or only went
    PARTLY = "partly"  # some were replaced, and others stayed
    RESTLESS = "restless"  # some came and went again, as in a crash loop
    TOO_SLOW = "too_slow"  # most were removed because they were too slow
    BEGAN = "began"  # nobody was there before
    ENDED = "ended"  # nobody is there afterwards


class TimelineEvent:
    """Names the entries of a group's timeline (`groupledger group`)."""

    GROUP_STARTED = "group_started"
    FIRST_SEEN = "first_seen"
    REBALANCE = "rebalance"
    REVISION = "revision"
    GROUP_DELETED = "group_deleted"
    UPGRADED = "upgraded"
    DOWNGRADED = "downgraded"
    NOT_COVERED = "not_covered"
    GENERATION_DECREASED = "generation_decreased"


class TroubledStep:
    """Names the step that failed on a group (`troubles.step`), by its command or the table that it fills."""

    HISTORY = "history"
    REBALANCE_STATS = "rebalance_stats"
    LAG = "lag"
    OFFSET_EVENTS = "offset_events"
    INCIDENTS = "incidents"
    SHARE_PARTITIONS = "share_partitions"
    VALIDATE = "validate"


class FindingKind:
    """Says in what way a record's content is one that no broker or assignor can have written
    (`replay_findings.finding`, `generations.finding`)."""

    GENERATION_DECREASED = "generation_decreased"
    ILLEGAL_RECORD = "illegal_record"
    LEADER_IS_NO_MEMBER = "leader_is_no_member"
    PARTITION_WITH_TWO_OWNERS = "partition_with_two_owners"
    ASSIGNMENT_OUTSIDE_SUBSCRIPTION = "assignment_outside_subscription"
    ASSIGNMENT_DIFFERS = "assignment_differs"
    PARTITION_NOT_REVOKED_FIRST = "partition_not_revoked_first"
    STATIC_REPLACEMENT_WITHOUT_INSTANCE = "static_replacement_without_instance"
    ILLEGAL_TRANSITION = "illegal_transition"


class StatsWindow:
    """Names the lengths of the windows of `rebalance_stats` (`window`)."""

    HOUR = "hour"
    DAY = "day"


class FailoverOutcome:
    """Says what a group would do in a partition if it moved to a mirrored cluster."""

    EXACT = "exact"
    REPEATS = "repeats"
    SKIPS = "skips"
    MAY_REPEAT = "may_repeat"
    NEAR = "near"
    NO_COMMIT = "no_commit"
    UNKNOWN = "unknown"


# Lag


class LagStatus:
    """Says whether the lag of a partition is a problem (`lag.status`); `transforms.lag.rules.status` has the rules."""

    OK = "ok"
    WAITING_FOR_TRANSACTION = "waiting_for_transaction"
    UNSUBSCRIBED = "unsubscribed"
    NO_COMMIT = "no_commit"
    UNKNOWN = "unknown"
    REBALANCING = "rebalancing"
    GROWING = "growing"
    REWOUND = "rewound"
    AHEAD_OF_LOG = "ahead_of_log"
    STALLED = "stalled"
    STOPPED = "stopped"


class BurrowStatus:
    """Says whether the lag of a partition is a problem, by Burrow's rules and in Burrow's words (`lag.burrow_status`).
    Only a group as a whole can have ERR."""

    OK = "OK"
    WARN = "WARN"
    ERR = "ERR"
    STOP = "STOP"
    STALL = "STALL"
    REWIND = "REWIND"


class LagFlag:
    """Says why a number of `lag` is odd or absent (`lag.flags`)."""

    NO_COMMIT = "no_commit"  # owned, but never committed, or the commit was removed: no lag, unless the log is empty
    COMMIT_UNKNOWN = "commit_unknown"  # what was committed lies before a hole, or was cleaned away unread: no lag
    NO_WATERMARK = "no_watermark"  # the topic is gone, or its broker has been silent for too long: no lag
    COMMITS_LATE = "commits_late"  # the group's commits are known until an earlier instant than the round: no lag
    STALE_SAMPLE = "stale_sample"  # the newest watermark is of an earlier round
    HIDDEN_COMMITS = "hidden_commits"  # an open transaction in the group's __consumer_offsets partition hides some
    TOPIC_RECREATED = "topic_recreated"  # the commit is of a deleted topic of the same name: no lag
    TRUNCATED = "truncated"  # the log has become shorter than it was, and the commit lies beyond its end: no lag
    AHEAD_OF_LOG = "ahead_of_log"  # the commit lies beyond the log's end, for no reason that is known: no lag
    MESSAGES_LOST = "messages_lost"  # retention has passed the commit
    OPEN_TRANSACTION = "open_transaction"  # a read_committed consumer can't reach the log's end
    TRANSACTION_MARKERS_ONLY = "transaction_markers_only"  # no committed record is left, though offsets are
    UNSUBSCRIBED = "unsubscribed"  # the group has members, and none subscribes to the topic any more
    UNOWNED = "unowned"  # nobody owns the partition: between owners, or without members


class LagTrend:
    """Says whether lag certainly grows or shrinks, or may stay level (`groupledger forecast`)."""

    GROWING = "growing"
    SHRINKING = "shrinking"
    LEVEL = "level"


class LagSecondsMethod:
    """Says how `lag.lag_seconds` was found (`lag.lag_seconds_method`)."""

    ZERO = "zero"  # there is nothing left to read
    INTERPOLATED = "interpolated"  # between two samples of the log's end
    EXACT = "exact"  # from the record itself
    OUTSIDE_WINDOW = "outside_window"  # older than the oldest sample: a lower bound, null if not even that is known


class NoCommit:
    """Says which lag an autoscaler gets for a partition without a commit (`lag.no_commit` in the settings)."""

    EARLIEST = "earliest"  # as all that its log holds
    LATEST = "latest"  # as one record, so that somebody is there to begin at its end
    NONE = "none"  # as nothing
    ERROR = "error"  # there is no number while a partition has no lag


class LagSeedKind:
    """The kinds of rows of `lag_seeds` (`lag_seeds.kind`)."""

    TOPIC = "topic"  # a topic id that a topic partition ever had
    SAMPLE = "sample"  # the ends of a topic partition in a round
    COMMIT = "commit"  # a commit that a round has counted
    END = "end"  # the end of a partition of `__consumer_offsets` in the last round that saw it
    INGESTED = "ingested"  # the date from which on commits were ingested that no round has counted


# Incidents


class Evidence:
    """Says what shows that an incident happened (`incidents.evidence`), the strongest evidence first."""

    OBSERVED = "observed"  # a line of a log, which records confirm where it is a coordinator's
    LOGGED = "logged"  # one broker's server log says it, and no record confirms that
    REPLAYED = "replayed"  # the reference coordinator refuses a request whose answer the log lacks
    INFERRED = "inferred"  # records of __consumer_offsets, and samples of what topics hold


class Severity:
    """Says how grave an incident is (`incidents.severity`), the mildest first."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class FindingSeverity:
    """Says how grave a finding is (`replay_findings.severity`), the mildest first."""

    WARNING = Severity.WARNING
    ERROR = Severity.ERROR


# Objectives of lag


class MinuteState:
    """Says whether a group kept an objective of lag in a minute (`groupledger objectives`), the mildest word first."""

    ON_TIME = "on_time"  # in every round and partition the next record to read was young enough
    UNKNOWN = "unknown"  # it was not sampled, or not late and a lag not known
    LATE = "late"


class Burning:
    """Says how fast a group uses up what an objective allows (`groupledger objectives`), the mildest first."""

    NO = "no"
    UNKNOWN = "unknown"  # too few minutes are known
    SLOWLY = "slowly"
    STEADILY = "steadily"
    FAST = "fast"


class CapacityFinding:
    """Says what was found of a group's capacity (`groupledger capacity`), the most pressing first."""

    STUCK = "stuck"  # a member makes no progress at the records that it has
    HOT_PARTITION = "hot_partition"  # it gets much more than the others of its topic, or more than a member can process
    UNEVEN_PACE = "uneven_pace"  # some members are much slower than others
    IDLE_MEMBERS = "idle_members"  # there are more members than partitions
    MORE_WONT_HELP = "more_wont_help"  # no number of members carries the load
    MORE_NEEDED = "more_needed"
    FEWER_WOULD_DO = "fewer_would_do"
    ENOUGH = "enough"
    UNKNOWN = "unknown"


class MoveBlocker:
    """Says what prevents a group's clients from using the protocol of KIP-848 (`groupledger inventory`)."""

    NOT_CONSUMERS = "not_consumers"  # Connect and others have protocols of their own
    OWN_ASSIGNOR = "own_assignor"  # an assignor of the application's own, which no broker has
    OLD_CLIENT = "old_client"  # a release of its library before it was ready for production
    UNKNOWN_CLIENT = "unknown_client"  # no request log says what it is, or whether that library can do it


# Logs


class LogKind:
    """Says which log of a broker a file is (`log_files.log`)."""

    REQUEST_LOG = "request_log"
    SERVER_LOG = "server_log"


class CoordinatorEventKind:
    """Names those kinds of server log lines that rules use (`coordinator_events.kind`, which has further kinds)."""

    PREPARING_REBALANCE = "preparing_rebalance"
    STABILIZED = "stabilized"
    ASSIGNMENT_RECEIVED = "assignment_received"
    GROUP_NOW_EMPTY = "group_now_empty"
    MEMBER_LEFT = "member_left"
    MEMBER_FAILED = "member_failed"
    DYNAMIC_MEMBERS_REMOVED = "dynamic_members_removed"
    CONSUMER_MEMBER_JOINED = "consumer_member_joined"
    CONSUMER_STATIC_MEMBER_JOINED = "consumer_static_member_joined"
    CONSUMER_STATIC_MEMBER_REPLACED = "consumer_static_member_replaced"
    CONSUMER_MEMBER_LEFT = "consumer_member_left"
    CONSUMER_STATIC_MEMBER_LEFT = "consumer_static_member_left"
    CONSUMER_MEMBER_FENCED = "consumer_member_fenced"
    CONSUMER_MEMBER_NOT_REVOKING = "consumer_member_not_revoking"
    SHARE_MEMBER_JOINED = "share_member_joined"
    SHARE_MEMBER_LEFT = "share_member_left"
    STREAMS_MEMBER_LEFT = "streams_member_left"
    STREAMS_MEMBER_FENCED = "streams_member_fenced"
    GROUP_EPOCH_BUMPED = "group_epoch_bumped"
    PARTITION_LOADED = "partition_loaded"
    PARTITION_UNLOADING = "partition_unloading"
    PARTITION_UNLOADED = "partition_unloaded"
    GROUP_LOADED = "group_loaded"
    GROUP_UNLOADED = "group_unloaded"
    MODERN_GROUP_UNLOADED = "modern_group_unloaded"
