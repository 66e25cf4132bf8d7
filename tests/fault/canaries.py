"""Secrets and addresses of clients that are looked for in all that a run leaves and shows.

The secrets are canaries: random texts that are in files, or in the environment, and nowhere else. They are a password
of SASL, the path of a webhook and its key, the key of the hashes, and the keys of an object store. The address and the
principal are in records of the topic, in bytes that can't be decoded, and in both logs of a broker."""

from __future__ import annotations

import base64
import json
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from click.testing import CliRunner
from confluent_kafka import Producer

from groupledger.jobs.cli.main import main
from groupledger.jobs.process.errors import NotKnownError
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.privacy import HASH, HASHED, Privacy
from lab.faults.processes import processes_of
from lab.warehouses.rows import group_metadata, offset_commit
from tests.fault.monitor import MonitorProcess
from tests.jobs.notify.receiving import receiving
from tests.jobs.serve.serving import served
from tests.transforms.logs.rules.test_request_log import ORDERS, REFUSED, commit
from tests.transforms.logs.rules.test_request_log import line as request_line
from tests.transforms.logs.rules.test_server_log import MEMBER as LOGGED_MEMBER
from tests.transforms.test_privacy import CANARY as CONNECT_HOST
from tests.transforms.test_privacy import CONNECT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.jobs.notify.receiving import Receiving

ADDRESS = "203.0.113.77"
PRINCIPAL = "canary-principal"
ASKED = (
    *(("incidents", "--severity", "info"), ("group", "g1"), ("groups", "--all"), ("records", "--json"), ("lag",)),
    *(("why", "g1"), ("rebalances", "--group", "g1"), ("committers",)),
    *(("sql", "SELECT * FROM members"), ("sql", "SELECT * FROM requests"), ("sql", "SELECT * FROM log_quarantine")),
    *(("owner", "g1", "orders", "0", "--at", "1s"), ("readers", "orders"), ("idle",)),
)
OF_GROUP = "/api/v1/clusters/test/groups/g1"
PAGES = (
    *("/", "/metrics", "/nothing", "/api/v1/clusters", "/api/v1/clusters/test/incidents", OF_GROUP),
    *(f"{OF_GROUP}/{name}" for name in ("members", "timeline", "rebalances", "incidents", "why", "lag", "offsets")),
)


@dataclass
class Canaries:
    """Texts that must not be found. `found` has where one was, by name of the canary."""

    texts: dict[str, str]
    found: list[str] = field(default_factory=list)

    def look(self, where: str, content: bytes | str) -> None:
        data = content.encode(errors="replace") if isinstance(content, str) else content
        for name, text in self.texts.items():
            if any(form in data for form in forms(text)):
                self.found.append(f"{name} in {where}")

    def look_at(self, monitor: MonitorProcess, given: dict[str, str]) -> None:
        """Looks at what anybody and what the same user sees of a monitor and its JVM: command lines, environments but
        for the variables that were given to it, and what it serves."""
        seen = [*processes_of(monitor.process.pid)]
        assert len(seen) > 1, "Python and Java"
        variables = {f"{name}={value}".encode() for name, value in given.items()}
        for process in seen:
            with suppress(OSError):  # it has ended
                self.look(f"{process}/cmdline", (process / "cmdline").read_bytes())
                environment = (process / "environ").read_bytes()
                self.look(f"{process}/environ", b"\0".join(set(environment.split(b"\0")) - variables))
        for path in ("/metrics", "/readyz", "/livez", "/"):
            self.look(path, monitor.fetch(path))

    def look_into(self, folder: Path) -> None:
        """Looks into all files, and into the rows of those that are compressed."""
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            try:
                self.look(str(path), path.read_bytes())
                if path.suffix == ".parquet":
                    self.look(str(path), repr(pq.read_table(path).to_pylist()))
            except FileNotFoundError:
                continue  # a temporary file of a process that runs


def forms(text: str) -> set[bytes]:
    """Returns the text, and its forms within any base64."""
    data = text.encode()
    inner = (base64.b64encode(bytes(shift) + data)[4 if shift else 0 :].rstrip(b"=")[:-2] for shift in range(3))
    return {data, *inner}


