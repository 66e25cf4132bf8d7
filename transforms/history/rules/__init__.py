"""The history of one group, from its records: who was in it, who owned what, when and why it rebalanced.

Pure Python: `fold` takes the open state of a group and its events in log order, and gives rows to upsert and the new
state. Where the facts come from: Kafka's GroupMetadataManager and ClassicGroup (what is written when), KIP-345 (static
members), KIP-415 (incremental Connect), KIP-429 (cooperative rebalancing), KIP-848 (conversions), and real brokers.

    events      what the fold is fed               ownership_answer   owned, unowned or unknown
    fold        incarnations, coverage, commits    changes            what differs between two records
    generation  a record becomes rows              cost               what moved, who stood still
    state       the open state and its JSON        trigger            what probably started a rebalance
    rows        the tables' rows

Rules
- Order is the log's. Times are for people; no decision compares them but those about durations, and one: records of one
  operation of a coordinator have one timestamp.
- An incarnation begins with the first record or commit, and ends with the group's tombstone, unless records of the
  same operation carry it over to a `consumer` group whose epoch is not below the generation. The way back, after the
  consumer group's own tombstone, is another incarnation, though it goes on from the epoch. A generation that goes down
  begins a new incarnation too, and is a finding where no tombstone can have been missed.
- A record that repeats its generation with another content is a revision; with the same content, nothing.
- Every increment that has a record is a row of `rebalances`; increments without one are that row's `generation_gap`.
- Interval and tenure end with the first record that no longer shows them; an owner who stays is one interval.

What is claimed when. A transition is known if coverage was `tailed` at its record, and the group's record before it is
the last one there was: itself tailed, or the one that a compacted stretch left. Everything else is a hole:

    transition                           rows                                  changes, movement, pauses, trigger
    known, generation + 1                is_hole false                         stated
    known, generation + n                is_hole true, not_synced, gap n-1     null
    not known, a record before it        is_hole true, not_covered             null
    not known, no record before          no row of `rebalances`                -
    into generation 1 from nothing or 0  changes are group_started alone       gained only

An assignment that can't be read leaves its generation, its members and their changes as they are; what it may hold is
unknown from then on, not unowned, and the movement of such a transition is null. A hole in coverage ends intervals and
generations with `is_end_known` false; members live on over it, since their ids are never used again.
"""

from groupledger.transforms.history.rules.events import (
    Commits,
    Coverage,
    Event,
    GroupMember,
    GroupRecord,
    GroupTombstone,
    MemberFacts,
    OtherGroupType,
    group_record,
)
from groupledger.transforms.history.rules.fold import Folded, LogOrderError, fold
from groupledger.transforms.history.rules.ownership_answer import OwnerAnswer, owner_at

__all__ = [
    "Commits",
    "Coverage",
    "Event",
    "Folded",
    "GroupMember",
    "GroupRecord",
    "GroupTombstone",
    "LogOrderError",
    "MemberFacts",
    "OtherGroupType",
    "OwnerAnswer",
    "fold",
    "group_record",
    "owner_at",
]
