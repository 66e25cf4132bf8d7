"""Parses a script of faults, and decides which of them is due, at a time or with a request.

A script is YAML, a list under `faults`. Each fault has either `at_s`, the seconds after the start at which it happens,
or `request`, the API of the requests that trigger it. Of these requests only those of `group` and `client_id` count, if
the fault names them; the first `skip` of them do not trigger it, the next `times` do. And it has an action, `do`:

    expire        the sessions of the members of `group` with the client id `member` end; of all members without it
    rebalance     `group` begins a rebalance, as if its leader had asked for one
    move          another node coordinates `group`
    add_partitions   `topic` gets as many as `partitions`
    clock         the coordinator's clock runs at `rate` from now on
    disconnect    the connections of `client_id` are closed; if the fault has `request`, that of the request
    answer        the request is answered with `error`; the coordinator does not see it
    delay         the request is answered `delay_ms` later
    lose          the request is carried out, and the connection is closed instead of an answer

The last three need `request`. The others, if they have it, happen before the request is handled, so that
`{request: FETCH, skip: 3, do: expire, ...}` ends a session while a consumer asks for its next records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from groupledger.jobs.coordinator.requests import GROUP_REQUESTS
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.yaml_text import parse_yaml
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from pathlib import Path

    from groupledger.jobs.coordinator.frames import Incoming

Action = Literal["expire", "rebalance", "move", "add_partitions", "clock", "disconnect", "answer", "delay", "lose"]
_OF_A_REQUEST = ("answer", "delay", "lose")
_NEEDS = {
    "expire": "group",
    "rebalance": "group",
    "move": "group",
    "add_partitions": "topic",
    "clock": "rate",
    "answer": "error",
    "delay": "delay_ms",
}


class Fault(BaseModel):
    """A fault of the script. `seen` is the number of requests so far that its `request`, `group` and `client_id`
    match."""

    model_config = ConfigDict(extra="forbid")

    do: Action
    at_s: float | None = Field(default=None, ge=0)
    request: ApiKey | None = None
    group: str | None = None
    client_id: str | None = None
    member: str | None = None
    skip: int = Field(default=0, ge=0)
    times: int = Field(default=1, ge=1)
    error: Error | None = None
    delay_ms: int | None = Field(default=None, ge=1)
    topic: str | None = None
    partitions: int | None = Field(default=None, ge=1)
    rate: float | None = Field(default=None, ge=0.01, le=100)
    seen: int = Field(default=0, exclude=True)

    @field_validator("request", "error", mode="before")
    @classmethod
    def by_name(cls, value: Any, info: Any) -> Any:
        """Reads enum values by Kafka's names, as a log shows them."""
        names: Any = ApiKey if info.field_name == "request" else Error
        if isinstance(value, str) and value in names.__members__:
            return names[value]
        if value is None or isinstance(value, names):
            return value
        raise ValueError("must be a name of Kafka's in capitals, such as OFFSET_COMMIT or ILLEGAL_GENERATION")

    @model_validator(mode="after")
    def is_whole(self) -> Fault:
        if (self.at_s is None) == (self.request is None):
            raise ValueError("needs either at_s or request")
        if self.at_s is not None and self.do in _OF_A_REQUEST:
            raise ValueError(f"{self.do} needs `request` in place of at_s, since it concerns a request")
        needed = _NEEDS.get(self.do)
        if needed is not None and getattr(self, needed) is None:
            raise ValueError(f"{self.do} needs {needed}")
        if self.do == "add_partitions" and self.partitions is None:
            raise ValueError("add_partitions needs partitions")
        if self.do == "disconnect" and self.request is None and self.client_id is None:
            raise ValueError("disconnect needs client_id")
        if self.do == "answer" and self.request not in GROUP_REQUESTS:
            apis = ", ".join(sorted(api.name for api in GROUP_REQUESTS))
            raise ValueError(f"answer is for {apis}")
        return self

    def fits(self, incoming: Incoming) -> bool:
        """Returns whether this request triggers the fault, and counts the request if it matches. A `group` also matches
        requests that name no group, such as Fetch."""
        if self.request is not incoming.api or not self._is_of_client(incoming) or not self._is_of_group(incoming):
            return False
        self.seen += 1
        return self.skip < self.seen <= self.skip + self.times

    def _is_of_client(self, incoming: Incoming) -> bool:
        return self.client_id is None or self.client_id == incoming.client_id

    def _is_of_group(self, incoming: Incoming) -> bool:
        named = groups_of(incoming)
        return self.group is None or not named or self.group in named


def groups_of(incoming: Incoming) -> tuple[str, ...]:
    """Returns the ids of the groups that a request names."""
    body = incoming.body
    if incoming.api is ApiKey.DESCRIBE_GROUPS:
        return tuple(body.groups)
    if incoming.api is ApiKey.DELETE_GROUPS:
        return tuple(body.groups_names)
    if incoming.api is ApiKey.OFFSET_FETCH and body.groups:
        return tuple(each.group_id for each in body.groups)
    return (body.group_id,) if hasattr(body, "group_id") else ()


def read_faults(file: Path) -> list[Fault]:
    """Returns the faults in a file. Raises InputError if it is not a script of faults."""
    return faults_of(parse_yaml(file.read_text(encoding="utf-8"), file.name).get("faults"), file.name)


def faults_of(entries: Any, name: str) -> list[Fault]:
    """Returns the faults. Raises InputError for an invalid entry, with its number and the reason."""
    if not isinstance(entries, list):
        raise InputError(f"{name} must hold a list under `faults`: see `groupledger coordinator --help`.")
    faults = []
    for number, entry in enumerate(entries, 1):
        try:
            faults.append(Fault.model_validate(entry))
        except ValidationError as error:  # noqa: PERF203  # a script is short
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            message = first["msg"].removeprefix("Value error, ")
            raise InputError(f"{name}: fault {number}: {place}{': ' if place else ''}{message}.") from error
    return faults
