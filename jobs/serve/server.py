"""Runs the server until it is stopped."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from groupledger.jobs.gate.connections import ClientLimits
from groupledger.jobs.gate.server import gated, listening, room_for
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.signals import StopOnSignal
from groupledger.jobs.process.worker import Worker
from groupledger.jobs.serve.app import make_app
from groupledger.jobs.serve.guards import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from socket import socket as Socket

    import uvicorn

    from groupledger.jobs.process.settings import ServeSettings
    from groupledger.jobs.serve.answers import Warehouse
    from groupledger.jobs.serve.entrance import Proxy
    from groupledger.jobs.serve.oidc import Oidc
    from groupledger.jobs.serve.passwords import Passwords

STOP_WITHIN_S = 5
UNREAD_BYTES_MAX = 64 << 20
POLL_S = 0.2
PORT_MAX = 65_535


def serve(  # noqa: PLR0913 - one for each way to log in
    warehouse: Warehouse,
    listen: str,
    hosts: Collection[str],
    say: Callable[[str], None],
    *,
    passwords: Passwords | None = None,
    proxy: Proxy | None = None,
    oidc: Oidc | None = None,
    with_mcp: bool = False,
) -> None:
    """Serves at `listen`, which is `HOST:PORT`, until a signal stops it. It accepts requests whose Host header names
    that host, a loopback name, or one of `hosts`. `say` gets the messages for the operator. Raises InputError for an
    invalid address, OutsideError if it can't be listened at."""
    host, port = address(listen)
    if passwords is None and proxy is None and oidc is None and not is_loopback(host):
        say(
            f"groupledger asks nobody at {host} who is there: give --auth-file or --auth-header, or let nobody reach it"
        )
    names = {host.lower(), *LOOPBACK, *(each.lower() for each in hosts)}
    app = make_app(warehouse, names, passwords, proxy, oidc=oidc, with_mcp=with_mcp)
    server = gated(app, limits_of(warehouse.settings.serve, say), timeout_graceful_shutdown=STOP_WITHIN_S)
    try:
        socket = listening(host.strip("[]"), port)  # who asks from here on waits until the server is ready
    except OSError as error:
        raise OutsideError(f"The address {listen} can't be listened at: give another with --listen.") from error
    place = f"http://{host}:{socket.getsockname()[1]}"
    ready = f"groupledger serves {warehouse.place} at {place}: read only, until Ctrl-C"
    run_until_stopped(server, socket, lambda: say(ready))


def limits_of(settings: ServeSettings, say: Callable[[str], None]) -> ClientLimits:
    """Returns the limits for clients. If the process may not open as many connections as the settings allow, the limit
    is lower, and `say` gets a message."""
    room = room_for(settings.connections_max)
    if room < settings.connections_max:
        say(f"groupledger may open so few files that it takes {room} connections only: raise the limit (`ulimit -n`)")
    return ClientLimits(room, settings.head_timeout_s, settings.answer_timeout_s, UNREAD_BYTES_MAX)


def run_until_stopped(server: uvicorn.Server, socket: Socket, say_ready: Callable[[], None]) -> None:
    """Runs the server until a signal. It runs in a thread of its own, where it leaves signals to us; in the main thread
    it would handle them, and raise them again at its end. `say_ready` is called only once we handle signals, so that
    whoever reads its message can end the server: the shell of a background job has SIGINT ignored until then."""
    with StopOnSignal() as stop:
        say_ready()
        worker = Worker("server", lambda: server.run([socket]))
        worker.start()
        while worker.is_alive() and not stop.wait(POLL_S):
            pass
        server.should_exit = True
        worker.join()
        worker.check()


def address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise InputError(f"{listen} is no address: write one as 127.0.0.1:8080.")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Returns whether only this machine can reach the address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() in LOOPBACK
