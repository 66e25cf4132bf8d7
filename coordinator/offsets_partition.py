"""Finds the partition of `__consumer_offsets` in which Kafka keeps a group (GroupCoordinatorService.partitionFor)."""

from functools import lru_cache

from groupledger.coordinator.java_hash_map import string_hash_code

_INT32_MIN = -(1 << 31)


@lru_cache(maxsize=1 << 17)  # asked with every request
def partition_for(group_id: str, num_partitions: int) -> int:
    """Returns the `__consumer_offsets` partition of a group. It is the absolute value of the id's hash code, modulo the
    number of partitions; Kafka takes 0 for the smallest int, which has no absolute value."""
    code = string_hash_code(group_id)
    return (0 if code == _INT32_MIN else abs(code)) % num_partitions