def produce(bootstrap_servers: str, password: str) -> None:
    """Writes a rewind, and records that hold the address: of members, of a worker of Connect, and undecodable ones."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    login |= {"sasl.username": "ledger", "sasl.password": password}
    producer = Producer({"bootstrap.servers": bootstrap_servers, "client.id": "__admin_client", **login})
    now_ms = int(time.time() * 1_000)
    member = {"client_host": f"/{ADDRESS}"}
    rows = [
        group_metadata(**member),
        *(offset_commit(partition=0, offset=offset, commit_timestamp_ms=now_ms) for offset in (90, 95, 5)),
        (b"\x00\x02\x00\x01g", b"\x00\x63" + ADDRESS.encode()),
        group_metadata("connect", subscription=CONNECT, **member),
        group_metadata("mine", subscription=ADDRESS.encode(), **member),
        group_metadata(**member),
    ]
    for key, value in rows:
        producer.produce(OFFSETS_TOPIC, value, key, partition=0)
    assert producer.flush(60) == 0


def write_logs(folder: Path) -> dict[str, list[str]]:
    """Writes both logs of a broker, with lines that can be read and others; returns the settings that name them."""
    seen = {"connection": f"127.0.0.1:9092-{ADDRESS}:51234-4-17", "principal": f"User:{PRINCIPAL}"}
    refused = commit([ORDERS], [REFUSED])
    begin, end = refused.index("{"), refused.rindex(" (")
    guarded = refused[:begin] + json.dumps({**json.loads(refused[begin:end]), **seen}) + refused[end:]
    unreadable = request_line(8, 9, f"User:{PRINCIPAL}", f"{ADDRESS}")
    (folder / "requests.log").write_text(f"{guarded}\n{unreadable}\n")
    whole = (
        f"Member MemberMetadata(memberId={LOGGED_MEMBER}, groupInstanceId=None, clientId=c, clientHost=/{ADDRESS}, "
        "sessionTimeoutMs=10000, rebalanceTimeoutMs=300000, supportedProtocols=List(range)) has left group g1"
        " through explicit `LeaveGroup`; client reason: not provided"
    )
    lines = (f"[2026-02-10 09:45:00,126] INFO [GroupCoordinator 1]: {text} (kafka.coordinator.group.GroupCoordinator)"
             for text in (whole, f"Something of /{ADDRESS} in group g1"))  # fmt: skip
    (folder / "server.log").write_text("\n".join(lines) + "\n")
    return {"request_logs": [str(folder / "requests.log")], "server_logs": [str(folder / "server.log")]}


def write_settings(folder: Path, canaries: Canaries, receiver: Receiving) -> Path:
    """Writes the secrets, each into a file, and settings that refer to them."""
    kept = folder / "secrets"
    kept.mkdir()
    texts = {name: canaries.texts[name] for name in ("password", "hash key", "hook key")}
    for name, text in (texts | {"hook": f"{receiver.url}/{canaries.texts['hook']}"}).items():
        (kept / name).write_text(text)
    of = {name: {"file": str(kept / name)} for name in (*texts, "hook")}
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "ledger"}
    chat = {"kind": "json", "url": of["hook"], "key": of["hook key"], "severity": "info"}
    settings = {
        "cluster": "test",
        "kafka": {**login, "sasl_password": of["password"]},
        "privacy": {"hosts": HASH, "principals": HASH, "hash_key": of["hash key"]},
        "metrics": {"member_labels": "client"},
        "monitor": {"history_interval_s": 5, "incidents_interval_s": 5},
        "logs": write_logs(kept),
        "notify": {"receivers": {"chat": chat}},
    }
    path = folder / "settings.yaml"
    path.write_text(json.dumps(settings))
    return path


def ask(*words: str) -> str:
    """Returns all that a command prints, and its error if it has one."""
    answer = CliRunner().invoke(main, ["--debug", *words])
    assert answer.exit_code in (0, 1, NotKnownError.exit_code), answer.output  # who owns it now, nobody has read yet
    return answer.output + repr(answer.exception)


def set_places(folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Sets the variables, for the processes that a test starts too, and a folder for temporary files."""
    (folder / "scratch").mkdir()
    for name, value in {**dict.fromkeys(("TMPDIR", "SPARK_LOCAL_DIRS"), str(folder / "scratch")), **variables}.items():
        monkeypatch.setenv(name, value)


def look_at_a_life(
    folder: Path, warehouse: Path | str, bootstrap_servers: str, password: str, store: dict[str, str]
) -> Canaries:
    """Lets a monitor live that logs in, reads records and logs with addresses, hashes them, and sends to a receiver
    (which first refuses); then everything is asked. Returns what was found of it, but for what lies in the warehouse.

    `store` are the secrets of an object store, by the variables of the environment that hold them for its clients.
    """
    secret = {name: secrets.token_hex(16) for name in ("hash key", "hook", "hook key")}
    canaries = Canaries({**secret, **store, "password": password, "address": ADDRESS, "principal": PRINCIPAL})
    canaries.texts["host of Connect"] = CONNECT_HOST
    seen = folder / "seen"
    seen.mkdir()
    produce(bootstrap_servers, password)
    with receiving() as receiver:
        settings = write_settings(folder, canaries, receiver)
        receiver.status = 500
        canaries.look("notify --test", ask("notify", "--test", "--conf", str(settings)))
        receiver.status, before = 200, len(receiver.bodies)
        options = ("--interval", "2s", "--conf", str(settings))
        with MonitorProcess(warehouse, bootstrap_servers, seen / "monitor.log", *options) as monitor:
            monitor.wait_until(lambda: len(receiver.bodies) > before, "a message")
            canaries.look_at(monitor, store)
            canaries.look_into(folder / "scratch")
            assert monitor.stop() == 143, monitor.words
    reported = [(path, headers.get("Authorization"), body) for path, headers, body in receiver.came]
    assert {(path, key) for path, key, _ in reported} == {(f"/{secret['hook']}", secret["hook key"])}
    canaries.look("messages", json.dumps([body for *_, body in reported]))
    for words in ASKED:
        canaries.look(" ".join(words), ask(*words, "--warehouse", str(warehouse)))
    canaries.look("report", ask("report", "--out", str(seen / "report.html"), "--warehouse", str(warehouse)))
    # It has read them: their hashes are there.
    hashed = Privacy(HASH, HASH, secret["hash key"].encode()).host(ADDRESS) or ""
    assert hashed.startswith(HASHED)
    with served(warehouse) as client:
        assert hashed in client.get(f"{OF_GROUP}/members").text
        for page in PAGES:
            canaries.look(page, repr(client.get(page)))
    hosts = "SELECT client_host FROM members UNION SELECT client_host FROM requests"
    assert hashed in ask("sql", hosts, "--warehouse", str(warehouse))
    canaries.look_into(seen)
    canaries.look_into(folder / "scratch")
    return canaries
