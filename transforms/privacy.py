"""Guards client hosts and principals. They are stored as they are, hashed with a key, or dropped. One setting applies
to records of `__consumer_offsets` and to logs before anything is written, and so to every table that is derived from
them.

A hash is HMAC-SHA256: only somebody who has the key can look for a host or try all hosts. Kafka writes the same host as
`/10.1.2.3` into a record and as `10.1.2.3` into a log; both forms have the same hash, so that their rows can still be
joined.

Client ids, member ids, group names, reasons and the metadata of commits are what the tables are about, and stay.
Content that can't be parsed may hold anything: unless all is kept, a line of a log that can't be read is stored without
its text, a record without its bytes, and the bytes of a member only if Kafka's own consumer has written them.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Any

from groupledger.schemas.codec.engine import UNKNOWN_TAGGED_FIELDS

KEEP, HASH, DROP = "keep", "hash", "drop"
HASHED = "h:"
DIGEST_CHARACTERS = 16
# The Scala coordinator prints whole members; other addresses are known by their form.
_HOST_OF_MEMBER = re.compile(r"(?<=clientHost=)[^,)]*")
_ADDRESS = re.compile(
    r"(?<![\w.-])/?[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w.-])"
    r"|(?<![\w.-])/?[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}"
)
# Fields of records, requests and answers that hold an address of a client: in the ledger's spelling and in Kafka's.
_HOSTS = frozenset({"client_host", "clientHost"})
# Connect's workers send each other where they listen.
_ADDRESSES = frozenset({"url", "leader_url"})
_ENDPOINTS = frozenset({"user_endpoint", "userEndpoint"})
# Assignors whose members' bytes hold topics and partitions, and no address.
KNOWN_PROTOCOLS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})


@dataclass(frozen=True, slots=True)
class Privacy:
    """The privacy setting. `principals` and `hosts` are keep, hash or drop. `key` is for hash only, and is never
    printed."""

    principals: str = KEEP
    hosts: str = KEEP
    key: bytes = b""

    def __repr__(self) -> str:
        return f"Privacy({self.principals}, {self.hosts})"

    @property
    def keeps_lines(self) -> bool:
        return self.principals == KEEP and self.hosts == KEEP

    @property
    def keeps_hosts(self) -> bool:
        return self.hosts == KEEP

    def principal(self, value: str | None) -> str | None:
        return self._guarded(value, self.principals)

    def host(self, value: str | None) -> str | None:
        return self._guarded(value, self.hosts)

    def hosts_in_text(self, text: str) -> str:
        """Returns a text in which every recognisable client address is kept, hashed or dropped."""
        if self.keeps_hosts:
            return text
        for pattern in (_HOST_OF_MEMBER, _ADDRESS):
            text = pattern.sub(lambda found: self.host(found[0]) or "", text)
        return text

    def hosts_in_json(self, node: Any) -> Any:
        """Returns a copy of parsed JSON, or of the fields of a record, in which every client address is kept, hashed or
        dropped."""
        if isinstance(node, list):
            return [self.hosts_in_json(each) for each in node]
        if not isinstance(node, dict):
            return node
        return {name: self._field(name, value) for name, value in node.items() if name != UNKNOWN_TAGGED_FIELDS}

    def hosts_in_record(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Returns a copy of the fields of a record in which every client address is kept, hashed or dropped. The bytes
        of a classic group's members are left out unless they are known to hold none."""
        guarded: dict[str, Any] = self.hosts_in_json(fields)
        is_known = guarded.get("protocol_type") == "consumer" and guarded.get("protocol") in KNOWN_PROTOCOLS
        if "protocol_type" in guarded and not is_known:
            guarded["members"] = [_without_bytes(member) for member in guarded["members"]]
        return guarded

    def _field(self, name: str, value: Any) -> Any:
        if name in _HOSTS or (name in _ADDRESSES and isinstance(value, str)):
            return self.host(str(value))
        if name in _ENDPOINTS and isinstance(value, dict):
            return {**self.hosts_in_json(value), "host": self.host(str(value.get("host")))}
        return self.hosts_in_json(value)

    def _guarded(self, value: str | None, how: str) -> str | None:
        if value is None or how == KEEP:
            return value
        return None if how == DROP else keyed_digest(self.key, value.removeprefix("/"))


def _without_bytes(member: dict[str, Any]) -> dict[str, Any]:
    found = {**member, "subscription": b"", "assignment": b""}
    if found.get("consumer_subscription"):
        found["consumer_subscription"] = {**found["consumer_subscription"], "user_data": None}
    if found.get("consumer_assignment"):
        found["consumer_assignment"] = {**found["consumer_assignment"], "user_data": None}
    return found


def keyed_digest(key: bytes, value: str) -> str:
    digest = hmac.digest(key, value.encode(errors="surrogatepass"), "sha256")
    return HASHED + digest.hex()[:DIGEST_CHARACTERS]
