"""Computes the lag of consumer groups: how much there is, since when, and whether it is a problem. Pure Python, no
clock.

    facts             watermarks, commits, owners
    topic_window      the recent ends of a topic partition's log, and time by interpolation
    partition_window  the recent commits and positions of a group on a topic partition
    row               one row of `lag`
    status, burrow    is it a problem: by time (our rules), by commits (Burrow's)
    resting           the places where only markers of transactions may be left to read
    rollup            sums for each group and topic
    scaling           one number for autoscalers
    ownership         owners and subscriptions at a position of the log
    quiet             groups at rest, which cost next to nothing
    state             all groups of a cluster, round by round
    of_group          one group, for some rounds at once
    rules             what a user can set

Offsets are compared with offsets, and positions in the log with positions. Clocks are compared only where there is
nothing else, with a margin: a commit has its coordinator's time, a sample the sampler's, a record its producer's.
"""

from groupledger.transforms.lag.rules.facts import Commit, GroupFacts, NextRecord, Owner, Watermark
from groupledger.transforms.lag.rules.ownership import GroupHistory, OffsetRange
from groupledger.transforms.lag.rules.partition_window import PartitionWindow
from groupledger.transforms.lag.rules.rollup import Rollup, Rollups, rollup
from groupledger.transforms.lag.rules.row import (
    Circumstances,
    GroupPartition,
    LagRow,
    lag_row,
    out_of_date,
    with_next_record,
)
from groupledger.transforms.lag.rules.scaling import LagToScaleBy, lag_to_scale_by
from groupledger.transforms.lag.rules.state import End, LagState, Round, is_read_to
from groupledger.transforms.lag.rules.thresholds import BurrowRules, LagRules, StatusRules
from groupledger.transforms.lag.rules.topic_window import FormerTopic, TopicWindow

__all__ = [
    "BurrowRules",
    "Circumstances",
    "Commit",
    "End",
    "FormerTopic",
    "GroupFacts",
    "GroupHistory",
    "GroupPartition",
    "LagRow",
    "LagRules",
    "LagState",
    "LagToScaleBy",
    "NextRecord",
    "OffsetRange",
    "Owner",
    "PartitionWindow",
    "Rollup",
    "Rollups",
    "Round",
    "StatusRules",
    "TopicWindow",
    "Watermark",
    "is_read_to",
    "lag_row",
    "lag_to_scale_by",
    "out_of_date",
    "rollup",
    "with_next_record",
]
