"""Defines the state machine of a classic group as a table: state, event and next state.

    state                event                      next state           when
    (none)               CREATED                    Empty                a request or an offset names a new group
    (none)               LOADED_WITHOUT_MEMBERS     Empty                a record without members is read from the log
    (none)               LOADED_WITH_MEMBERS        Stable               a record with members is read from the log
    Empty                REBALANCE_STARTED          PreparingRebalance   the first member joins
    PreparingRebalance   MEMBERS_JOINED             CompletingRebalance  the join phase ends
    PreparingRebalance   NOBODY_JOINED              Empty                the join phase ends and no member is left
    CompletingRebalance  ASSIGNMENT_STORED          Stable               the leader's assignment is in the log
    CompletingRebalance  REBALANCE_STARTED          PreparingRebalance   members come, go, fail or change
    Stable               REBALANCE_STARTED          PreparingRebalance   members come, go, fail or change
    any                  UNLOADED                   Dead                 the broker no longer leads the partition

In the state Empty a group has no members, but its offsets may remain. In PreparingRebalance it waits for its members to
join, in CompletingRebalance for the leader's assignment. In Stable the members have their assignments. A Dead group
answers that the coordinator is elsewhere, and is never used again.

Rules: everything that decides a group's state is in this file. `next_state` is the only way to a state, for a new
group, for one that is loaded from a record, and for a live one; it refuses what the table lacks. Source: Kafka
ClassicGroupState, which states the same table as the valid previous states of each state.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from groupledger.coordinator.model.errors import IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Mapping


class State(Enum):
    """The five states under Kafka's names, which DescribeGroups and the server log show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    CREATED = auto()
    LOADED_WITHOUT_MEMBERS = auto()
    LOADED_WITH_MEMBERS = auto()
    REBALANCE_STARTED = auto()
    MEMBERS_JOINED = auto()
    NOBODY_JOINED = auto()
    ASSIGNMENT_STORED = auto()
    UNLOADED = auto()


TRANSITIONS: Mapping[State | None, Mapping[Event, State]] = {
    None: {
        Event.CREATED: State.EMPTY,
        Event.LOADED_WITHOUT_MEMBERS: State.EMPTY,
        Event.LOADED_WITH_MEMBERS: State.STABLE,
    },
    State.EMPTY: {
        Event.REBALANCE_STARTED: State.PREPARING_REBALANCE,
        Event.UNLOADED: State.DEAD,
    },
    State.PREPARING_REBALANCE: {
        Event.MEMBERS_JOINED: State.COMPLETING_REBALANCE,
        Event.NOBODY_JOINED: State.EMPTY,
        Event.UNLOADED: State.DEAD,
    },
    State.COMPLETING_REBALANCE: {
        Event.ASSIGNMENT_STORED: State.STABLE,
        Event.REBALANCE_STARTED: State.PREPARING_REBALANCE,
        Event.UNLOADED: State.DEAD,
    },
    State.STABLE: {
        Event.REBALANCE_STARTED: State.PREPARING_REBALANCE,
        Event.UNLOADED: State.DEAD,
    },
    State.DEAD: {
        Event.UNLOADED: State.DEAD,
    },
}


def can_happen(state: State | None, event: Event) -> bool:
    return event in TRANSITIONS[state]


def next_state(state: State | None, event: Event) -> State:
    """Returns the state that follows `state` after `event`. Raises IllegalStateError if the table has no such row."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise IllegalStateError(f"a group that is {state.value if state else 'not there yet'} can't take {event.name}")
    return following
