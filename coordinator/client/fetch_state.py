"""The states of an owned partition, until its records can be fetched (Kafka's SubscriptionState.FetchStates).

    INITIALIZING         nothing is known: the committed offset is requested
    AWAITING_RESET       no committed offset, or one out of range: the log's first or last offset is requested
    AWAITING_VALIDATION  the leader has changed, or the committed offset names the epoch of a record: the leader is
                         asked whether the log was truncated since
    FETCHING             the position is valid: records are fetched and polled, and offsets are committed

Every state but INITIALIZING may be entered from every other one, and from itself, except that AWAITING_RESET has no
position that could be validated. A change that the table lacks does nothing at all. FETCHING and AWAITING_VALIDATION
have a position, the others have none. Only in FETCHING a position is fetched from and committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class FetchState(Enum):
    INITIALIZING = "initializing"
    FETCHING = "fetching"
    AWAITING_RESET = "awaiting_reset"
    AWAITING_VALIDATION = "awaiting_validation"


VALID_NEXT_STATES: Mapping[FetchState, tuple[FetchState, ...]] = {
    FetchState.INITIALIZING: (FetchState.FETCHING, FetchState.AWAITING_RESET, FetchState.AWAITING_VALIDATION),
    FetchState.FETCHING: (FetchState.FETCHING, FetchState.AWAITING_RESET, FetchState.AWAITING_VALIDATION),
    FetchState.AWAITING_RESET: (FetchState.FETCHING, FetchState.AWAITING_RESET),
    FetchState.AWAITING_VALIDATION: (FetchState.FETCHING, FetchState.AWAITING_RESET, FetchState.AWAITING_VALIDATION),
}


@dataclass(frozen=True, slots=True)
class Leader:
    """A partition's leader by the last metadata."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Position:
    """The position of an owned partition. `epoch` is the leader epoch of the record before `offset`, or None if it is
    not known. `leader` is the partition's leader for which the position was found."""

    offset: int
    epoch: int | None = None
    leader: Leader | None = None


@dataclass(slots=True, kw_only=True)
class PartitionState:
    """One owned partition. No request about it is sent before `retry_ms`."""

    fetch_state: FetchState = FetchState.INITIALIZING
    position: Position | None = None
    reset_strategy: str | None = None
    retry_ms: int | None = None
    pending_revocation: bool = False  # an eager member is about to give it up: it is no longer fetched or polled

    def _transition_to(self, state: FetchState, position: Position | None) -> bool:
        if state not in VALID_NEXT_STATES[self.fetch_state]:
            return False
        self.fetch_state, self.position, self.retry_ms = state, position, None
        return True

    @property
    def is_fetchable(self) -> bool:
        return self.fetch_state is FetchState.FETCHING and not self.pending_revocation

    def may_ask(self, state: FetchState, now_ms: int) -> bool:
        """Returns whether the partition is in this state, and no request about it is in flight or delayed."""
        return self.fetch_state is state and (self.retry_ms is None or self.retry_ms <= now_ms)

    def request_reset(self, strategy: str) -> None:
        if self._transition_to(FetchState.AWAITING_RESET, None):
            self.reset_strategy = strategy

    def seek_validated(self, position: Position) -> None:
        if self._transition_to(FetchState.FETCHING, position):
            self.reset_strategy = None

    def seek_unvalidated(self, position: Position) -> None:
        self.seek_validated(position)
        self._validate(position)

    def _validate(self, position: Position) -> None:
        """Begins to validate a position; without both epochs there is nothing to compare, and it is valid at once."""
        needs_validation = position.epoch is not None and position.leader is not None
        self._transition_to(FetchState.AWAITING_VALIDATION if needs_validation else FetchState.FETCHING, position)

    def leader_is(self, leader: Leader | None) -> None:
        """Takes the partition's leader from new metadata. If that leader is not the position's, the position has to be
        validated."""
        if self.position is None or leader is None or self.position.leader == leader:
            return
        self._validate(Position(self.position.offset, self.position.epoch, leader))

    def complete_validation(self) -> None:
        self._transition_to(FetchState.FETCHING, self.position)

    def advance(self, position: Position) -> None:
        """Advances the position past the records that poll has returned."""
        self.position = position
