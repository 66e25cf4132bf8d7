"""Runs moto's S3 server on a free port of this machine, and prints the port; it ends when its standard input does. It
needs moto, and nothing of ours.

    python s3_server.py

What moto itself does not do:
- A PUT is one step: moto looks first and writes then, which real stores with conditional writes don't.
- `POST /_control` with a JSON object sets what is broken. `ignores_conditions`: a PUT takes no notice of
  `If-None-Match`, as older stores do. `held`: a regular expression; the first PUT of a path that it finds waits for the
  next POST, and is then carried out, or with `is_dropped` is not; with `is_held_after` it is carried out at once, and
  its answer waits. `refused`: a conditional PUT of a path that it finds is answered by the `status`, `times` times.
- `GET /_control` says how many PUTs were held, and how many were conditional.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

from moto.server import DomainDispatcherApplication, create_backend_app  # type: ignore[import-not-found]
from werkzeug.serving import WSGIRequestHandler, make_server  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NO_PATH = r"(?!)"


class Quiet(WSGIRequestHandler):  # type: ignore[misc]
    """Logs nothing, and lets a client keep its connection."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        pass


class Server:
    """The application: moto's, with the planted faults before it."""

    def __init__(self) -> None:
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.set({})
        self.counts = {"held": 0, "conditional": 0}

    def set(self, wanted: Mapping[str, Any]) -> None:
        self.released.set()
        self.released = threading.Event()
        self.ignores_conditions = wanted.get("ignores_conditions", False)
        self.held = re.compile(wanted.get("held", NO_PATH))
        self.is_dropped = wanted.get("is_dropped", False)
        self.is_held_after = wanted.get("is_held_after", False)
        self.refused = re.compile(wanted.get("refused", NO_PATH))
        self.status = wanted.get("status", "")
        self.times_left = wanted.get("times", 0)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/_control":
            return self.control(environ, start_response)
        if environ["REQUEST_METHOD"] != "PUT":
            unchanged: Iterable[bytes] = self.moto(environ, start_response)
            return unchanged
        self.counts["conditional"] += "HTTP_IF_NONE_MATCH" in environ
        if self.ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        is_held, is_dropped, is_held_after = self.held.search(path), self.is_dropped, self.is_held_after
        if is_held:
            self.held = re.compile(NO_PATH)
            if not is_held_after:
                self.hold()
            if is_dropped:
                return error(environ, start_response, "503 Service Unavailable")
        if self.refused.search(path) and "HTTP_IF_NONE_MATCH" in environ and self.times_left:
            self.times_left -= 1
            return error(environ, start_response, self.status)
        with self.lock:
            answer = list(self.moto(environ, start_response))
        if is_held and is_held_after:
            self.hold()
        return answer

    def hold(self) -> None:
        released = self.released
        self.counts["held"] += 1
        released.wait()

    def control(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "POST":
            self.set(json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))))
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(self.counts).encode()]


def error(environ: dict[str, Any], start_response: Any, status: str) -> list[bytes]:
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response(status, [("Content-Length", "0")])
    return [b""]


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, Server(), threaded=True, request_handler=Quiet)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
