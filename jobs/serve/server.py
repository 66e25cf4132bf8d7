"""Runs the server until it is told to stop."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

import uvicorn

from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.signals import StopOnSignal
from groupledger.jobs.process.worker import Worker
from groupledger.jobs.serve.app import make_app
from groupledger.jobs.serve.guards import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from socket import socket as Socket

    from groupledger.jobs.serve.answers import Warehouse
    from groupledger.jobs.serve.entrance import Proxy
    from groupledger.jobs.serve.passwords import Passwords

STOP_WITHIN_S = 5
POLL_S = 0.2
PORT_MAX = 65_535


def serve(
    warehouse: Warehouse,
    listen: str,
    hosts: Collection[str],
    say: Callable[[str], None],
    *,
    passwords: Passwords | None = None,
    proxy: Proxy | None = None,
) -> None:
    """Serves at an address, `HOST:PORT`, to those that ask for it by that host, or by one of `hosts`. Raises InputError
    for an address that is none, OutsideError if it is taken."""
    host, port = address(listen)
    if passwords is None and proxy is None and not is_loopback(host):
        say(
            f"groupledger asks nobody at {host} who is there: give --auth-file or --auth-header, or let nobody reach it"
        )
    config = uvicorn.Config(
        make_app(warehouse, {host.lower(), *LOOPBACK, *(each.lower() for each in hosts)}, passwords, proxy),
        host=host.strip("[]"),
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who asks is the peer, and not what X-Forwarded-For says
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )
    try:
        socket = config.bind_socket()
    except SystemExit as error:  # how uvicorn ends when the address is taken; it has logged why
        raise OutsideError(f"The address {listen} can't be listened at: give another with --listen.") from error
    socket.listen()  # who asks from here on waits until the server is ready
    place = f"http://{host}:{socket.getsockname()[1]}"
    ready = f"groupledger serves {warehouse.place} at {place}: read only, until Ctrl-C"
    run_until_stopped(uvicorn.Server(config), socket, lambda: say(ready))


def run_until_stopped(server: uvicorn.Server, socket: Socket, say_ready: Callable[[], None]) -> None:
    """Runs the server in a thread of its own, where it leaves signals to us: it would raise them again at its end.
    Whoever is told that it serves can end it: a background job's shell has SIGINT ignored until it is asked for."""
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
    """Returns whether only this machine reaches the address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() in LOOPBACK
