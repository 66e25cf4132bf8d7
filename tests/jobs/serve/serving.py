"""Serves a warehouse of the tests on a free port of this machine, and asks it as a client would."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from deltalake import write_deltalake

from groupledger.jobs.gate.connections import ClientLimits
from groupledger.jobs.gate.server import gated, listening
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.app import make_app
from groupledger.jobs.serve.guards import LOOPBACK
from groupledger.schemas.definitions import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.serve.entrance import Proxy
    from groupledger.jobs.serve.oidc import Oidc
    from groupledger.jobs.serve.passwords import Passwords

CLUSTER = "east"
AT = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
LIMITS = ClientLimits(connections=100, head_s=60, answer_s=60, unread_bytes=1 << 26)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Client(NamedTuple):
    port: int

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            reported = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, reported, answer.read().decode())
        finally:
            connection.close()


@contextmanager
def served(
    warehouse: Path | str,
    passwords: Passwords | None = None,
    proxy: Proxy | None = None,
    limits: ClientLimits = LIMITS,
    settings: Settings | None = None,
    *,
    oidc: Oidc | None = None,
    with_mcp: bool = False,
) -> Iterator[Client]:
    asked = Warehouse(str(warehouse), settings or load_settings())
    app = make_app(asked, LOOPBACK, passwords, proxy, oidc=oidc, with_mcp=with_mcp)
    socket = listening("127.0.0.1", 0)  # from here on a client waits until the server is ready
    server = gated(app, limits)
    thread = threading.Thread(target=server.run, args=([socket],))
    thread.start()
    try:
        yield Client(socket.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(timeout=120)
        socket.close()


def write(warehouse: Path, table: str, *rows: dict[str, Any]) -> None:
    found = pa.Table.from_pylist([{"cluster": CLUSTER, **row} for row in rows], schema_of(table))
    write_deltalake(str(warehouse / table), found, mode="append")


def fill(warehouse: Path, name: str, topic: str, member: str) -> None:
    """Writes a group that has rebalanced once: at AT its member took partition 0, five minutes later it gave it up."""
    group = {"group_id": name, "kafka_partition": 7}
    write(
        warehouse,
        "groups",
        {**group, "group_type": "classic", "is_alive": True, "incarnation": 1, "first_seen_at": AT, "last_seen_at": AT},
    )
    stretch = {"completeness": "complete", "from_offset": 0, "to_offset": 100, "from_time": AT}
    write(warehouse, "coverage", {"kafka_partition": 7, **stretch, "to_time": AT + 10 * MINUTE})
    generation = {"group_id": name, "incarnation": 1, "protocol": "range", "is_ownership_known": True, "revision": 0}
    write(
        warehouse,
        "generations",
        generation
        | {"generation": 1, "kafka_offset": 1, "to_offset": 5, "owned_count": 1, "member_count": 1}
        | {"started_at": AT, "ended_at": AT + 5 * MINUTE},
        generation
        | {"generation": 2, "kafka_offset": 5, "owned_count": 0, "member_count": 0, "started_at": AT + 5 * MINUTE},
    )
    of_member = {"group_id": name, "incarnation": 1, "member_id": member, "client_id": "x", "client_host": "/h"}
    write(warehouse, "members", of_member | {"from_offset": 1, "to_offset": 5})
    write(
        warehouse,
        "assignments",
        {
            "group_id": name,
            "incarnation": 1,
            "topic": topic,
            "partition": 0,
            "member_id": member,
            "other_member_ids": [],
        }
        | {"from_offset": 1, "to_offset": 5, "valid_from": AT, "valid_to": AT + 5 * MINUTE}
        | {"is_start_known": True, "is_end_known": True},
    )
    write(
        warehouse,
        "rebalances",
        {"group_id": name, "incarnation": 1, "from_generation": 1, "to_generation": 2, "kafka_offset": 5}
        | {"happened_at": AT + 5 * MINUTE, "inferred_trigger": "left", "changes": []},
    )
    sampled_at = AT + MINUTE
    lag = {"group_id": name, "topic": topic, "sampled_at": sampled_at, "sample_date": sampled_at.date(), "flags": []}
    lag |= {"committed_offset": 5, "high_watermark": 12, "burrow_status": "WARN", "status": "growing", "owner": member}
    write(warehouse, "lag", lag | {"partition": 0, "lag": 7})
    write(
        warehouse,
        "watermarks",
        {"topic": topic, "partition": 0, "high_watermark": 12, "sampled_at": sampled_at}
        | {"sample_date": sampled_at.date()},
    )
    write(
        warehouse,
        "incidents",
        {"group_id": name, "kind": "session_expired", "severity": "warning", "is_open": True, "occurrences": 1}
        | {
            "incident_id": name,
            "evidence": "observed",
            "confidence": 1.0,
            "episode_id": name,
            "first_seen_at": AT + 5 * MINUTE,
            "last_seen_at": AT + 5 * MINUTE,
        }
        | {"explanation": f"{member} fell silent.", "probable_root": "session_expired", "setting_to_change": "s"},
    )
    spared = dict.fromkeys(("observed_low", "observed_high", "spared_high"), 3.0) | {"spared_low": 1.6}
    asked = {"group_id": name, "run_id": name, "ran_at": AT + 9 * MINUTE}
    write(
        warehouse,
        "what_if_effects",
        {**asked, "setting": "consumer", "refusal": f"{member} can't be computed."},
        {**asked, "setting": "static", "rebalances": spared, "stopped_partition_seconds": spared},
    )
