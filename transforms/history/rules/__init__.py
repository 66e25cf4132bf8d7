"""Derives the history of one group from its records: who was a member, who owned what, when and why it rebalanced.

Pure Python: `fold` takes the open state of a group and its events in log order, and gives rows to upsert and the new
state. Where the facts come from: Kafka's GroupMetadataManager and ClassicGroup (what is written when), KIP-345 (static
members), KIP-415 (incremental Connect), KIP-429 (cooperative rebalancing), KIP-848 (`consumer` groups, conversions),
and real brokers.

    events      the fold's input                   ownership_answer   owned, unowned or unknown
    fold        incarnations, coverage, commits    changes            what differs between two records
    generation  turns a record into rows           cost               what moved, what was stopped
    state       the open state and its JSON        trigger            what probably started a rebalance
    rows        the tables' rows

For the other types of group, `content` parses records (`modern_records`, `share_records`, `streams_records`),
`modern` turns them into rows, `by_type` has the rules of a single type, `reconciliation` decides how members come to
own the partitions that an epoch assigns, `holdings` keeps what each member of a share or streams group holds, and
`modern_state` defines their open state.

Rules
- Order is the order of the log. Times are for people. Only durations are computed from them, with one exception: equal
  timestamps show that records come from one operation of the coordinator.
- An incarnation begins with the first record or commit, and ends with the group's tombstone, unless records of the same
  operation carry it over to a `consumer` group that goes on from the generation. An empty classic group that becomes a
  consumer group starts at epoch 1: another incarnation, with the same offsets. A conversion back, after the consumer
  group's own tombstone, is another incarnation, too, though it may go on from the epoch. A generation number that goes
  down begins a new incarnation as well, and is a finding if no tombstone can have been missed. A simple group, which
  has commits only, ends with the tombstone of its last offset, because brokers before Kafka 4.0 write no other
  tombstone for it.
- A record that repeats its generation with other content is a revision; with the same content it changes nothing.
- In a `consumer` group a generation is an epoch. Its record alone says little: the records that the same operation of
  the coordinator wrote before it are the cause. A conversion to the other protocol that does not change the number is a
  revision.
- Every increment that has a record is a row of `rebalances`; increments without one are that row's `generation_gap`.
- An interval or a tenure ends with the first record that no longer shows it; an owner who stays has one interval.

A transition is known if coverage was `complete` at its record, and no record of the group is missing before it, because
the record before lies in a complete stretch, too, or is the last one of a compacted stretch. A transition between two
records of a compacted stretch that has all its records is known, too. Every other transition is a hole:

    transition                           rows                                  changes, movement, pauses, trigger
    known, generation + 1                is_hole false                         stated
    known, generation + n                is_hole true, not_synced, gap n-1     null
    not known, a record before it        is_hole true, not_covered             null
    not known, no record before          no row of `rebalances`                -
    into generation 1 from nothing or 0  changes are group_started alone       gained only

If an assignment can't be read, the generation, its members and their changes are stated as usual; its partitions are
unknown from then on, not unowned, and the movement of the transition is null. A hole in coverage ends intervals and
generations with `is_end_known` false; members stay members over such a hole, since ids are never used again.
"""
