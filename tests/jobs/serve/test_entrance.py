"""Goal: with a file of passwords or a proxy's header, a client that is not let in sees nothing, and makes nobody
wait."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import bcrypt
import pytest
from click.testing import CliRunner

from groupledger.jobs.cli.main import main
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.serve import entrance, passwords
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.entrance import proxy_of
from groupledger.jobs.serve.passwords import Passwords, hashes_in
from groupledger.jobs.serve.server import is_loopback, serve
from tests.jobs.serve.serving import CLUSTER, Client, fill, served

if TYPE_CHECKING:
    from collections.abc import Iterator

PATHS = (f"/clusters/{CLUSTER}", f"/api/v1/clusters/{CLUSTER}/events", "/v3/kafka", "/static/page.css", "/nowhere")


def line(name: str, password: str) -> str:
    """Returns a line as `htpasswd -B -C 4` writes it: $2y$ is its name for $2b$ of others."""
    return f"{name}:{bcrypt.hashpw(password.encode()[:72], bcrypt.gensalt(4)).decode().replace('$2b$', '$2y$')}\n"


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    fill(folder, "pay", "orders", "pod-b")
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "users"
    found.write_text("# who may ask\n\n" + line("ann", "s3cret:ü") + line("bob", "b" * 80))
    return found


@pytest.fixture
def client(warehouse: Path, file: Path) -> Iterator[Client]:
    with served(warehouse, Passwords(file)) as found:
        yield found


def test_passwords(client: Client) -> None:
    """Goal: names with their passwords are let in; nobody else learns more than that the server lives."""
    for path in PATHS:
        refused = client.get(path)
        assert (refused.status, refused.json["detail"]) == (401, "Give a name and a password.")
        assert refused.headers["www-authenticate"].startswith("Basic ")
        assert "content-security-policy" in refused.headers
    assert client.get("/livez").status == 200
    page = PATHS[0]
    wrong = ["Basic", "Basic x", "Bearer abc", basic("ann", "s3cret"), basic("eve", "s3cret:ü"), basic("", "")]
    wrong += [basic("ann", "s3cret:ü\0"), basic("ann\0", "s3cret:ü"), basic("bob", "b" * 71)]
    assert {client.get(page, Authorization=each).status for each in wrong} == {401}
    for right in (basic("ann", "s3cret:ü"), basic("bob", "b" * 80), basic("ann", "s3cret:ü").replace("B", "b", 1)):
        assert client.get(page, Authorization=right).status == 200


def test_the_file_changes(client: Client, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Goal: a changed file holds from the next request on; a damaged one lets nobody in, and the log says so once."""
    ann = basic("ann", "s3cret:ü")
    assert client.get(PATHS[0], Authorization=ann).status == 200
    file.write_text(line("ann", "another") + line("cid", "c"))
    assert client.get(PATHS[0], Authorization=ann).status == 401
    assert client.get(PATHS[0], Authorization=basic("cid", "c")).status == 200
    file.write_text(line("cid", "c") + "dan:plain\n")
    reported = [client.get(PATHS[0], Authorization=basic("cid", "c")) for _ in range(2)]
    assert [answer.status for answer in reported] == [503, 503]
    assert "plain" not in reported[0].text
    said = capfd.readouterr().err
    assert said.count("Line 2 of") == 1
    assert "plain" not in said
    file.unlink()
    assert client.get(PATHS[0], Authorization=basic("cid", "c")).status == 503
    file.write_text(line("ann", "s3cret:ü"))
    assert client.get(PATHS[0], Authorization=ann).status == 200


