"""Parses a setting of a group, and makes a group with that setting for a simulation.

A setting says who assigns and how (an assignor's name, or `consumer` for the protocol of KIP-848), whether members are
static, and the times of clients and broker. A user gives only what differs from the group's actual setting: `static`,
`cooperative-sticky` or `session.timeout.ms=45000`, with the names of Kafka's own configuration.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from groupledger.coordinator.protocols.join_sync import Release
from groupledger.coordinator.protocols.join_sync_member import JoinSyncGroup
from groupledger.coordinator.protocols.reconciliation import ConsumerProtocolGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.protocols.compare import MakeGroup

CONSUMER: Final = "consumer"
COOPERATIVE: Final = "cooperative-sticky"
ASSIGNED_BY: Final = ("range", "roundrobin", "sticky", COOPERATIVE, CONSUMER)
MEMBERSHIP: Final = {"static": True, "dynamic": False}
TIMES: Final = {
    "session.timeout.ms": "session_ms",
    "heartbeat.interval.ms": "heartbeat_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "group.initial.rebalance.delay.ms": "initial_delay_ms",
}
CONSUMER_HEARTBEAT_MS: Final = 5_000  # group.consumer.heartbeat.interval.ms
TIME_MAX_MS: Final = 86_400_000
NUMBER: Final = re.compile(r"[0-9]{1,9}")


class SettingError(ValueError):
    """A setting is invalid. The message is one sentence with the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The setting of a group; the defaults are those of Kafka 4.2. Times in ms."""

    assigned_by: str = "range"
    is_static: bool = False
    session_ms: int = 45_000
    heartbeat_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    initial_delay_ms: int = 3_000

    def make(self) -> MakeGroup:
        """Returns a function that makes a simulated group with this setting."""
        if self.assigned_by == CONSUMER:
            return partial(
                ConsumerProtocolGroup,
                is_static=self.is_static,
                session_ms=self.session_ms,
                heartbeat_ms=self.heartbeat_ms,
                rebalance_timeout_ms=self.max_poll_interval_ms,
            )
        return partial(
            JoinSyncGroup,
            release=Release(
                session_ms=self.session_ms,
                rebalance_timeout_ms=self.max_poll_interval_ms,
                initial_delay_ms=self.initial_delay_ms,
                heartbeat_ms=self.heartbeat_ms,
            ),
            is_static=self.is_static,
            is_cooperative=self.assigned_by == COOPERATIVE,
            assignor=self.assigned_by,
        )

    def __str__(self) -> str:
        values = asdict(self)
        times = [f"{name}={values[field]}" for name, field in TIMES.items()]
        return ", ".join([self.assigned_by, "static" if self.is_static else "dynamic", *times])


def changed(setting: Setting, asked: Iterable[str]) -> Setting:
    """Returns the setting with the changes that `asked` names. Raises SettingError for a name or value that is unknown,
    and for two changes that contradict each other."""
    changes: dict[str, str | bool | int] = {}
    for text in asked:
        field, value = _change(text.strip())
        if changes.get(field, value) != value:
            raise SettingError(f"{text} contradicts another setting: give one of them.")
        changes[field] = value
    is_consumer = changes.get("assigned_by", setting.assigned_by) == CONSUMER
    if is_consumer != (setting.assigned_by == CONSUMER):
        # The session stays what it was, so that an answer is about the protocol; the broker sets both there.
        usual_ms = CONSUMER_HEARTBEAT_MS if is_consumer else Setting().heartbeat_ms
        changes.setdefault("heartbeat_ms", min(usual_ms, setting.session_ms // 3))
    new = replace(setting, **changes)  # type: ignore[arg-type]
    if new.heartbeat_ms >= new.session_ms:
        raise SettingError("heartbeat.interval.ms has to be less than session.timeout.ms: change one of them.")
    return new


def _change(text: str) -> tuple[str, str | bool | int]:
    name, equals, value = text.partition("=")
    if not equals and name in ASSIGNED_BY:
        return "assigned_by", name
    if not equals and name in MEMBERSHIP:
        return "is_static", MEMBERSHIP[name]
    if equals and name in TIMES:
        if not (NUMBER.fullmatch(value) and int(value) <= TIME_MAX_MS):
            raise SettingError(f"{name} is a number of ms up to {TIME_MAX_MS}: change {value!r}.")
        return TIMES[name], int(value)
    known = ", ".join([*ASSIGNED_BY, *MEMBERSHIP, *(f"{each}=N" for each in TIMES)])
    raise SettingError(f"There is no setting {text!r}: take one of {known}.")
