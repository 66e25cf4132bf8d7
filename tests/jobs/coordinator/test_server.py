"""Hostile and clumsy clients: they lose their connection with a reason, and nobody else does."""

from __future__ import annotations

import socket
import struct
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer.group import HeartbeatRequest, HeartbeatResponse, JoinGroupRequest
from kafka.protocol.metadata.metadata import MetadataRequest

from bench import fuzz_coordinator
from groupledger.coordinator.model.config import Config
from groupledger.jobs.coordinator import server
from groupledger.jobs.coordinator.apis import SERVED
from groupledger.jobs.coordinator.frames import SIZE_BYTES
from groupledger.jobs.coordinator.service import Service
from groupledger.jobs.coordinator.testing import TestCoordinator, coordinator
from groupledger.jobs.coordinator.world import World
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from io import BufferedReader


def connect(kafka: TestCoordinator) -> socket.socket:
    host, _, port = kafka.bootstrap_servers.split(",")[0].rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=60)


def framed(request: Any, correlation_id: int = 1) -> bytes:
    request.with_header(correlation_id, "app-1")
    encoded: bytes = request.encode(header=True, framed=True)
    return encoded


def heartbeat(correlation_id: int) -> bytes:
    return framed(HeartbeatRequest(version=4, group_id="g", generation_id=1, member_id="m"), correlation_id)


def join() -> JoinGroupRequest:
    return JoinGroupRequest(
        version=3,
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=bytes(10))],
    )


def receive(answers: BufferedReader) -> Any:
    size = int.from_bytes(answers.read(SIZE_BYTES), "big")
    return HeartbeatResponse.decode(answers.read(size), version=4, header=True)


def ask(connection: socket.socket, correlation_id: int) -> Any:
    """Sends a heartbeat, and returns its answer."""
    connection.sendall(heartbeat(correlation_id))
    with connection.makefile("rb") as answers:
        return receive(answers)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", server.REQUEST_BYTES_MAX + 1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhi", 10, 999, 0, 1) + b"\0\0",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_no_request_ends_its_connection(data: bytes) -> None:
    """Its connection is closed; another one is answered as before."""
    with (
        coordinator({"orders": 1}, nodes=1) as kafka,
        closing(connect(kafka)) as clumsy,
        closing(connect(kafka)) as other,
    ):
        clumsy.sendall(data)
        assert is_closed(clumsy)
        answer = ask(other, 5)
        assert (answer.header.correlation_id, answer.error_code) == (5, Error.UNKNOWN_MEMBER_ID)


def test_a_frame_in_pieces() -> None:
    """A request may come byte by byte, and two may come at once; each is answered, in turn."""
    with coordinator({"orders": 1}, nodes=1) as kafka, closing(connect(kafka)) as connection:
        for byte in heartbeat(1):
            connection.sendall(bytes([byte]))
        connection.sendall(heartbeat(2) + heartbeat(3))
        with connection.makefile("rb") as answers:
            assert [receive(answers).header.correlation_id for _ in range(3)] == [1, 2, 3]


def test_a_client_that_goes_while_its_request_waits() -> None:
    """A join that waits goes on without its client, as in Kafka: the member is there until its session ends."""
    with coordinator({"orders": 1}, nodes=1, config=Config(group_initial_rebalance_delay_ms=60_000)) as kafka:
        with closing(connect(kafka)) as connection:
            connection.sendall(framed(join()))
            kafka.until(lambda: kafka.group("g") is not None, "the member to wait")
        kafka.until(lambda: kafka.connection_count() == 0, "the connection to be gone")
        seen = kafka.group("g")
        assert seen is not None
        assert len(seen.members) == 1


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(sorted(SERVED)), st.integers(0, 12), st.binary(max_size=60)), max_size=20))
def test_any_bytes_leave_the_server_alive(requests: list[tuple[int, int, bytes]]) -> None:
    """Whatever comes, the next client is answered."""
    with coordinator({"orders": 1}, nodes=1) as kafka:
        for api, version, body in requests:
            with closing(connect(kafka)) as hostile:
                hostile.sendall(struct.pack(">ihhi", 8 + len(body), api, version, 1) + body)
        with closing(connect(kafka)) as connection:
            assert ask(connection, 9).error_code == Error.UNKNOWN_MEMBER_ID


