"""Sends a request to an address of the settings, without following redirects, and describes failures without secrets.

Python's time limit applies to each step of an exchange, so a server that sends a byte now and then never exceeds it.
Here an exchange has a thread of its own, and one deadline for everything: looking up the name, connecting, TLS,
sending, and the whole answer. After the deadline its connections are closed, whatever it waits for.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http.client import HTTPException
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from groupledger.jobs.process.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ANSWER_BYTES_MAX = 2**20


class StatusError(OutsideError):
    """The server answered with an error status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"it answered with status {status}")
        self.status = status


def post(
    url: str, body: bytes, headers: Mapping[str, str], timeout_s: float, answer_bytes_max: int = ANSWER_BYTES_MAX
) -> bytes:
    """Returns the body of the answer to a POST, cut at `answer_bytes_max`; if that is 0, only the status is read. If
    there is no answer within `timeout_s`, raises an OutsideError whose text is only the end of a sentence, such as "it
    did not answer in time"; after an answer with an error status it is a StatusError."""
    request = Request(url, body, {"User-Agent": "groupledger", **headers}, method="POST")  # noqa: S310 - http(s)
    return _exchanged(request, timeout_s, answer_bytes_max)


def get(url: str, timeout_s: float, headers: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """Returns the body of the answer to a GET, cut at ANSWER_BYTES_MAX; otherwise as `post`."""
    request = Request(url, headers={"User-Agent": "groupledger", **headers})  # noqa: S310 - http(s)
    return _exchanged(request, timeout_s, ANSWER_BYTES_MAX)


def _exchanged(request: Request, timeout_s: float, answer_bytes_max: int) -> bytes:
    exchange = _Exchange(request, timeout_s, answer_bytes_max)
    exchange.start()
    exchange.join(timeout_s)
    exchange.break_off()
    if exchange.answer is None:
        raise exchange.why
    return exchange.answer


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follows nobody: body and headers go to the address of the settings, or nowhere."""


class _Exchange(threading.Thread):
    """An exchange; at its end it has an `answer`, or `why` there is none."""

    def __init__(self, request: Request, timeout_s: float, answer_bytes_max: int) -> None:
        super().__init__(name="exchange", daemon=True)
        self.answer: bytes | None = None
        self.why = OutsideError("it did not answer in time")
        self._request = request
        self._timeout_s = timeout_s
        self._answer_bytes_max = answer_bytes_max
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_over = False

    def run(self) -> None:
        opener = build_opener(_NoRedirect, _Http(self._connect), _Https(self._connect))
        answer, why = None, self.why
        try:
            with opener.open(self._request, timeout=self._timeout_s) as response:
                answer = response.read(self._answer_bytes_max)
        except HTTPError as error:
            error.close()
            why = StatusError(error.code)
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            why = OutsideError(getattr(reason, "strerror", None) or type(reason).__name__)
        with self._lock:
            if not self._is_over:
                self.answer, self.why = answer, why

    def break_off(self) -> None:
        """Stops the exchange at once. An answer that was read before counts; a later one is ignored."""
        with self._lock:
            self._is_over = True
            for each in self._sockets:
                with suppress(OSError):  # the other side may have been quicker
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
            self._sockets.clear()

    def _connect(self, *arguments: Any) -> socket.socket:
        """Returns a connection that can be broken: TLS takes the descriptor, and leaves its copy here."""
        connection = socket.create_connection(*arguments)
        with self._lock:
            if self._is_over:
                connection.close()
                raise TimeoutError
            self._sockets.append(connection.dup())
        return connection


class _Http(HTTPHandler):
    """Makes connections by the given function."""

    def __init__(self, connect: Callable[..., socket.socket]) -> None:
        super().__init__()
        self._connect = connect

    def do_open(self, http_class: Any, req: Request, **http_conn_args: Any) -> Any:
        def make(*arguments: Any, **named: Any) -> Any:
            made = http_class(*arguments, **named)
            made._create_connection = self._connect  # noqa: SLF001 - the only way to it that proxies and TLS keep
            return made

        return super().do_open(make, req, **http_conn_args)


class _Https(_Http, HTTPSHandler):
    def __init__(self, connect: Callable[..., socket.socket]) -> None:
        HTTPSHandler.__init__(self)
        self._connect = connect
