"""Finds out what went wrong in a group: from facts to incidents. Pure Python.

    facts      what the rules are fed, rows of the ledger     context    who a member is, which generation there was
    observed   a log shows it                                 episodes   what one cause brought about
    replayed   the reference coordinator refuses it           roots      what probably began it
    inferred   the records of __consumer_offsets alone        explain    two sentences and a setting
    patterns   storms, flapping, transactions without end     jobs       whose restarts are no pattern
    rewinds  offsets that went back: a reset, a reader that went back, two committers that take turns
    offset_losses  what a lost offset costs: records that are read again, or never
    waiting    records that wait and nobody is to blame who reads: no members, an open transaction, a commit too far on
    new_partitions  what was in a partition before the group's consumers knew of it
    incidents  all of it together

The kinds of incidents, with their sentences and settings, are rows of `schemas.kinds.incidents`.
"""

from groupledger.transforms.incidents.rules.facts import (
    Commit,
    CommitStep,
    CoordinatorEvent,
    EndSample,
    GroupFacts,
    GroupState,
    HeldPartition,
    LagStretch,
    OffsetEvent,
    OffsetReturn,
    RebalanceStretch,
    Request,
    Rules,
    request_fact,
)
from groupledger.transforms.incidents.rules.incidents import incidents

__all__ = [
    "Commit",
    "CommitStep",
    "CoordinatorEvent",
    "EndSample",
    "GroupFacts",
    "GroupState",
    "HeldPartition",
    "LagStretch",
    "OffsetEvent",
    "OffsetReturn",
    "RebalanceStretch",
    "Request",
    "Rules",
    "incidents",
    "request_fact",
]
