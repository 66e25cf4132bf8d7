"""Holds what lag is computed from: what a sampling round reads, and what the log says.

Offsets are of the topic partition, except for `kafka_partition` and `kafka_offset`, which are the place of a commit in
`__consumer_offsets`. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.schemas.kafka.topic_partition import TopicPartition


class Watermark(NamedTuple):
    """Holds the ends of one topic partition in the round of `sampled_at_ms`.

    `markers_at_end` says how many offsets right before `last_stable_offset` hold markers of transactions, or records of
    aborted ones, and no committed record; it is None if the log was not read there.
    """

    sampled_at_ms: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    leader_epoch: int | None = None
    topic_id: str | None = None
    markers_at_end: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """Holds one record of a group about a topic partition.

    `committed_offset` is None for a removal (a tombstone), and for offset -1, which Kafka stores and returns as "no
    offset". `high_watermark_before` is that of the newest round before the commit, by position in the log; it is set
    only for a commit that is restored from the tables. `topic_id` is None if the client did not send one.
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
    """The owner of a partition, as far as the ledger knows.

    `owned` is None if ownership is not known (a simple consumer, an assignment that can't be read, a hole in the log).
    `is_subscribed` is False only if every member's subscription is known and no member subscribes to the topic.
    """

    owned: bool | None = None
    member_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    is_subscribed: bool | None = None


UNKNOWN_OWNER = Owner()
NOBODY = Owner(owned=False)
UNSUBSCRIBED_OWNER = Owner(owned=False, is_subscribed=False)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Describes a group at the position of a round.

    If `is_ownership_known`, a partition that is not in `owners` has no owner. `subscribed_topics` is None if the topics
    of some member are not known, or if there are no members. `kafka_partition` is -1 if the history does not have the
    group.
    """

    state: str | None = None
    owners: Mapping[TopicPartition, Owner] = field(default_factory=dict)
    is_ownership_known: bool = False
    subscribed_topics: frozenset[str] | None = None
    kafka_partition: int = -1

    def owner(self, place: TopicPartition) -> Owner:
        owner = self.owners.get(place)
        if owner is not None:
            return owner
        if self.subscribed_topics is not None and place[0] not in self.subscribed_topics:
            return UNSUBSCRIBED_OWNER
        return NOBODY if self.is_ownership_known else UNKNOWN_OWNER


NO_FACTS = GroupFacts()


@dataclass(frozen=True, slots=True)
class NextRecord:
    """Holds the time of the first record from the committed offset on.

    It is None if there is no record up to the high watermark, only transaction markers, or offsets that compaction has
    emptied.
    """

    timestamp_ms: int | None
