"""A member of a consumer group of KIP-848, as the records of types 5 and 8 describe it.

Members are immutable: a heartbeat makes a new member, and its differences from the old one become records. The group
changes when these records are applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.groups.modern.epochs import LEFT, NO_EPOCH
from groupledger.coordinator.model.groups.modern.states import RecordedState
from groupledger.coordinator.model.partitions import partitions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.coordinator.model.partitions import Partitions

Epochs = dict[tuple[str, int], int]
"""The epoch in which a member got each partition."""


class MemberState(RecordedState):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicWords:
    """What a member of the classic protocol sent when it joined: its session timeout, and its protocols in order, each
    with the bytes of its subscription."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member of a KIP-848 group. `epoch` is AWAY for a static member that left for a while, and 0 for a member that
    has not been reconciled yet. `classic` is None for a member that sends KIP-848 heartbeats. `epochs` are those in
    which the member was assigned each of its partitions, including the ones that it has to give up; they are empty if
    the records are a 4.2 broker's."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=dict)
    pending_revocation: Partitions = field(default_factory=dict)
    epochs: Epochs = field(default_factory=dict)
    classic: ClassicWords | None = None

    def at_epoch(self, epoch: int, **changes: Any) -> ConsumerMember:
        """Returns the member at this epoch, with `changes`. Its present epoch becomes its previous one."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, **changes)

    def with_subscription(self, value: Mapping[str, Any]) -> ConsumerMember:
        classic = value["classic_member_metadata"]
        return replace(
            self,
            instance_id=value["instance_id"],
            rack_id=value["rack_id"],
            client_id=value["client_id"],
            client_host=value["client_host"],
            topics=frozenset(value["subscribed_topic_names"]),
            regex=value["subscribed_topic_regex"] or "",
            rebalance_timeout_ms=value["rebalance_timeout_ms"],
            assignor=value["server_assignor"],
            classic=None
            if classic is None
            else ClassicWords(
                classic["session_timeout_ms"],
                tuple((each["name"], each["metadata"]) for each in classic["supported_protocols"]),
            ),
        )

    def with_assignment(self, value: Mapping[str, Any] | None) -> ConsumerMember:
        """Returns the member as the value of a record of type 8 describes it. After the tombstone (None) it has no
        partitions and no epoch."""
        if value is None:
            return replace(
                self,
                epoch=LEFT,
                previous_epoch=LEFT,
                state=MemberState.STABLE,
                assigned={},
                pending_revocation={},
                epochs={},
            )
        return replace(
            self,
            epoch=value["member_epoch"],
            previous_epoch=value["previous_member_epoch"],
            state=MemberState(value["state"]),
            assigned=partitions_of(value["assigned_partitions"]),
            pending_revocation=partitions_of(value["partitions_pending_revocation"]),
            epochs=epochs_of([*value["assigned_partitions"], *value["partitions_pending_revocation"]]),
        )

    def epoch_of(self, topic_id: str, partition: int) -> int:
        """Returns the epoch in which the member was assigned a partition. It is the member's own epoch if an older
        broker recorded none."""
        return self.epochs.get((topic_id, partition), max(self.epoch, 0))


def epochs_of(named: Iterable[Mapping[str, Any]]) -> Epochs:
    return {
        (each["topic_id"], number): epoch
        for each in named
        for number, epoch in zip(each["partitions"], each.get("assignment_epochs") or (), strict=False)
    }
