"""What lag is made of: what a sampling round reads, what the log says, and the words of the answer.

Offsets are of the topic partition, except for `kafka_partition` and `kafka_offset`, which are the place of a commit in
`__consumer_offsets`. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

# Why a number is odd, or absent (the column `flags`).
NO_COMMIT = "no_commit"  # owned, but never committed, or the commit was removed: no lag
NO_WATERMARK = "no_watermark"  # the topic is gone, or its broker has been silent for too long: no lag
STALE_SAMPLE = "stale_sample"  # the newest watermark is of an earlier round, or of a commit newer than it
HIDDEN_COMMITS = "hidden_commits"  # an open transaction in the group's __consumer_offsets partition hides newer commits
TOPIC_RECREATED = "topic_recreated"  # the commit is of a topic of that name which is no more: no lag
TRUNCATED = "truncated"  # the log has become shorter than it was, and the commit lies behind its end
AHEAD_OF_LOG = "ahead_of_log"  # the commit lies behind the log's end, for no reason that is known
MESSAGES_LOST = "messages_lost"  # retention has passed the commit
OPEN_TRANSACTION = "open_transaction"  # a read_committed consumer can't reach the log's end
TRANSACTION_MARKERS_ONLY = "transaction_markers_only"  # no record is left to read, though offsets are
UNSUBSCRIBED = "unsubscribed"  # the group has members, and none subscribes to the topic any more
UNOWNED = "unowned"  # nobody owns the partition: between owners, or without members

# How `lag_seconds` was found (`lag_seconds_method`).
ZERO = "zero"  # there is nothing left to read
INTERPOLATED = "interpolated"  # between two samples of the log's end
EXACT = "exact"  # from the record itself
OUTSIDE_WINDOW = "outside_window"  # older than the oldest sample: null, and a lower bound in a column of its own


@dataclass(frozen=True, slots=True)
class Watermark:
    """The ends of one topic partition in the round of `sampled_at_ms`."""

    sampled_at_ms: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    leader_epoch: int | None = None
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """One record of a group about a topic partition.

    `committed_offset` is None for a removal (tombstone) and for offset -1, which Kafka stores and answers as "none".
    `high_watermark_before` is that of the newest round before the commit, by position in the log, where it is known
    from elsewhere than the state. `topic_id` is None if the client did not send one.
    """

    committed_offset: int | None
    commit_timestamp_ms: int
    kafka_partition: int
    kafka_offset: int
    topic_id: str | None = None
    leader_epoch: int | None = None
    high_watermark_before: int | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns a partition, by the ledger. `owned` is None where that is not known (a simple consumer, a KIP-848 group,
    an assignment that can't be read); `is_subscribed` is False only if every member's subscription is known and none
    has the topic."""

    owned: bool | None = None
    member_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    is_subscribed: bool | None = None


UNKNOWN_OWNER = Owner()
NOBODY = Owner(owned=False)
UNSUBSCRIBED_OWNER = Owner(owned=False, is_subscribed=False)


@dataclass(frozen=True, slots=True)
class NextRecord:
    """What a reader found from the committed offset on: the time of the first record there, None if there is none up
    to the high watermark, only transaction markers (or what compaction left of them)."""

    timestamp_ms: int | None
