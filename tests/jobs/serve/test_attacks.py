"""Goal: clients that ask much and take little hold no place of others, and whether the server lives is always
answered."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.gate.connections import ClientLimits
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.serve import app, events, health, slots
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.passwords import Passwords
from tests.jobs.serve.serving import CLUSTER, Client, fill, served
from tests.jobs.serve.test_entrance import basic, line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE, EVENTS = f"/clusters/{CLUSTER}", f"/api/v1/clusters/{CLUSTER}/events"
LONG = 120.0


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attacked")
    for number in range(20):
        fill(folder, f"g-{number}", "orders", "pod-b")
    return folder


@contextmanager
def sent(client: Client, data: bytes, source: str = "127.0.0.1") -> Iterator[socket.socket]:
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        found.bind((source, 0))
        found.settimeout(LONG)
        found.connect(("127.0.0.1", client.port))
        found.sendall(data)
        yield found


def question(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def test_unread_answers_hold_no_place(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: more connections than there are places, each with many questions whose answers are not read."""
    monkeypatch.setattr(app, "ANSWERED_AT_ONCE", 4)
    monkeypatch.setattr(app, "OF_ONE_ADDRESS", 4)
    with served(warehouse) as client, ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(sent(client, question(PAGE) * 500))
        assert client.get("/livez").status == 200
        while client.get(PAGE).status != 200:
            assert client.get("/livez").status == 200
        assert [client.get(PAGE).status for _ in range(5)] == [200] * 5


def test_a_burst_of_streams(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: many ask for events at once: no more than the bound have them, of one address no more than its share, and
    questions are answered. A stream that ends gives its place back."""
    monkeypatch.setattr(events, "CLIENTS_MAX", 4)
    monkeypatch.setattr(events, "OF_ONE_ADDRESS", 3)
    with served(warehouse) as client:
        with ExitStack() as stack:
            every = [stack.enter_context(sent(client, question(EVENTS))) for _ in range(30)]
            heads = [each.recv(12) for each in every]
            assert (heads.count(b"HTTP/1.1 200"), heads.count(b"HTTP/1.1 503")) == (3, 27)
            others = [stack.enter_context(sent(client, question(EVENTS), "127.0.0.2")) for _ in range(3)]
            assert sorted(each.recv(12) for each in others) == [b"HTTP/1.1 200", b"HTTP/1.1 503", b"HTTP/1.1 503"]
            assert client.get(PAGE).status == 200
        while True:
            with sent(client, question(EVENTS)) as again:
                if again.recv(12) == b"HTTP/1.1 200":
                    break


def test_health_needs_no_place(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: while questions take all places and all threads, /livez and /readyz are answered, and others are asked to
    come again, those of an address that has its share first."""
    monkeypatch.setattr(app, "ANSWERED_AT_ONCE", 8)
    monkeypatch.setattr(app, "OF_ONE_ADDRESS", 6)
    go_on, working = threading.Event(), threading.Semaphore(0)
    rows = Warehouse.rows

    def slow(self: Warehouse, cluster: str) -> object:
        working.release()
        go_on.wait(LONG)
        return rows(self, cluster)

    monkeypatch.setattr(Warehouse, "rows", slow)
    with served(warehouse) as client, ExitStack() as stack:
        every = [stack.enter_context(sent(client, question(PAGE))) for _ in range(10)]
        for _ in range(slots.THREADS):
            working.acquire()
        refused = client.get(PAGE)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert client.get("/livez").text == "ok\n"
        assert client.get("/readyz").text == "ok\n"
        elsewhere = stack.enter_context(sent(client, question(PAGE), "127.0.0.2"))
        go_on.set()
        heads = [each.recv(12) for each in every]
        assert (heads.count(b"HTTP/1.1 200"), heads.count(b"HTTP/1.1 503")) == (6, 4)
        assert elsewhere.recv(12) == b"HTTP/1.1 200"


def test_a_proxy_has_no_share(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the limit for a trusted proxy is the number of all places, since all users come from there."""
    from groupledger.jobs.serve.entrance import proxy_of

    for proxy, most in ((None, 1), (proxy_of("X-User", ["127.0.0.1"]), 3)):
        places = slots.Places(3, 1, proxy)
        with ExitStack() as stack:
            for _ in range(most):
                stack.enter_context(places.one({"client": ("127.0.0.1", 1), "headers": []}))
            with pytest.raises(slots.NoPlaceError):
                stack.enter_context(places.one({"client": ("127.0.0.1", 1), "headers": []}))
        stack.enter_context(places.one({"client": ("127.0.0.1", 1), "headers": []}))


def test_silent_connections(warehouse: Path) -> None:
    """Attack: twice as many connections as there may be, silent or in the middle of a head, without a password."""
    with served(warehouse, limits=ClientLimits(16, LONG, LONG, 1 << 26)) as client, ExitStack() as stack:
        for number in range(32):
            stack.enter_context(sent(client, b"GET /livez HTTP/1.1\r\nX: " * (number % 2)))
        assert client.get("/livez").status == 200
        assert client.get(PAGE).status == 200


def test_readiness(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the server is ready if its warehouse can be read, however long that takes, and lives all the same."""
    go_on, looks = threading.Event(), []
    clusters = Warehouse.clusters

    def looked(self: Warehouse) -> list[str]:
        looks.append(1)
        if len(looks) == 1:
            raise OutsideError("/data/w can't be read.")
        go_on.wait(LONG)
        return clusters(self)

    monkeypatch.setattr(health, "WAIT_S", 0.05)
    monkeypatch.setattr(Warehouse, "clusters", looked)
    with served(warehouse) as client:
        failed = [client.get("/readyz") for _ in range(3)]
        assert [(each.status, "/data/w" in each.text) for each in failed] == [(503, False)] * 3
        assert len(looks) == 1
        monkeypatch.setattr(health, "FRESH_S", 0.0)
        assert client.get("/readyz").text == "The ledger's tables can't be read at present.\n"
        assert client.get("/livez").status == 200
        go_on.set()
        while client.get("/readyz").status != 200:
            assert len(looks) < 100


def test_guessers(warehouse: Path, tmp_path: Path) -> None:
    """Attack: sixty guess without a pause. Who has the right password gets in at once, also when the file is touched
    meanwhile, and is not asked again."""
    file = tmp_path / "users"
    file.write_text(line("alice", "wonder"))
    is_over = threading.Event()
    with served(warehouse, Passwords(file)) as client:
        guessers = [threading.Thread(target=guess, args=(client, number, is_over)) for number in range(60)]
        for each in guessers:
            each.start()
        alice = HTTPConnection("127.0.0.1", client.port, LONG, source_address=("127.0.0.2", 0))
        statuses = []
        for number in range(10):
            if number == 5:
                file.touch()
            alice.request("GET", PAGE, headers={"Authorization": basic("alice", "wonder")})
            answer = alice.getresponse()
            answer.read()
            statuses.append(answer.status)
        is_over.set()
        alice.close()
        for each in guessers:
            each.join(LONG)
    assert statuses == [200] * 10


def guess(client: Client, number: int, is_over: threading.Event) -> None:
    while not is_over.is_set():
        assert client.get(PAGE, Authorization=basic("alice", f"bad-{number}")).status in {401, 503}
