"""`python -m bench.fuzz_coordinator --inputs N --seed S` feeds hostile requests to the coordinator behind the socket.

Each input is a request of some API and version with random fields: extreme numbers, and names from a small set, so that
requests often concern the same group. At times bytes are changed, cut off or added. Nothing but MalformedError may be
raised, and afterwards the coordinator must answer as before. The memory of the process and the number of open
connections are printed now and then: they must not grow forever.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from random import Random
from typing import Any
from uuid import UUID

import click
from kafka.protocol.consumer.group import HeartbeatRequest, HeartbeatResponse

from groupledger.coordinator.model.config import Config
from groupledger.jobs.coordinator.apis import SERVED, Api
from groupledger.jobs.coordinator.frames import SIZE_BYTES, MalformedError
from groupledger.jobs.coordinator.service import ClientConnection, Service
from groupledger.jobs.coordinator.world import Address, World
from groupledger.schemas.kafka.errors import Error

NAMES = ("", "a", "b", "orders", "payments", "__consumer_offsets", "range", "consumer", "x" * 300, "é\U0001f600")
NUMBERS = (-(2**63), -(2**31), -(2**15), -128, -2, -1, 0, 1, 2, 5, 100, 127, 2**15 - 1, 2**31 - 1, 2**63 - 1)
BITS = {"int8": 8, "int16": 16, "uint16": 17, "int32": 32, "uint32": 33, "int64": 64}
LIST_MAX = 3
CONNECTIONS = 20
SAY_EVERY = 100_000
MINUTE_MS = 60_000


def value_of(field: Any, version: int, source: Random) -> Any:
    """Returns a random value of a field, null at times where that is allowed."""
    if field.nullable_for_version_q(version) and source.random() < 0.2:  # noqa: PLR2004
        return None
    if field.is_struct_array():
        return [
            filled(field.data_class, field.fields.values(), version, source) for _ in range(source.randrange(LIST_MAX))
        ]
    if field.is_struct():
        return filled(field.data_class, field.fields.values(), version, source)
    if field.is_array():
        return [value_of_type(field.array_of.type_str, source) for _ in range(source.randrange(LIST_MAX))]
    return value_of_type(field.type_str, source)


def value_of_type(kind: str, source: Random) -> Any:
    if kind == "string":
        return source.choice(NAMES)
    if kind == "bool":
        return source.random() < 0.5  # noqa: PLR2004
    if kind == "uuid":
        return UUID(int=source.choice((0, 1, source.getrandbits(128))))
    if kind in ("bytes", "records"):
        return source.randbytes(source.randrange(20))
    half = 1 << (BITS[kind] - 1)
    return max(-half, min(half - 1, source.choice(NUMBERS)))


def filled(kind: Any, fields: Any, version: int, source: Random) -> Any:
    present = [field for field in fields if field.for_version_q(version) and field.tag is None]
    return kind(**{field.name: value_of(field, version, source) for field in present})


def request(api: Api, version: int, source: Random) -> bytes:
    fields = [each for each in api.request.fields.values() if each.for_version_q(version) and each.tag is None]
    message = api.request(version=version, **{each.name: value_of(each, version, source) for each in fields})
    message.with_header(source.randrange(1000), source.choice(NAMES))
    encoded: bytes = message.encode(header=True)
    return encoded


def damaged(data: bytes, source: Random) -> bytes:
    changed = bytearray(data)
    match source.randrange(6):
        case 0:
            changed[source.randrange(len(changed))] = source.randrange(256)
        case 1:
            del changed[source.randrange(len(changed)) :]
        case 2:
            changed += source.randbytes(8)
        case 3:
            return source.randbytes(source.randrange(80))
    return bytes(changed)


class Target:
    """A coordinator whose connections are opened again when it has closed them."""

    def __init__(self, source: Random) -> None:
        config = Config(group_initial_rebalance_delay_ms=0, group_max_size=5)
        self.service = Service(World(config, 1, 1, 0, {"orders": 3, "payments": 2}, 60), say=lambda _: None)
        self.service.world.addresses[0] = Address("127.0.0.1", 9092)
        self.source = source
        self.now_ms = 0
        self.answers: list[bytes] = []
        self.connections = [self._connect(number) for number in range(CONNECTIONS)]

    def _connect(self, number: int) -> ClientConnection:
        connection = ClientConnection(number, 0, self.answers.append, lambda _: None)
        self.service.opened(connection)
        return connection

    def feed(self, data: bytes) -> str:
        """Sends a request over an idle connection; returns the outcome."""
        self.now_ms += self.source.choice((0, 0, 1, 10, 1_000))
        place = self.source.randrange(CONNECTIONS)
        if self.connections[place].pending is not None or not self.connections[place].is_open:
            self.service.closed(self.connections[place])
            self.connections[place] = self._connect(place)
        connection = self.connections[place]
        self.answers.clear()
        try:
            self.service.received(connection, data, self.now_ms)
        except MalformedError:
            self.service.end(connection, "malformed")
            return "refused"
        return "answered" if connection.pending is None else "waits"

    def is_alive(self) -> bool:
        heartbeat = HeartbeatRequest(version=4, group_id="nobody", generation_id=1, member_id="m")
        heartbeat.with_header(1, "check")
        probe = self._connect(CONNECTIONS)
        self.answers.clear()
        self.service.received(probe, heartbeat.encode(header=True), self.now_ms)
        self.service.closed(probe)
        answer = HeartbeatResponse.decode(self.answers[-1][SIZE_BYTES:], version=4, header=True)
        return bool(answer.error_code == Error.UNKNOWN_MEMBER_ID)


def run(inputs: int, seed: int) -> Counter[str]:
    """Sends the inputs; raises an unexpected error after printing its input."""
    source = Random(seed)  # noqa: S311  # the same inputs for the same seed
    target = Target(source)
    outcomes: Counter[str] = Counter()
    apis = list(SERVED.values())
    for number in range(inputs):
        api = source.choice(apis)
        version = source.randint(api.min_version, api.max_version)
        data = damaged(request(api, version, source), source)
        try:
            outcomes[target.feed(data)] += 1
        except Exception:
            click.echo(f"input {number}: {data.hex()}", err=True)
            raise
        if number % SAY_EVERY == SAY_EVERY - 1:
            assert target.is_alive(), f"input {number}"
            # Members whose clients are silent are removed, with the state that belongs only to them.
            target.now_ms += 10 * MINUTE_MS
            target.service.advance(target.now_ms)
            kept = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            click.echo(
                f"{number + 1:,} inputs, {kept:,.0f} MB at most, {len(target.service.connections)} connections",
                err=True,
            )
    assert target.is_alive()
    return outcomes


@click.command()
@click.option("--inputs", default=100_000, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(inputs: int, seed: int) -> None:
    began = time.monotonic()
    outcomes = run(inputs, seed)
    shown = ", ".join(f"{count:,} {what}" for what, count in sorted(outcomes.items()))
    click.echo(f"coordinator: {inputs:,} inputs of seed {seed} in {time.monotonic() - began:.0f} s: {shown}")


if __name__ == "__main__":
    main()
