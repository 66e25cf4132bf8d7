"""What went wrong in a group: from facts to incidents. Pure Python.

    facts      what the rules are fed, rows of the ledger     context    who a member is, which generation there was
    observed   a log shows it                                 episodes   what one cause brought about
    replayed   the reference coordinator refuses it           roots      what probably began it
    inferred   the records of __consumer_offsets alone        explain    two sentences and a setting
    patterns   storms, flapping, transactions without end     incidents  all of it together

Kinds, and what each rests on:

    illegal_generation             refused with 22: the request claims a generation that is over
    unknown_member                 refused with 25: the group has no such member (any more)
    fenced_instance                refused with 82: another process has the instance id (KIP-345)
    rebalance_in_progress_commit   a commit refused with 27; normal life
    fenced_member_epoch            refused with 110, and
    stale_member_epoch             a commit refused with 113: the same under KIP-848
    poll_timeout                   a member left because it did not poll within max.poll.interval.ms
    session_expired                a member was removed for want of heartbeats
    static_subscription_ignored    a static member came back with other topics, and kept its assignment
    zombie_commit_suspected        a silent member was removed, and the same process joined again soon after
    offset_rewind                  committed offsets went back
    commit_gap                     a member stopped committing everything that it owns
    rebalance_storm                more rebalances than restarting every member explains
    member_flapping                one process came and went again and again
    leader_never_synced            a generation without an assignment
    stalled_transaction            the last stable offset of a partition of __consumer_offsets stands still
"""

from groupledger.transforms.incidents.rules.facts import (
    Commit,
    CommitStep,
    CoordinatorEvent,
    EndSample,
    GroupFacts,
    GroupState,
    Request,
    Rules,
    request_fact,
)
from groupledger.transforms.incidents.rules.incidents import incidents
from groupledger.transforms.incidents.rules.sighting import SEVERITIES

__all__ = [
    "SEVERITIES",
    "Commit",
    "CommitStep",
    "CoordinatorEvent",
    "EndSample",
    "GroupFacts",
    "GroupState",
    "Request",
    "Rules",
    "incidents",
    "request_fact",
]
