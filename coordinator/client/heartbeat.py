"""The three timers of a member (Kafka's Heartbeat): the next heartbeat, the session, and the application's poll."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.client.network import backoff_ms

if TYPE_CHECKING:
    from groupledger.coordinator.client.config import ConsumerConfig


class Heartbeat:
    """The three timers of one member; each `*_ms` is the time at which a timer runs out. A heartbeat is sent even if
    the last one was not answered: only the session timer depends on responses."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        self._failures = 0
        self.due_ms = 0
        self.session_expires_ms = 0
        self.poll_expires_ms = 0

    def reset(self, now_ms: int) -> None:
        """Starts all three timers, because a generation begins."""
        self.due_ms = now_ms + self._config.heartbeat_interval_ms
        self.reset_session(now_ms)
        self.polled(now_ms)

    def reset_session(self, now_ms: int) -> None:
        self.session_expires_ms = now_ms + self._config.session_timeout_ms

    def polled(self, now_ms: int) -> None:
        self.poll_expires_ms = now_ms + self._config.max_poll_interval_ms

    def sent(self, now_ms: int) -> None:
        self.due_ms = now_ms + self._config.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        self._failures = 0
        self.reset_session(now_ms)

    def failed(self, now_ms: int) -> None:
        self.due_ms = now_ms + backoff_ms(self._config, self._failures)
        self._failures += 1

    def deadline_ms(self) -> int:
        return min(self.due_ms, self.session_expires_ms, self.poll_expires_ms)
