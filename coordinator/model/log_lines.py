"""Renders the lines that the coordinator writes to the server log at INFO or above.

The coordinator emits a `LogEvent` (kind and fields). `render` gives the text that a 4.2 broker writes, by the table of
`schemas.kafka.coordinator_log`, and `render_line` gives the whole line. Values are printed as Java prints them: null
for None, `[a, b]` for the toString of a set or list. They are not escaped, line breaks included, just as a broker does
not escape them: the text is a faithful copy of a server log, not a log of this program. Three fields differ from a
broker's: the identity hash of an empty byte array and elapsed milliseconds are 0, and a failed append shows the error's
name instead of its English message.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupledger.schemas.kafka.coordinator_log import CLASSES, CLASSIC, LEVELS, LOGGERS, OTHERS, prefix
from groupledger.schemas.kafka.log4j_line import render_log_line
from groupledger.schemas.kafka.log_template import formats_by_kind
from groupledger.schemas.kafka.rebalance_reasons import REASONS


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason of a rebalance, which is the last part of the line `preparing_rebalance`."""

    kind: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line of the broker's server log, not yet rendered."""

    happened_at_ms: int
    partition: int
    kind: str
    fields: Mapping[str, Any]


_EVENT_FORMATS = formats_by_kind((*CLASSIC, *OTHERS))
_REASON_FORMATS = formats_by_kind(REASONS)
_ALWAYS = {"duration_ms": "0"}  # all that the model does takes no time


def render(event: LogEvent | Reason) -> str:
    """Returns the text of a line or of a reason, without timestamp, level and logger."""
    formats = _REASON_FORMATS if isinstance(event, Reason) else _EVENT_FORMATS
    fields = _ALWAYS | {name: _java(value) for name, value in event.fields.items()}
    return next(each for each in formats[event.kind] if each.names <= fields.keys()).text.format_map(fields)


def render_line(event: LogEvent, *, broker_id: int) -> str:
    """Returns one line of server.log without its line end. Its time is in UTC."""
    message = prefix(broker_id, event.partition) + render(event)
    logger = LOGGERS[0] + CLASSES.get(event.kind, "GroupMetadataManager")
    return render_log_line(event.happened_at_ms, LEVELS.get(event.kind, "INFO"), message, logger)


def _java(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Reason):
        return render(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_java, value))}]"
    return str(value)