def test_the_cost_of_a_try(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a right password is not computed again for a while, a wrong one always is, and an unknown name costs as
    much as a known one."""
    tried: list[bytes] = []
    check = bcrypt.checkpw

    def counted(password: bytes, wanted: bytes) -> bool:
        tried.append(wanted)
        return check(password, wanted)

    monkeypatch.setattr(bcrypt, "checkpw", counted)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    found = Passwords(file)
    assert [found.are_right("bob", b"b" * 80) for _ in range(3)] == [True] * 3
    assert len(tried) == 1
    now += passwords.REMEMBERED_S
    assert found.are_right("bob", b"b" * 80)
    assert len(tried) == 2
    assert [found.are_right(name, b"x") for name in ("bob", "eve", "eve")] == [False] * 3
    assert [wanted[4:6] for wanted in tried[2:]] == [b"04"] * 3
    assert not found.remembers("bob", b"x")


def test_nobody_waits(warehouse: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: while passwords are tried, who was let in is answered; when too many wait, the rest are asked to come
    again."""
    monkeypatch.setattr(entrance, "WAITING_MAX", 1)
    is_trying, go_on = threading.Event(), threading.Event()
    check = bcrypt.checkpw
    with served(warehouse, Passwords(file)) as client:
        ann = basic("ann", "s3cret:ü")
        assert client.get(PATHS[0], Authorization=ann).status == 200

        def slow(password: bytes, wanted: bytes) -> bool:
            is_trying.set()
            go_on.wait(60)
            return check(password, wanted)

        monkeypatch.setattr(bcrypt, "checkpw", slow)
        statuses: list[int] = []
        guesses = [
            threading.Thread(
                target=lambda: statuses.append(client.get(PATHS[0], Authorization=basic("bob", "x")).status)
            )
            for _ in range(3)
        ]
        for guess in guesses:
            guess.start()
        assert is_trying.wait(60)
        assert client.get(PATHS[0], Authorization=ann).status == 200
        assert client.get("/livez").status == 200
        while not statuses:
            time.sleep(0.01)
        assert statuses == [503]
        go_on.set()
        for guess in guesses:
            guess.join(60)
        assert sorted(statuses) == [401, 401, 503]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names nobody"),
        ("eve:$apr1$abc$defghijklmnopqrstuvwx.", "Line 1 of users is no name with a hash of bcrypt"),
        ("eve:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "htpasswd -B"),
        ("eve", "Line 1"),
        (line("eve", "x") + line("eve", "y"), "names eve twice"),
        (line("eve", "x").replace("$04$", "$17$"), "has a cost of 17"),
        (":" + line("", "x"), "Line 1"),
        ("\x1b[2J" + line("a", "x") + "b", "Line 2"),
    ],
    # A hash has a random salt, and both processes of a test run must give a test the same name.
    ids=["nothing", "apr1", "sha", "a name alone", "a name twice", "a high cost", "no name", "a control character"],
)
def test_lines(text: str, message: str) -> None:
    """Goal: a line that is not of bcrypt, or that costs too much, is refused in one sentence that shows no hash."""
    with pytest.raises(InputError) as raised:
        hashes_in(text, Path("users"))
    assert message in str(raised.value)
    assert "$" not in str(raised.value)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """Goal: a file that is not there, that is no text or that is far too large is refused in one sentence."""
    with pytest.raises(OutsideError, match="can't be read"):
        Passwords(tmp_path / "nowhere")
    file = tmp_path / "file"
    file.write_bytes(b"\xff:")
    with pytest.raises(InputError, match="is not UTF-8"):
        Passwords(file)
    with file.open("wb") as large:
        large.truncate(passwords.FILE_BYTES_MAX + 1)
    with pytest.raises(InputError, match="larger than 1 MiB"):
        Passwords(file)


@pytest.mark.parametrize(
    ("peers", "headers", "status"),
    [
        (["127.0.0.1"], {"X_User": "ann"}, 200),
        (["10.0.0.0/8", "127.0.0.0/8"], {"x_user": "ann"}, 200),
        (["127.0.0.1"], {"X_User": " "}, 403),
        (["127.0.0.1"], {}, 403),
        (["10.0.0.7", "::1"], {"X_User": "ann"}, 403),
        (["10.0.0.7"], {"X_User": "ann", "X_Forwarded_For": "10.0.0.7"}, 403),
    ],
)
def test_a_proxy(warehouse: Path, peers: list[str], headers: dict[str, str], status: int) -> None:
    """Goal: a header is believed of a peer that is trusted, and of no other, whatever the request says of itself."""
    with served(warehouse, proxy=proxy_of("X-User", peers)) as client:
        assert client.get(PATHS[0], **headers).status == status
        assert client.get("/livez").status == 200


