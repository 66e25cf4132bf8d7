"""What one operation of a coordinator gives to the outside: records for the log, responses, lines of the server log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.log_lines import LogEvent

if TYPE_CHECKING:
    from groupledger.coordinator.model.messages import Response
    from groupledger.schemas.codec.records import Record


@dataclass(slots=True, kw_only=True)
class Output:
    partition: int
    now_ms: int
    records: list[Record] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)
    events: list[LogEvent] = field(default_factory=list)

    def log(self, kind: str, **fields: Any) -> None:
        self.events.append(LogEvent(self.now_ms, self.partition, kind, fields))
