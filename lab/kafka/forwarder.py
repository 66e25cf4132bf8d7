"""Forwards connections to a broker, as a load balancer does: its address stays the same when the broker moves.

A client that knows only this address finds the broker through it. Then it connects to the address that the broker
advertises, past the forwarder. If the broker advertises the forwarder itself, every request goes through it, and can be
made slow.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

PIECE_BYTES = 1 << 16
CONNECT_S_MAX = 10


class Forwarder:
    """A context manager that forwards connections to `target`, the broker's present port on this machine. It passes
    each piece of bytes on `delay_s` after it came."""

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self.delay_s = 0.0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="forwarder", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for each in (self._listener, *self._open.copy()):
            with suppress(OSError):  # one that is not connected any more can't be shut down
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed: that is the end
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            broker = socket.create_connection(("127.0.0.1", self.target), CONNECT_S_MAX)
        except OSError:
            client.close()
            return
        broker.settimeout(None)
        self._open |= {client, broker}
        for ends in ((client, broker), (broker, client)):
            threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):  # either end is gone, and then so is the other
            while piece := source.recv(PIECE_BYTES):
                time.sleep(self.delay_s)
                sink.sendall(piece)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
            self._open.discard(each)
