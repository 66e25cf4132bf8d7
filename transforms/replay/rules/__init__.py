"""Is the ledger true? Every step of a group's history, replayed through the reference coordinator.

Pure Python: `replay` takes the events of one group in log order, as the fold of `transforms.history.rules` does, and
gives findings: things that no broker, or no assignor of Kafka's, can have written. Where the facts come from: the
reference coordinator and its assignors (`coordinator`), which are held against a real broker and Kafka's own classes.

    replay            the events of a group, one after the other     record_rules      one record by itself
    finding           what is found                                  assignment_rules  what an assignor may give
    step              from one record to the next

A finding accuses, so it is claimed only where nothing that the ledger does not hold can explain what it sees:

    what is looked at                              where
    a record by itself, partitions with two owners every record
    a generation that goes back                    tailed coverage, no tombstone (the fold's own finding)
    what the assignor gave to whom                 revision 0, known to be the leader's: later ones carry an assignment
                                                   over to a member that may subscribe to something else by now
    the step to a record                           known to the fold, and the next generation or a revision of this one;
                                                   holes and generations without a record hide whole rebalances

What can't be told from records, and is not looked at: which protocols each member offered beside the chosen one; the
choice of `sticky` and `cooperative-sticky` beyond its balance, since a leader's metadata and memory stand nowhere; any
share that racks may have decided; the leader of a group that grew from empty, or a leader who is new or static, which
hang on the order of requests. Members may have come and gone between two records: only what all orders share counts.

Severities: `error`, no Kafka broker and no assignor of Kafka's writes this. `warning`, an assignor chose otherwise than
Kafka's of that name does: other client libraries have assignors of their own by these names.
"""

from groupledger.transforms.replay.rules.finding import Finding
from groupledger.transforms.replay.rules.replay import replay

__all__ = ["Finding", "replay"]
