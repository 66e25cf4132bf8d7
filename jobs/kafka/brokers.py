"""Sends requests to chosen brokers, many at once and within limits, over kafka-python's connections, without its admin
client.

The admin client asks one broker after another, raises if one partition of hundreds has an error, and knows no
ConsumerGroupDescribe. So only its layer of connections is used here (`kafka.net`), with the same security settings.

Each broker gets one request at a time and several brokers are asked at once, so that a dead broker delays no other.

kafka-python asks the brokers that it knows for the addresses of all brokers, and asks nobody if it reaches none of
them. So it would never find a cluster whose brokers have all come back at other addresses (tried with kafka-python
3.0.12, which has no `metadata.recovery.strategy` of KIP-899). So if no connection is left, the bootstrap servers are
asked again.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kafka.errors import KafkaError, UnknownBrokerIdError
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from groupledger.jobs.kafka.login import kafka_python_security
from groupledger.jobs.process.errors import OutsideError
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from groupledger.jobs.process.settings import SamplingSettings, Settings

# As kafka-python's admin client; the connections' own default of 1 MB is less than the answer about a large group.
RECEIVE_BYTES_MAX = 100_000_000

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Brokers(Protocol):
    """The cluster as a sampling round needs it: a list of its brokers, and a way to send them requests."""

    def nodes(self) -> list[int]:
        """Returns the ids of the brokers that are known."""
        ...

    def send(self, request: Any, node: int | None = None) -> Any:
        """Returns the response of the broker `node`, or of any broker if it is None. Raises KafkaError if there is
        none."""
        ...


@contextmanager
def connect(bootstrap_servers: str, settings: Settings) -> Iterator[Connections]:
    """Yields connections to the brokers, to be used for as long as the caller needs brokers: a lost connection is
    restored by the next request. Raises OutsideError if no broker answers."""
    timeout_ms = settings.sampling.request_timeout_ms
    net = NetworkSelector()
    manager = KafkaConnectionManager(
        net,
        bootstrap_servers=bootstrap_servers.split(","),
        client_id="groupledger",
        request_timeout_ms=timeout_ms,
        socket_connection_setup_timeout_ms=timeout_ms,
        reconnect_backoff_max_ms=timeout_ms,
        receive_message_max_bytes=RECEIVE_BYTES_MAX,
        **kafka_python_security(settings.kafka),
    )
    net.start()
    try:
        manager.bootstrap(settings.kafka.request_timeout_ms)
        yield Connections(manager, settings.kafka.request_timeout_ms)
    except KafkaError as error:
        raise OutsideError(
            f"No broker answers at {bootstrap_servers} ({type(error).__name__}): check the address, the listener and"
            " the security settings."
        ) from error
    finally:
        manager.close()
        net.stop()


class Connections:
    def __init__(self, manager: Any, bootstrap_timeout_ms: int) -> None:
        self._manager = manager
        self._bootstrap_timeout_ms = bootstrap_timeout_ms

    def nodes(self) -> list[int]:
        return [broker.node_id for broker in self._manager.cluster.brokers()]

    def send(self, request: Any, node: int | None = None) -> Any:
        try:
            return self._manager.run(self._manager.send, request, node)
        except UnknownBrokerIdError:
            # A broker that has joined since; the client would hear of it within minutes only.
            self._manager.cluster.request_update()
            raise
        except KafkaError:
            # Nobody waits for it: who asks again finds the brokers that it has found.
            self._manager.call_soon(self._bootstrap_if_alone)
            raise

    def _bootstrap_if_alone(self) -> None:
        """Asks the servers that were given where the brokers are, in the thread of the connections, unless one of the
        known brokers is connected."""
        if not self._manager.least_used_connections():
            self._manager.bootstrap_async(self._bootstrap_timeout_ms)


def ask_each(
    settings: SamplingSettings, questions: Mapping[int, Question], ask: Callable[[int, Question], Answer]
) -> dict[int, Answer | KafkaError]:
    """Calls `ask` for each broker and its question, for several brokers at once. Returns the results or errors by
    broker."""
    with ThreadPoolExecutor(settings.brokers_at_once, thread_name_prefix="sampling") as pool:
        answers = pool.map(lambda node: answer_or_error(ask, node, questions[node]), questions)
        return dict(zip(questions, answers, strict=True))


def answer_or_error(ask: Callable[..., Answer], *arguments: Any) -> Answer | KafkaError:
    try:
        return ask(*arguments)
    except KafkaError as error:
        return error


def attempts(settings: SamplingSettings) -> Iterator[int]:
    """Yields the numbers of the attempts from 0; between them it waits, each time twice as long."""
    for number in range(settings.attempts):
        if number:
            time.sleep(settings.retry_backoff_ms * 2 ** (number - 1) / 1000)
        yield number


def error_name(error: KafkaError | type[KafkaError]) -> str:
    """Returns Kafka's name of an error, or the fitting name for an error which the client itself detected."""
    name = getattr(error, "message", None)
    return str(name) if name else Error.BROKER_NOT_AVAILABLE.name