def test_a_proxy_or_a_password(warehouse: Path, file: Path) -> None:
    """Goal: if a proxy and a password are both set up, one of them is enough."""
    with served(warehouse, Passwords(file), proxy_of("X-User", ["127.0.0.1"])) as client:
        assert client.get(PATHS[0], X_User="eve").status == 200
        assert client.get(PATHS[0]).status == 401
        assert client.get(PATHS[0], Authorization=basic("ann", "s3cret:ü")).status == 200


def test_peers() -> None:
    """Goal: a peer is the same by an IPv4 address inside of an IPv6 one; a header that comes twice is not believed."""
    proxy = proxy_of("X-User", ["10.0.0.7", "fe80::/10"])
    named = [(b"x-user", b"ann")]
    assert proxy.names({"client": ("::ffff:10.0.0.7", 1), "headers": named})
    assert proxy.names({"client": ("fe80::1%eth0", 1), "headers": named})
    assert not proxy.names({"client": ("10.0.0.8", 1), "headers": named})
    assert not proxy.names({"client": None, "headers": named})
    assert not proxy.names({"client": ("10.0.0.7", 1), "headers": named * 2})
    with pytest.raises(InputError, match="is no address of a proxy"):
        proxy_of("X-User", ["proxy.example"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--auth-header", "X-User"], "--auth-header and --trusted-proxy need each other"),
        (["--trusted-proxy", "10.0.0.7"], "--auth-header and --trusted-proxy need each other"),
        (["--auth-header", "X-User", "--trusted-proxy", "10.0.0.7/8"], "is no address of a proxy"),
        (["--auth-file", "nowhere"], "does not exist"),
        (["--auth-file", "users"], "Line 1 of users is no name with a hash of bcrypt"),
    ],
)
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    """Goal: the command refuses what keeps nobody out before it listens."""
    monkeypatch.chdir(tmp_path)
    Path("users").write_text("ann:plain\n")
    result = CliRunner().invoke(main, ["serve", "--warehouse", "w", "--listen", "127.0.0.1:0", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_the_command_serves(warehouse: Path, file: Path) -> None:
    """Goal: the command says where it serves, asks who is there, and ends when it is asked to."""
    arguments = ("serve", "--warehouse", str(warehouse), "--listen", "127.0.0.1:0", "--auth-file", str(file))
    with subprocess.Popen(
        [sys.executable, "-m", "groupledger.jobs.cli.main", *arguments], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        found = re.search(r"at http://127\.0\.0\.1:(\d+): read only", said)
        assert found is not None, said
        client = Client(int(found[1]))
        assert client.get(PATHS[0]).status == 401
        assert client.get(PATHS[0], Authorization=basic("ann", "s3cret:ü")).status == 200
        server.terminate()
        assert server.stderr.read() == ""


def test_who_is_warned(warehouse: Path, file: Path) -> None:
    """Goal: if others may reach the address and nobody has to log in, the start warns; only a loopback address is one
    that others don't reach."""
    for passwords_or_none, warnings in ((None, 1), (Passwords(file), 0)):
        said: list[str] = []
        with pytest.raises(OutsideError, match="can't be listened at"):  # an address that no machine has
            serve(
                Warehouse(str(warehouse), load_settings()),
                "203.0.113.1:0",
                (),
                said.append,
                passwords=passwords_or_none,
            )
        assert len(said) == warnings
        assert all("asks nobody at 203.0.113.1 who is there" in each for each in said)
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "[::1]", "localhost", "LOCALHOST")))
    assert not any(map(is_loopback, ("0.0.0.0", "[::]", "10.0.0.1", "pages.example")))  # noqa: S104
