"""Models the client's network: requests without a response, and responses that no thread has processed yet.

Responses wait until a thread serves the network, as in ConsumerNetworkClient. Then their handlers run, in the order of
arrival. A handler is called once, with the response, or with None if the connection was lost first. A request that is
not answered in time closes its connection, and so all other requests to the same destination are lost too
(NetworkClient#handleTimedOutRequests).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.client.messages import Sent

if TYPE_CHECKING:
    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.client.messages import Destination
    from groupledger.coordinator.model.messages import Request, Response

Handler = Callable[[Any, int], None]
"""A function that is called with the response or None, and with the time."""
_LARGEST_EXPONENT = 16  # every backoff has reached its limit long before


def backoff_ms(config: ConsumerConfig, attempts: int) -> int:
    """Returns the time to wait after `attempts` failures in a row before this one: Kafka's exponential backoff, without
    its random jitter of 20%."""
    grown = config.retry_backoff_ms << min(attempts, _LARGEST_EXPONENT)
    return min(grown, max(config.retry_backoff_ms, config.retry_backoff_max_ms))


@dataclass(frozen=True, slots=True)
class _InFlight:
    destination: Destination
    deadline_ms: int
    handler: Handler


class Network:
    def __init__(self, new_request_id: Callable[[], int]) -> None:
        self.new_request_id = new_request_id
        self._in_flight: dict[int, _InFlight] = {}
        self._unsent: list[Sent] = []
        self._arrivals: deque[Callable[[int], None]] = deque()

    def send(self, destination: Destination, request: Request, deadline_ms: int, handler: Handler) -> None:
        self._in_flight[request.request_id] = _InFlight(destination, deadline_ms, handler)
        self._unsent.append(Sent(destination, request))

    def take_requests(self) -> tuple[Sent, ...]:
        taken = tuple(self._unsent)
        self._unsent.clear()
        return taken

    def arrive(self, response: Response) -> None:
        self._arrivals.append(partial(self._complete, response.request_id, response))

    def lose(self, destination: Destination) -> None:
        """Loses the connection to a destination: unsent requests are dropped. When the network is next served, the
        handler of each request to it without a response is called with None."""
        self._unsent = [sent for sent in self._unsent if sent.destination is not destination]
        for request_id, request in self._in_flight.items():
            if request.destination is destination:
                self._arrivals.append(partial(self._complete, request_id, None))

    def when_served(self, callback: Callable[[int], None]) -> None:
        """Calls back when the network is served, after the responses that have already arrived."""
        self._arrivals.append(callback)

    def serve(self, now_ms: int) -> None:
        expired = {r.destination: None for r in self._in_flight.values() if r.deadline_ms <= now_ms}
        for destination in expired:
            self.lose(destination)
        while self._arrivals:
            self._arrivals.popleft()(now_ms)

    def _complete(self, request_id: int, response: Response | None, now_ms: int) -> None:
        request = self._in_flight.pop(request_id, None)
        if request is not None:
            request.handler(response, now_ms)

    def is_waiting_for(self, destination: Destination) -> bool:
        return any(request.destination is destination for request in self._in_flight.values())

    def deadlines(self) -> list[int]:
        return [request.deadline_ms for request in self._in_flight.values()]
