"""Lists the clients of groups, and what keeps a group from the protocol of KIP-848. Pure Python without clock."""
