"""A member of a share group, as the records of types 10 and 14 describe it.

Members are immutable, as those of consumer groups are. A member of a share group waits for no other: it has its target
as soon as it receives it, and is stable then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.groups.modern.epochs import LEFT, NO_EPOCH
from groupledger.coordinator.model.partitions import all_partitions_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.coordinator.model.partitions import Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """A member of a share group. `assigned` may name a topic without partitions: a broker does not drop the topic when
    it removes the last partition."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = NO_EPOCH
    assigned: Partitions = field(default_factory=dict)

    def with_subscription(self, value: Mapping[str, Any]) -> ShareMember:
        return replace(
            self,
            rack_id=value["rack_id"],
            client_id=value["client_id"],
            client_host=value["client_host"],
            topics=frozenset(value["subscribed_topic_names"]),
        )

    def with_assignment(self, value: Mapping[str, Any] | None) -> ShareMember:
        """Returns the member as the value of a record of type 14 describes it. After the tombstone (None) it has no
        partitions and no epoch."""
        if value is None:
            return replace(self, epoch=LEFT, previous_epoch=LEFT, assigned={})
        return replace(
            self,
            epoch=value["member_epoch"],
            previous_epoch=value["previous_member_epoch"],
            assigned=all_partitions_of(value["assigned_partitions"]),
        )
