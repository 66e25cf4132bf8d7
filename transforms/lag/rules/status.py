"""Judges a partition by time, not by commits, so that a status means the same however often a group commits.

    status        when, the first that holds
    unknown       there is no watermark, or the commit is of a topic that was deleted, or lies before a hole of coverage
    no_commit     nothing is committed
    ok            nothing is left to read, or the marker of a transaction alone
    unsubscribed  no member subscribes to the topic any more: nobody will work off its lag
    rebalancing   the group was in a rebalance when it was sampled, which is reason enough to stand still, unless it has
                  stood still for longer than a rebalance may take: such a group is stuck, and judged like any other
    stalled       no progress for long, while commits of the same offset go on
    stopped       no progress for long, and no commits either
    rewound       the committed offset went back within the window and has not been made good
    growing       the lag has a rising slope over the window, whatever single dips it had
    ok            else: there is lag, and it is worked off or stays as it is

A transaction ends in a marker, which takes an offset and is no record: who has read all and commits the offset behind
the last record is one behind the end for ever. One offset is taken for a marker if the partition is known to have
transactions, none is open, and the end has not moved since the round before. Only the record itself would tell for
certain; a partition without transactions, or with more left to read, is judged like any other.

Progress is counted from the first round that saw the offset with lag: an idle partition that gets a record is not at a
standstill. A group is as bad as its worst partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.kafka.group_states import CLASSIC_REBALANCING, MODERN_REBALANCING
from groupledger.schemas.words import LagStatus, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.transforms.lag.rules.thresholds import StatusRules

SEVERITY = {status: code for code, status in enumerate(words_of(LagStatus))}

REBALANCING_STATES = CLASSIC_REBALANCING | MODERN_REBALANCING

RHYTHMS_OF_STANDSTILL = 3
STANDSTILLS_OF_REBALANCE = 5  # a rebalance waits for a member for max.poll.interval.ms: twice Kafka's five minutes


def standstill_ms(commit_interval_ms: int | None, rules: StatusRules) -> int:
    """Returns how long without progress is too long."""
    return max(rules.standstill_ms, RHYTHMS_OF_STANDSTILL * (commit_interval_ms or 0))


def worst(statuses: Iterable[str]) -> str:
    return max(statuses, key=SEVERITY.__getitem__, default=LagStatus.OK)
