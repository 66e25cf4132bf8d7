"""Determines the status of a partition by time, not by commits, so that a status means the same however often a group
commits.

    status        the first of these that holds
    ok            nothing is committed, and the log is empty
    no_commit     nothing is committed
    ahead_of_log  the commit lies beyond the end of the log, after data loss or mirroring: the consumer begins where
                  auto.offset.reset says or, once the log has grown beyond the commit, never reads the records before it
    unknown       there is no watermark; or the commit belongs to a deleted topic, or lies before a hole of coverage; or
                  the cleaner may have removed it between the round and the read; or commits are known only until an
                  instant before the round
    ok            nothing is left to read, or only markers of transactions and records of aborted ones
    unsubscribed  no member subscribes to the topic any more: nobody will reduce its lag
    waiting_for_transaction
                  the commit is the last stable offset, and a transaction is open after it: a read_committed consumer
                  has read everything that it can read, and waits
    rebalancing   the group was in a rebalance when it was sampled, which explains why it makes no progress; but if that
                  lasts longer than a rebalance may take, the group is stuck, and is judged like any other
    stalled       no progress for long, while commits of the same offset go on
    stopped       no progress for long, and no commits either
    rewound       the committed offset went back within the window, and is still below its former value
    growing       the lag has a rising slope over the window, even if it fell at times
    ok            else: there is lag, and it shrinks or stays as it is

A transaction ends with a marker. A marker takes an offset but is not a record: a consumer that has read everything, and
commits the offset after the last record, stays before the end for ever. So does one that reads committed records before
those of aborted transactions. If the log was read before its end (`Watermark.markers_at_end`), the markers and such
records are known, and are not lag. (A consumer that reads uncommitted records would get these records, but no commit
shows that it does; `raw_lag` still counts them.) If the log was not read there, one offset is assumed to be a marker if
the partition is known to have transactions, none is open, and the end has not moved since the previous round; this
offset still counts as lag. A partition without transactions, or with more left to read, is judged like any other.

A read_uncommitted consumer may be at the last stable offset by chance, and counts as waiting until the transaction has
ended. Its progress is then expected from the first round after that.

Burrow's status follows other rules, over commits. `BURROW_BESIDE` lists which of Burrow's statuses may come with each
status.

Progress is counted from the first round that saw the offset with lag: an idle partition that gets a record is not at a
standstill. A group is as bad as its worst partition, without those of topics that no member subscribes to. If a group
has only such partitions, and records wait in them, the whole group is unsubscribed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.kafka.group_states import CLASSIC_REBALANCING, MODERN_REBALANCING
from groupledger.schemas.words import BurrowStatus, LagStatus, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.transforms.lag.rules.thresholds import StatusRules

SEVERITY = {status: code for code, status in enumerate(words_of(LagStatus))}

# A partition that Burrow would not know has None. With lag Burrow's may be any: it counts commits, not
# minutes.
_OF_PARTITIONS = frozenset(words_of(BurrowStatus)) - {BurrowStatus.ERR}
BURROW_BESIDE: dict[str, frozenset[str | None]] = {
    LagStatus.OK: frozenset({*_OF_PARTITIONS, None}),
    LagStatus.WAITING_FOR_TRANSACTION: frozenset({BurrowStatus.OK}),
    LagStatus.UNSUBSCRIBED: _OF_PARTITIONS,
    LagStatus.NO_COMMIT: frozenset({None}),
    LagStatus.UNKNOWN: frozenset({None}),
    LagStatus.REBALANCING: _OF_PARTITIONS,
    LagStatus.GROWING: _OF_PARTITIONS,
    LagStatus.REWOUND: _OF_PARTITIONS,
    LagStatus.AHEAD_OF_LOG: frozenset({BurrowStatus.REWIND}),
    LagStatus.STALLED: _OF_PARTITIONS,
    LagStatus.STOPPED: _OF_PARTITIONS,
}
"""By our status of a partition, the statuses that Burrow's rules may give it at the same time."""

REBALANCING_STATES = CLASSIC_REBALANCING | MODERN_REBALANCING

RHYTHMS_OF_STANDSTILL = 3
STANDSTILLS_OF_REBALANCE = 5  # a rebalance waits for a member for max.poll.interval.ms: twice Kafka's five minutes


def standstill_ms(commit_interval_ms: int | None, rules: StatusRules) -> int:
    """Returns after how many milliseconds without progress a partition is at a standstill."""
    return max(rules.standstill_ms, RHYTHMS_OF_STANDSTILL * (commit_interval_ms or 0))


def worst(statuses: Iterable[str]) -> str:
    return max(statuses, key=SEVERITY.__getitem__, default=LagStatus.OK)


def is_unsubscribed(waiting: int | None, group_state: str | None) -> bool:
    """Returns whether a group is unsubscribed as a whole. `waiting` is in how many partitions records wait, if no
    member subscribes to any of the group's partitions, else 0. A healthy group that moves to another topic is like that
    while it rebalances."""
    return bool(waiting) and group_state not in REBALANCING_STATES
