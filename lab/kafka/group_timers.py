"""Lets sessions end soon on a broker, by settings of single groups, and waits for that.

The broker gets a short session timeout for a group, while the coordinator's virtual time is moved forward. A setting
has reached the broker's coordinator when a heartbeat is answered with the short interval that was set with it. A group
that has any setting of its own loses the broker's number of standbys, unless that is set for the group, too.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import IncrementalAlterConfigsRequest

from groupledger.schemas.kafka.errors import Error
from lab.kafka.group_messages import from_wire, to_wire
from lab.kafka.paired_play import DifferenceError, PairedPlay, comparable_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from groupledger.coordinator.model.messages import Request
    from lab.kafka.connection import Connection

SHORT_SESSION_MS, SHORT_HEARTBEAT_MS = 600, 150
GROUP_RESOURCE, SET = 32, 0
WAIT_SECONDS_MAX, POLL_SECONDS = 20.0, 0.01


def await_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        if time.monotonic() > deadline:
            raise DifferenceError(f"the broker was not as far after {WAIT_SECONDS_MAX:.0f} s")
        time.sleep(POLL_SECONDS)


def set_for_group(connection: Connection, group_id: str, group_type: str, settings: Mapping[str, int]) -> None:
    """Gives a group settings of its own, including a short heartbeat interval."""
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        kind.AlterableConfig(name=f"{group_type}.{name}", config_operation=SET, value=str(value))
        for name, value in {"heartbeat.interval.ms": SHORT_HEARTBEAT_MS, **settings}.items()
    ]
    resource = kind(resource_type=GROUP_RESOURCE, resource_name=group_id, configs=configs)
    connection.call(IncrementalAlterConfigsRequest(version=1, resources=[resource], validate_only=False))


def await_short_heartbeats(connection: Connection, request: Request) -> None:
    """Sends the heartbeat `request` until it is refused, or answered with the short interval."""

    def is_short() -> bool:
        answer: Any = from_wire(connection.call(to_wire(request)), request)
        return answer.error is not Error.NONE or answer.heartbeat_interval_ms == SHORT_HEARTBEAT_MS

    await_until(is_short)


def let_sessions_end(
    play: PairedPlay,
    group_type: str,
    heartbeats: Sequence[Request],
    described: Request,
    session_ms: int,
    settings: Mapping[str, int],
    going: Sequence[Request] = (),
) -> None:
    """Sends the `heartbeats`, which change nothing, and then none, until the broker has removed all members; compares
    the records. `session_ms` is the session timeout that the coordinator has, `described` asks for the groups'
    descriptions, and `settings` are the other settings of the groups. `going` are sent right after the heartbeats."""
    for group_id in play.group_ids:
        set_for_group(play.connection, group_id, group_type, {**settings, "session.timeout.ms": SHORT_SESSION_MS})
    for request in heartbeats:
        await_short_heartbeats(play.connection, request)
        # The session of that heartbeat began before its answer was made, and the setting may be newer.
        play.connection.call(to_wire(request))
        play.now_ms += 1
        result = play.model.handle(request, now_ms=play.now_ms)
        written = play.read_at_least(len(result.records))
        play.compare(request, [*map(comparable_record, result.records)], [*map(comparable_record, written)])
    for request in going:
        play.ask(request)

    def is_empty() -> bool:
        answer: Any = from_wire(play.connection.call(to_wire(described)), described)
        return not any(group.members for group in answer.groups)

    await_until(is_empty)
    play.now_ms += session_ms
    play.go_on(described)
    play.compared["sequences that end in silence"] += 1
    play.compared["sessions that ended"] += len(heartbeats)
