"""Finds the name of a group, a client or a host in the rows of any table, and removes it.

Rows about a group are deleted with it. The name of a client or a host is replaced by the word `forgotten`. The rows
themselves stay: they are about groups, and without them a partition with an owner would look unowned.

The names of columns and fields, in the ledger's spelling and in Kafka's, say where a name occurs, since a topic may
have the same name as a client. In texts that people and clients wrote, the name is searched as a whole word. A member's
id begins with its client's id. Bytes that hold the name are deleted as a whole, except bytes that Kafka's own consumer
has written, which name topics only.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.history.rules import state
from groupledger.transforms.privacy import KNOWN_PROTOCOLS

FORGOTTEN = "forgotten"
GROUP, CLIENT, HOST = "group", "client", "host"

GROUPS = frozenset({"group_id", "group_ids", "groupId", "groupIds", "groups", "groupsNames"})
CLIENTS = frozenset({"client_id", "clientId"})
HOSTS = frozenset({"client_host", "clientHost", "host", "connection_id", "url", "leader_url"})
NAMES_OF = {GROUP: GROUPS, CLIENT: CLIENTS, HOST: HOSTS}
MEMBERS = frozenset(
    {
        *("member_id", "member_ids", "other_member_ids", "previous_member_id", "response_member_id", "leader"),
        *("owner", "owners", "revokers", "pending", "memberId", "memberIds", "held_by", "waits_for", "replaced_by"),
    }
)
BY_MEMBER = frozenset({"members", "steps", "targets", "targets_before", "causes"})
"""Fields of an open group's state whose keys are member ids."""
TEXTS = frozenset(
    {
        *("message", "reason", "client_reason", "line", "explanation", "details", "evidence", "row_key", "metadata"),
        *("inferred_trigger_explanation", "decode_error_detail", "committedMetadata", "statusDetail", "errorMessage"),
    }
)
BYTES = frozenset({"subscription", "assignment", "user_data", "userData", "metadata"})
JSON = frozenset({"record_json", "request_json", "response_json"})
STATE = "state"

BYTES_DROPPED = "; the bytes held a name that was forgotten"
_MEMBER_UUID = r"-[0-9A-Za-z_]{8}[0-9A-Za-z_-]{14,28}"


@dataclass(frozen=True)
class Forgotten:
    """A name to be forgotten: its kind (group, client or host), and the texts that mean it, including the hash if hosts
    are hashed."""

    kind: str
    names: tuple[str, ...]

    @property
    def patterns(self) -> tuple[bytes, ...]:
        """Returns byte strings: every value that holds the name, in clear text, JSON or base64, has one of them."""
        found: set[bytes] = set()
        for name in self.names:
            found |= {
                name.encode(),
                json.dumps(name)[1:-1].encode(),
                json.dumps(name, ensure_ascii=False)[1:-1].encode(),
            }
            for skipped in range(3):
                # In base64, the first and the last character also depend on the bytes before and after.
                text = base64.b64encode(bytes(skipped) + name.encode()).rstrip(b"=")
                found.add(text[(0, 2, 3)[skipped] : -1])
        return tuple(each for each in found if each)

    def is_of_group(self, row: dict[str, Any]) -> bool:
        return self.kind == GROUP and row.get("group_id") in self.names

    def out_of(self, row: dict[str, Any]) -> dict[str, Any]:
        """Returns a table's row with the name removed from all its columns; an equal row if none of them has the
        name."""
        found = {name: self._column(name, value) for name, value in row.items()}
        for name in ("raw_key", "raw_value"):
            if any(each.encode() in (row.get(name) or b"") for each in self.names):
                detail = (found["decode_error_detail"] or "").removesuffix(BYTES_DROPPED) + BYTES_DROPPED
                found |= {"raw_key": None, "raw_value": None, "decode_error_detail": detail}
        return found

    def _column(self, name: str, value: Any) -> Any:
        if value is None or name in ("raw_key", "raw_value"):
            return value
        if name in JSON:
            before = json.loads(value)
            after = self._without(name, before, keeps_bytes=_names_topics_only(before))
            return value if after == before else json.dumps(after)
        if name == STATE and isinstance(value, str) and value.startswith("{"):
            return state.dump(self._without(name, state.load(value)))
        return self._without(name, value)

    def _without(self, name: str, value: Any, *, keeps_bytes: bool = False) -> Any:
        if isinstance(value, str):
            return value if keeps_bytes and name in BYTES else self._of_text(name, value)
        if isinstance(value, TopicPartition):
            return value
        if isinstance(value, (list, tuple)):
            return type(value)(self._without(name, each, keeps_bytes=keeps_bytes) for each in value)
        if isinstance(value, dict):
            found = {}
            for key, each in value.items():
                inner = key if isinstance(key, str) else name
                new_key = self._of_text("member_id", key) if name in BY_MEMBER and isinstance(key, str) else key
                found[new_key] = self._without(inner, each, keeps_bytes=keeps_bytes)
            return found
        if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value, **{each.name: self._without(each.name, getattr(value, each.name)) for each in fields(value)}
            )
        return value

    def _of_text(self, name: str, value: str) -> str:
        if name in BYTES and self._is_in_base64(value):
            return ""
        if name in NAMES_OF[self.kind]:
            bare = value.removeprefix("/") if self.kind == HOST else value
            if bare in self.names:
                return FORGOTTEN
            return self._as_address.sub(FORGOTTEN, value) if self.kind == HOST else value
        if name in MEMBERS and self.kind == CLIENT:
            return self._as_member.sub(FORGOTTEN, value)
        return self._as_word.sub(FORGOTTEN, value) if name in TEXTS else value

    def _is_in_base64(self, value: str) -> bool:
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return False
        return any(name.encode() in data for name in self.names)

    @cached_property
    def _any(self) -> str:
        return "(?:" + "|".join(re.escape(name) for name in self.names) + ")"

    @cached_property
    def _as_word(self) -> re.Pattern[str]:
        ending = rf"(?:(?={_MEMBER_UUID})|(?![\w-]|\.\w))" if self.kind == CLIENT else r"(?![\w-]|\.\w)"
        return re.compile(rf"(?<![\w-])(?<!\w\.){self._any}{ending}")

    @cached_property
    def _as_member(self) -> re.Pattern[str]:
        return re.compile(rf"^{self._any}(?={_MEMBER_UUID}$)")

    @cached_property
    def _as_address(self) -> re.Pattern[str]:
        return re.compile(rf"(?<![\w.]){self._any}(?![\w.])")


def _names_topics_only(fields: dict[str, Any]) -> bool:
    """Returns whether the bytes in a record, or in a request, are those of Kafka's own consumer."""
    kind = fields.get("protocol_type", fields.get("protocolType"))
    offered = [each.get("name") for each in fields.get("protocols") or ()]
    chosen = fields.get("protocol", fields.get("protocolName"))
    return kind == "consumer" and {*offered, *([chosen] if chosen else [])} <= KNOWN_PROTOCOLS