def test_more_connections_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that has asked for nothing goes for a new one, then the one that was idle the longest; one that waits for
    an answer stays."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    slow = Config(group_initial_rebalance_delay_ms=60_000)
    with (
        coordinator({"orders": 1}, nodes=1, config=slow) as kafka,
        closing(connect(kafka)) as waiting,
        closing(connect(kafka)) as honest,
        closing(connect(kafka)) as silent,
    ):
        waiting.sendall(framed(join()))
        kafka.until(lambda: kafka.group("g") is not None, "the member to wait")
        ask(honest, 1)
        with closing(connect(kafka)) as second:
            assert is_closed(silent)
            ask(second, 2)
            ask(honest, 3)
            with closing(connect(kafka)) as third:
                assert is_closed(second)
                ask(third, 4)
                assert ask(honest, 5).header.correlation_id == 5
                waiting.settimeout(0.01)
                with pytest.raises(TimeoutError):
                    waiting.recv(1)


def test_requests_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of incomplete requests are bounded over all connections: the connection that holds most is closed. A
    request that stands still ends its connection, and so does a long time without a request."""
    monkeypatch.setattr(server, "BUFFERED_BYTES_MAX", 1 << 16)
    begun = struct.pack(">i", 1 << 20)
    with (
        coordinator({"orders": 1}, nodes=1) as kafka,
        closing(connect(kafka)) as larger,
        closing(connect(kafka)) as smaller,
    ):
        larger.sendall(begun + bytes(40_000))
        smaller.sendall(begun + bytes(30_000))
        assert is_closed(larger)
        with closing(connect(kafka)) as other:
            assert ask(other, 1).header.correlation_id == 1
    monkeypatch.setattr(server, "REQUEST_WITHIN_S", 0.0)
    with coordinator({"orders": 1}, nodes=1) as kafka, closing(connect(kafka)) as slow, closing(connect(kafka)) as idle:
        slow.sendall(begun)
        assert is_closed(slow)
        assert kafka.connection_count() == 1
        monkeypatch.setattr(server, "IDLE_S_MAX", 0.0)
        assert is_closed(idle)


def send_many(connection: socket.socket, requests: bytes) -> None:
    for _ in range(2_000):
        connection.sendall(requests)


def test_answers_that_nobody_reads() -> None:
    """Who reads no answer is not listened to any more, so that none gather."""
    with coordinator({"orders": 1_000}, nodes=1) as kafka, closing(connect(kafka)) as greedy:
        greedy.settimeout(2)
        requests = framed(MetadataRequest(version=1, topics=None)) * 10_000
        with pytest.raises(TimeoutError):
            greedy.sendall(requests * 100)
        with closing(connect(kafka)) as other:
            assert ask(other, 1).header.correlation_id == 1


def test_requests_of_too_many_values() -> None:
    """A request of hundreds of thousands of names ends its connection before anything is made of them."""
    names = 200_000
    with (
        coordinator({"orders": 1}, nodes=1) as kafka,
        closing(connect(kafka)) as greedy,
        closing(connect(kafka)) as other,
    ):
        body = struct.pack(">hhih", ApiKey.METADATA, 0, 1, 0) + struct.pack(">i", names) + bytes(2 * names)
        greedy.sendall(struct.pack(">i", len(body)) + body)
        assert is_closed(greedy)
        assert ask(other, 5).header.correlation_id == 5


@pytest.mark.parametrize("listen", ["9092", "localhost:", ":9092", "localhost:port", "localhost:65536"])
def test_what_is_no_address(listen: str) -> None:
    """It is reported with an example."""
    with pytest.raises(InputError, match="--listen needs HOST:PORT"):
        server.host_and_port(listen)


def test_a_port_that_is_taken() -> None:
    """It is reported in a sentence."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(OutsideError, match="can't be listened on"),
            coordinator({"orders": 1}, nodes=1, listen=listen),
        ):
            pass


def test_hostile_requests() -> None:
    """Requests of every API with random fields, half of them damaged, are answered or refused; `make fuzz` has more."""
    outcomes = fuzz_coordinator.run(5_000, 3)
    assert outcomes["answered"] > outcomes["waits"] > 0
    assert outcomes["refused"] > 0


def test_ipv6() -> None:
    """An IPv6 address has brackets where a port follows, and none where it is listened on."""
    with coordinator({"orders": 1}, nodes=1, listen="[::1]:0") as kafka:
        assert kafka.bootstrap_servers.startswith("[::1]:")
        with closing(connect(kafka)) as connection:
            assert ask(connection, 1).error_code == Error.UNKNOWN_MEMBER_ID


def test_the_advertised_host() -> None:
    """Clients get the host that is advertised, and reach the coordinator by it."""
    clock = server.Clock()
    world = World(Config(), 1, 1, clock.now_ms(), {}, 0)
    said: list[str] = []
    listen = server.Listen("127.0.0.1:0", "localhost")
    with server.running(Service(world, say=said.append), clock, listen, said.append) as started:
        assert started.bootstrap_servers.startswith("localhost:")
        assert world.addresses[0].host == "localhost"
