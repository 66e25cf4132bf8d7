"""Names the states of a group, as its coordinator describes it, that rules use."""

# A classic group waits for its members to join, and then for its leader's assignment: none of them reads meanwhile.
PREPARING_REBALANCE, COMPLETING_REBALANCE = "PreparingRebalance", "CompletingRebalance"
CLASSIC_REBALANCING = frozenset({PREPARING_REBALANCE, COMPLETING_REBALANCE})
# Members of KIP-848 groups go on with the partitions that they need not give up.
MODERN_REBALANCING = frozenset({"Assigning", "Reconciling"})
# A group without members, of any type.
EMPTY = "Empty"
