"""Checks the ledger: replays every step of a group's history through the reference coordinator.

Pure Python: `replay` takes the events of one group in log order, as the fold of `transforms.history.rules` does, and
returns findings: contents of records that no broker, or no assignor of Kafka, can have written. Where the facts come
from: the reference coordinator and its assignors (`coordinator`), which are compared with a real broker and Kafka's own
classes.

    replay            goes through the events of a group             record_rules      check one record by itself
    finding           the row that a contradiction becomes           assignment_rules  check an assignment
    step              checks the step from one record to the next
    modern_rules      check `consumer`, `share` and `streams` groups, whose many small records are not replayed

A finding is an accusation. So something is checked only if no record that the ledger may lack could explain it:

    checked                                        where
    a record by itself, partitions with two owners every record
    a generation that goes back                    complete coverage, no tombstone (the fold's own finding)
    the assignment                                 revision 0, which is known to be the leader's: later revisions repeat
                                                   the assignment, though a member may have another subscription by now
    the step to a record                           the fold knows the transition, and it leads to the next generation or
                                                   to a revision; holes and generations without a record hide rebalances
    epochs, states and holders in a group of       complete coverage, from what was read in one stretch, or was left by
      KIP-848's kind                               a cleaner before it

Records don't say, and nothing checks: which protocols each member offered beside the chosen one; what `sticky` and
`cooperative-sticky` chose beyond the balance, since the leader's metadata and memory are in no record; an assignment
that racks may have decided; the leader of a group that was empty, and a leader who is new or static, since these depend
on the order of requests. Members may have come and gone between two records, so only results that are the same for
every order of requests are compared.

Severities: an `error` is something that no Kafka broker and no assignor of Kafka's writes. A `warning` says that the
assignment differs from that of Kafka's assignor of that name; other client libraries use these names for their own
assignors.
"""

from groupledger.transforms.replay.rules.finding import Finding
from groupledger.transforms.replay.rules.replay import replay

__all__ = ["Finding", "replay"]
