"""Finds out what went wrong in a group: turns facts into incidents. Pure Python.

    facts      the input of the rules: rows of the ledger      context    who a member is, which generation was in force
    group_facts  all facts of a group, and what rules look up among them, with the means of `lookups`
    observed   incidents that a log shows                      episodes   incidents that one cause brought about
    replayed   refusals that the reference coordinator gives   roots      what probably began an episode
    inferred   from records of __consumer_offsets alone        explain    two sentences and a setting
    patterns   storms, flapping, transactions without end      jobs       groups of batch jobs, which restart often
    rewinds  offsets that went back: a reset, a reader that went back, two committers that take turns
    offset_losses  the cost of a lost offset: records that are read again, or never
    retention_ahead  commits that retention will overtake soon
    waiting    records that wait, no consumer being at fault: no members, an open transaction, a commit beyond the end
    new_partitions  records in a partition from before the group's consumers knew of it
    incidents  calls all of them

The kinds of incidents, with their sentences and settings, are rows of `schemas.kinds.incidents`.
"""

from groupledger.transforms.incidents.rules.facts import (
    Commit,
    CommitStep,
    CoordinatorEvent,
    EndSample,
    GroupState,
    HeldPartition,
    LagRound,
    LagStretch,
    OffsetEvent,
    OffsetReturn,
    RebalanceStretch,
    Request,
    Rules,
    request_fact,
)
from groupledger.transforms.incidents.rules.group_facts import GroupFacts
from groupledger.transforms.incidents.rules.incidents import incidents

__all__ = [
    "Commit",
    "CommitStep",
    "CoordinatorEvent",
    "EndSample",
    "GroupFacts",
    "GroupState",
    "HeldPartition",
    "LagRound",
    "LagStretch",
    "OffsetEvent",
    "OffsetReturn",
    "RebalanceStretch",
    "Request",
    "Rules",
    "incidents",
    "request_fact",
]
