"""Finds the broker that coordinates the group, and gives it up again (the lookup half of Kafka's AbstractCoordinator).

There is one look-up request at a time. The application's thread and the heartbeat thread both look up when they need
to, and back off after a failure. A coordinator is given up when it answers that it is not the coordinator, when the
connection is lost, or when the session has expired. All responses that are then still expected from it are lost, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.coordinator.client.events import ClientError, CoordinatorDiscovered, CoordinatorUnknown
from groupledger.coordinator.client.messages import Destination, FindCoordinatorRequest, FindCoordinatorResponse
from groupledger.coordinator.client.network import backoff_ms
from groupledger.coordinator.client.reactions import RETRIABLE_ERRORS
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.client.events import Emit
    from groupledger.coordinator.client.heartbeat import Heartbeat
    from groupledger.coordinator.client.metadata import Metadata
    from groupledger.coordinator.client.network import Network
    from groupledger.coordinator.model.messages import Request, Response


class CoordinatorLookup:
    def __init__(
        self, config: ConsumerConfig, network: Network, metadata: Metadata, heartbeat: Heartbeat, emit: Emit
    ) -> None:
        self._config = config
        self._network = network
        self._metadata = metadata
        self._heartbeat = heartbeat
        self._emit = emit
        self._is_asked = False
        self._failures = 0
        self._next_ms = 0
        self._fatal: ClientError | None = None
        self._waiting: list[Callable[[bool, int], None]] = []
        self.is_known = False

    def ensure_known(self, now_ms: int) -> bool:
        """Returns whether the coordinator is known, and looks it up if not. Raises the fatal error of the last
        look-up."""
        if not self.is_known:
            if self._fatal is not None:
                fatal, self._fatal = self._fatal, None
                raise fatal
            self.ask_again(now_ms)
        return self.is_known

    def ask_again(self, now_ms: int) -> None:
        """Looks up the coordinator, unless the backoff after a failure forbids it. A fatal error is raised by the
        application's next call of `ensure_known`."""
        if now_ms >= self._next_ms:
            self._ask(now_ms)

    def when_answered(self, callback: Callable[[bool, int], None], now_ms: int) -> None:
        """Looks up the coordinator at once, and calls `callback` with whether it is then known and the time."""
        self._waiting.append(callback)
        self._ask(now_ms)

    def _ask(self, now_ms: int) -> None:
        if not self._is_asked:
            self._is_asked = True
            request = FindCoordinatorRequest(self._network.new_request_id(), self._config.group_id)
            self._network.send(Destination.BROKER, request, now_ms + self._config.request_timeout_ms, self._handle)

    def _handle(self, response: FindCoordinatorResponse | None, now_ms: int) -> None:
        self._is_asked = False
        if response is not None and response.error is Error.NONE:
            self.is_known = True
            self._failures = 0
            self._heartbeat.reset_session(now_ms)
            self._emit(CoordinatorDiscovered(now_ms, response.node_id))
        else:
            if response is not None and response.error not in RETRIABLE_ERRORS:
                self._fatal = ClientError(response.error, f"FindCoordinator failed: {response.error.name}")
            self._metadata.request_update()
            self._next_ms = now_ms + backoff_ms(self._config, self._failures)
            self._failures += 1
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback(self.is_known, now_ms)

    def give_up(self, reason: str, now_ms: int) -> None:
        """Drops the coordinator, with all responses still expected from it."""
        if self.is_known:
            self.is_known = False
            self._emit(CoordinatorUnknown(now_ms, reason))
            self._network.lose(Destination.COORDINATOR)

    def connection_lost(self, now_ms: int) -> None:
        self.give_up("the connection was lost", now_ms)

    def send(
        self,
        request: Request,
        now_ms: int,
        handler: Callable[[Any, int], None],
        lost: Callable[[int], None],
        timeout_ms: int = 0,
    ) -> None:
        """Sends a request to the coordinator, and calls `handler` with the response. If the connection breaks first,
        gives up the coordinator and calls `lost`."""

        def handle(response: Response | None, then_ms: int) -> None:
            if response is None:
                self.connection_lost(then_ms)
                lost(then_ms)
            else:
                handler(response, then_ms)

        deadline_ms = now_ms + max(timeout_ms, self._config.request_timeout_ms)
        self._network.send(Destination.COORDINATOR, request, deadline_ms, handle)

    def deadlines(self) -> list[int]:
        return [] if self.is_known or self._is_asked else [self._next_ms]
