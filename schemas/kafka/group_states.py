"""Kafka's names of the states of a group that rules ask for, as its coordinator describes it."""

# A classic group waits for its members to join, and then for its leader's assignment: none of them reads meanwhile.
COMPLETING_REBALANCE = "CompletingRebalance"
CLASSIC_REBALANCING = frozenset({"PreparingRebalance", COMPLETING_REBALANCE})
# Members of the others (KIP-848) go on with what they need not give up.
MODERN_REBALANCING = frozenset({"Assigning", "Reconciling"})
# A group without members, of any type.
EMPTY = "Empty"
