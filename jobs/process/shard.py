"""A shard: the part of a cluster that one ledger follows, if several share the cluster.

Kafka keeps each group in one partition of `__consumer_offsets`, by the hash of its id. Ledger I of N has each N-th
partition, and the groups in them. So everything about a group is in one ledger, and no ledger needs another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from groupledger.coordinator.offsets_partition import partition_for

FORM = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `count`; the first has the number 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Returns the shard of a text such as 2/4. Raises ValueError if the text means no shard."""
        parts = FORM.fullmatch(text)
        found = cls(0, 0) if parts is None else cls(int(parts[1]), int(parts[2]))
        if not 1 <= found.number <= found.count:
            msg = f"{text!r} is no shard: write 1/4, 2/4, 3/4 and 4/4 for the four parts of a cluster"
            raise ValueError(msg)
        return found

    def has(self, kafka_partition: int) -> bool:
        return kafka_partition % self.count == self.number - 1

    def has_group(self, group_id: str, partition_count: int) -> bool:
        """Returns whether a group's partition is in the shard, where `__consumer_offsets` has `partition_count`."""
        return self.count == 1 or self.has(partition_for(group_id, partition_count))


WHOLE = Shard()
