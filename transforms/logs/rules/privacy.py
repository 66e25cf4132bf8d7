"""Principals and client addresses in logs: kept as they are, hashed with a key, or left out.

A hash is HMAC-SHA256: whoever has the key can look for an address, nobody else can try them all. Client ids, member
ids, group names and reasons are what the tables are about, and stay; so does what clients put into their own bytes. A
line that can't be read may hold anything: it is not stored unless everything is kept.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Any

KEEP, HASH, DROP = "keep", "hash", "drop"
DIGEST_CHARACTERS = 32
_HOST_IN_TEXT = re.compile(r"(?<=clientHost=)[^,)]*")
# Objects in requests and answers that hold an address of a client, by the name of the field that holds it.
_ENDPOINTS = {"userEndpoint": "host"}
_CLIENT_HOST = "clientHost"


@dataclass(frozen=True, slots=True)
class Privacy:
    """`principals` and `client_hosts` are keep, hash or drop. `key` is for hash only, and is never printed."""

    principals: str = KEEP
    client_hosts: str = KEEP
    key: bytes = b""

    def __repr__(self) -> str:
        return f"Privacy({self.principals}, {self.client_hosts})"

    @property
    def keeps_lines(self) -> bool:
        return self.principals == KEEP and self.client_hosts == KEEP

    @property
    def keeps_hosts(self) -> bool:
        return self.client_hosts == KEEP

    def principal(self, value: str | None) -> str | None:
        return self._guarded(value, self.principals)

    def host(self, value: str | None) -> str | None:
        return self._guarded(value, self.client_hosts)

    def hosts_in_text(self, text: str) -> str:
        """Returns a text with every client address guarded: the Scala coordinator prints whole members."""
        return text if self.keeps_hosts else _HOST_IN_TEXT.sub(lambda found: self.host(found[0]) or "", text)

    def hosts_in_json(self, node: Any) -> Any:
        """Returns a copy of parsed JSON with every client address guarded."""
        if isinstance(node, list):
            return [self.hosts_in_json(each) for each in node]
        if not isinstance(node, dict):
            return node
        return {name: self._field(name, value) for name, value in node.items()}

    def _field(self, name: str, value: Any) -> Any:
        if name == _CLIENT_HOST:
            return self.host(str(value))
        inner = _ENDPOINTS.get(name)
        if inner is not None and isinstance(value, dict):
            return {**value, inner: self.host(str(value.get(inner)))}
        return self.hosts_in_json(value)

    def _guarded(self, value: str | None, how: str) -> str | None:
        if value is None or how == KEEP:
            return value
        return None if how == DROP else keyed_digest(self.key, value)


def keyed_digest(key: bytes, value: str) -> str:
    return hmac.digest(key, value.encode(errors="surrogatepass"), "sha256").hex()[:DIGEST_CHARACTERS]
